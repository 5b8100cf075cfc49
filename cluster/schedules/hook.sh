#!/bin/sh
# ppdm reproduce --hook "hook.sh ADDRESS": one mail when a drift is new, one when all are gone.
# Called as: hook.sh ADDRESS drift|closed DRIFT.JSON
set -eu
[ $# -eq 3 ] || { echo "usage: hook.sh ADDRESS drift|closed DRIFT.JSON" >&2; exit 2; }
case $2 in
    drift) subject="ppdm reproduce: a number moved" ;;
    closed) subject="ppdm reproduce: all numbers are as they were" ;;
    *) echo "hook.sh: got event '$2'; drift or closed is needed" >&2; exit 2 ;;
esac
mail -s "$subject" "$1" <"$3"
