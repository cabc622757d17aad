#!/bin/sh
# Asks a server for everything with extreme numbers, and holds it to "2xx or 4xx, and nobody else notices". The last line is
# "N passed, N failed".
#
#   sh tests/extremes/run.sh [COUNT]     COUNT: stories (default 20); LAPLACED_BIN: the server
#   SEED=17 sh tests/extremes/run.sh 1   that story alone
#   EXTREMES_MAGNITUDES="1e12 1e30"      of --max-magnitude, one run of each story under each; "none:1e12" sends no more and does not
#                                        give the option, "none" sends all that a double can be
#   EXTREMES_FILES="b00_stories.py"      only these files
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
PYTHON=${PYTHON:-/usr/bin/python3}
jobs=${TEST_JOBS:-$(nproc 2>/dev/null || echo 2)}
report=$(mktemp)
trap 'rm -f "$report"' EXIT

if [ "$jobs" -gt 1 ]; then set -- "${1:-20}" -n "$jobs" --dist load; else set -- "${1:-20}"; fi
count=$1
shift
files=$HERE
if [ -n "${EXTREMES_FILES:-}" ]; then
    files=
    for name in $EXTREMES_FILES; do files="$files $HERE/$name"; done
fi
# shellcheck disable=SC2086 # files are a list
LAPLACED_BIN=${LAPLACED_BIN:-$(realpath "$HERE/../../build/release")/laplaced} EXTREMES_COUNT=$count PYTHONHASHSEED=0 \
    PYTHONDONTWRITEBYTECODE=1 "$PYTHON" -m pytest $files "$@" --junitxml="$report" || true
"$PYTHON" - "$report" <<'END'
import sys, xml.etree.ElementTree as tree
try:
    suite = tree.parse(sys.argv[1]).getroot().find("testsuite")
    n = {k: int(suite.get(k)) for k in ("tests", "failures", "errors", "skipped")}
    bad = n["failures"] + n["errors"] if n["tests"] else 1
    good = max(0, n["tests"] - n["failures"] - n["errors"] - n["skipped"])
except Exception:
    good, bad = 0, 1
print(f"{good} passed, {bad} failed")
sys.exit(1 if bad or not good else 0)
END
