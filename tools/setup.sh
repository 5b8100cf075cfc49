#!/bin/sh
# Build .venv with what constraints.txt says, and write the stamp once all of it is in place.
#
#   sh tools/setup.sh STAMP [PYTHON]
#
# STAMP is .venv/.ready-<key>; it holds the Python asked for, then the folder. Without a stamp, for
# another Python or in a folder that was moved, the environment is made anew; else it is brought up
# to date.
set -u

stamp=$1
python=${2:-}
venv=${stamp%/*}
started=$(date +%s)

fail() {
    echo "setup: $1" >&2
    exit 2
}

tab=$(printf '\t')
former=$(cat "$venv"/.ready-* 2>/dev/null | head -n 1)
if [ -z "$python" ] && [ "${former#*"$tab"}" = "$PWD" ]; then
    python=${former%%"$tab"*}
fi
if [ -z "$python" ] || [ "$former" != "$python$tab$PWD" ] || ! "$venv/bin/python" -c ''; then
    python=$(sh tools/find_python.sh ${python:+"$python"}) || exit 2
    rm -rf "$venv"
    "$python" -m venv "$venv" || {
        rm -rf "$venv"
        fail "$python cannot make a virtual environment in $PWD/$venv"
    }
fi
rm -f "$venv"/.ready-*

# pip stays quiet for half a minute or, while it downloads, some minutes: a dot every two seconds
# shows that it lives. The loop ends with this script, however that ends.
echo "setup: installing into $PWD/$venv with $("$venv/bin/python" -V)"
(while kill -0 $$ 2>/dev/null; do
    printf .
    sleep 2 >/dev/null 2>&1
done) &
dots=$!
trap 'kill $dots 2>/dev/null' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The build backend comes first and builds without isolation, so that it too is a pinned release.
# Bytecode is compiled below, on all cores and without the tests of other packages. What was
# installed is compared with the list of hashes before any of it runs.
install() {
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-compile \
        --report "$venv/installed.json" --constraint constraints.txt "$@" &&
        "$venv/bin/python" -S tools/check_hashes.py hashes.txt "$venv/installed.json"
}
install hatchling editables && install --no-build-isolation --editable '.[dev]' ||
    fail "the environment is not complete, see above; the same command tries again"
# Only a cache: files that are no Python for this version are left as they are.
"$venv/bin/python" -m compileall -qq -j 0 -x '/tests/' "$venv/lib" || :

kill $dots 2>/dev/null
echo
printf '%s\n' "$python$tab$PWD" >"$stamp.part" && mv "$stamp.part" "$stamp" || fail "cannot write $stamp"
echo "setup: done in $(($(date +%s) - started)) s"
