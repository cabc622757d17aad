#!/bin/sh
# Cuts the power of a server under load, as far as its disk can tell, and holds what is left to "acknowledged means durable".
# The last line is "N passed, N failed".
#
#   sh tests/crash/power.sh [CUTS]                default 10; LAPLACED_BIN: the server; POWER_SEED: the first run's seed
#   sh tests/crash/power.sh --again RUN CUT       one cut again, of a run that was kept because a cut of it failed
#
# The seed fixes what is asked and which cuts are made of what happened; what happened is the machine's. So a run of which
# a cut has failed is kept (POWER_KEEP, default build/power), and a cut of it is the same each time.
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(realpath "$HERE/../..")
PYTHON=${PYTHON:-/usr/bin/python3}
export PYTHONDONTWRITEBYTECODE=1 LAPLACED_BIN="${LAPLACED_BIN:-$ROOT/build/release/laplaced}"

make -s -C "$ROOT" build/release/tests/crash/power_trace.so || exit 1
exec "$PYTHON" "$HERE/power.py" "$@"
