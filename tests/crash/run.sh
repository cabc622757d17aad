#!/bin/sh
# Kills the server again and again and holds it to "acknowledged means durable". The last line is "N passed, N failed".
#
#   sh tests/crash/run.sh [KILLS]     default 40, in about 90 s; LAPLACED_BIN: the server; CRASH_SEED: the first seed
#
# Each failure names the seed of its campaign: CRASH_SEED=17 sh tests/crash/run.sh 10 runs that one alone. The seed fixes
# what is asked and the kind of each death; the moment is the machine's, so a rare fault may need more than one run.
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
PYTHON=${PYTHON:-/usr/bin/python3}
make -s -C "$HERE/../.." build/release/tests/crash/power_trace.so || exit 1 # for cuts of the power at chosen points
report=$(mktemp)
trap 'rm -f "$report"' EXIT

LAPLACED_BIN=${LAPLACED_BIN:-$(realpath "$HERE/../../build/release")/laplaced} CRASH_KILLS=${1:-40} PYTHONDONTWRITEBYTECODE=1 \
    "$PYTHON" -m pytest "$HERE" -s --junitxml="$report" || true
"$PYTHON" - "$report" <<'END'
import sys, xml.etree.ElementTree as tree
try:
    suite = tree.parse(sys.argv[1]).getroot().find("testsuite")
    n = {k: int(suite.get(k)) for k in ("tests", "failures", "errors", "skipped")}
    bad = n["failures"] + n["errors"] if n["tests"] else 1
    good = max(0, n["tests"] - bad - n["skipped"])
except Exception:
    good, bad = 0, 1
print(f"{good} passed, {bad} failed")
sys.exit(1 if bad or not good else 0)
END
