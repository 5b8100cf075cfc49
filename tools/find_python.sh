#!/bin/sh
# Print the first working Python 3.11 or newer of those named; exit 2 with one line if none works.
#
#   sh tools/find_python.sh [PYTHON...]
#
# A Python works if it makes a virtual environment here and now: a version manager's shim can be on
# the PATH and fail, and a distribution can leave out venv or ensurepip.
set -u

# The Python that the user's shell means comes first, then the newest.
[ $# -gt 0 ] || set -- python3 python3.14 python3.13 python3.12 python3.11

scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for candidate in "$@"; do
    rm -rf "$scratch/venv"
    # Without pip it takes a twentieth of a second; that ensurepip is there says the rest.
    if "$candidate" -m venv --without-pip "$scratch/venv" >/dev/null 2>&1 &&
        "$scratch/venv/bin/python" -c '
import sys, ensurepip
sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        printf '%s\n' "$candidate"
        exit 0
    fi
done
echo "No working Python 3.11 or newer (tried: $*): install one with its venv module," \
    "on Debian or Ubuntu 'apt-get install python3 python3-venv'," \
    "or name one: 'make setup PYTHON=/path/to/python3'" >&2
exit 2
