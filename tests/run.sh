#!/bin/sh
# Runs the tests that were built and sums them up in one last line: "N passed, N failed". Exit status 1 when one
# failed, when a program did not report, or when nothing ran.
#
#   sh tests/run.sh OUT [c|unit|property|server|tools|paper|fuzz|http|cluster|nodes|acceptance]      nodes: three servers on PostgreSQL; acceptance: what a release of them is judged by
#   sh tests/run.sh OUT package                          the Debian package that `make deb` has left; package-chroot: in a bare Debian; package-deep: built twice as well
#   sh tests/run.sh OUT hammered                         its server under testssl, slowhttptest and wrk
#   sh tests/run.sh OUT image                            the image that `make image` has left
#   sh tests/run.sh OUT room graph|server/base|...      OUT: a build folder such as build/release
#
# C programs report by libcheck's summary line, the HTTP suite by its JUnit file; a program that ends without a
# report counts as one failure. CLUSTER_PICK: those of `nodes` whose names have it, as pytest's -k. TEST_JOBS=N: so many programs, or files of the HTTP suite, at a time
# (default: one per processor). HTTP_LEAVE="d* v*": files of the HTTP suite that are left out, by the beginnings of their names.
# C_LEAVE="tests/paper/*": sources of C tests that are left out.
set -u
OUT=$1
PART=${2:-all}
PYTHON=${PYTHON:-/usr/bin/python3}
ROOT=$(cd "$(dirname "$0")/.." && pwd)
# A case may take longer than libcheck's 4 seconds on a busy machine or under a sanitizer.
CK_DEFAULT_TIMEOUT=${CK_DEFAULT_TIMEOUT:-60}
export CK_DEFAULT_TIMEOUT
# One BLAS thread per call, as the server sets it: ThreadSanitizer cannot see how the library's own threads agree.
OPENBLAS_NUM_THREADS=1
export OPENBLAS_NUM_THREADS
passed=0
failed=0
jobs=${TEST_JOBS:-$(nproc 2>/dev/null || echo 2)}

add() {
    passed=$((passed + $1))
    failed=$((failed + $2))
}

# What one C test program has said into LOG; its output is shown when something failed.
judge_c() {
    program=$1 log=$2 status=$3
    # "97%: Checks: 33, Failures: 1, Errors: 0"
    line=$(grep -E '^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+$' "$log" | tail -n 1)
    checks=$(echo "$line" | sed -E 's/.*Checks: ([0-9]+).*/\1/')
    failures=$(echo "$line" | sed -E 's/.*Failures: ([0-9]+).*/\1/')
    errors=$(echo "$line" | sed -E 's/.*Errors: ([0-9]+).*/\1/')
    if [ -z "$line" ] || [ "$checks" -eq 0 ]; then
        cat "$log"
        echo "FAIL $program (exit status $status, no report)"
        add 0 1
    else
        bad=$((failures + errors))
        # Faults outside of the cases (a leak found at exit) have a status only.
        if [ "$bad" -eq 0 ] && [ "$status" -ne 0 ]; then bad=1; checks=$((checks + 1)); fi
        add $((checks - bad)) "$bad"
        if [ "$bad" -ne 0 ]; then cat "$log"; fi
        echo "$([ "$bad" -eq 0 ] && echo ok || echo FAIL) $program: $checks checks, $bad failed"
    fi
}

# Programs that take longest, under a sanitizer above all: one of them at the end would keep the others waiting.
LONG='tenants/test_faults|task/test_compact_shared|tenant/test_shared_turn|posterior/test_forgetting|model/test_engine|model/test_slots|paper/test_learner|tenants/test_lazy|tools/bench/test_bench_kors'

# The tests of folders, $jobs at a time, the long ones first, told of in the order of names. A source without its program means that
# the build was not complete; a program without a source, of an older build, is not run.
run_c_part() {
    logs=$(mktemp -d)
    set -f # patterns are find's to expand
    for pattern in ${C_LEAVE:-}; do set -- "$@" ! -path "$pattern"; done
    set +f
    (cd "$ROOT" && find "$@" -name 'test_*.c' | sort) >"$logs/sources"
    while read -r source; do
        program=$OUT/${source%.c}
        if [ -x "$program" ]; then
            echo "$program" >>"$logs/programs"
        else
            echo "FAIL $source was not built"
            add 0 1
        fi
    done <"$logs/sources"
    touch "$logs/programs"
    # shellcheck disable=SC2016 # expanded by the shell that xargs starts
    { grep -E "/($LONG)\$" "$logs/programs"; grep -vE "/($LONG)\$" "$logs/programs"; } |
        xargs -r -P "$jobs" -n 1 sh -c 'log=$0/$(echo "$1" | tr / _) && "$1" >"$log.log" 2>&1; echo $? >"$log.status"' "$logs"
    while read -r program; do
        name=$logs/$(echo "$program" | tr / _)
        judge_c "$program" "$name.log" "$(cat "$name.status")"
    done <"$logs/programs"
    rm -rf "$logs"
}

# The folders of a room's tests: NAME, or the folder where several rooms are called so (base is one of core and of the server).
run_room() {
    folders=$(cd "$ROOT" && for f in tests/*/"$1" tests/"$1"; do if [ -d "$f" ]; then echo "$f"; fi; done)
    if [ -z "$1" ] || [ -z "$folders" ]; then
        echo "no tests of a room '$1': tests/unit, tests/property, tests/server and tests/tools have a folder for each" >&2
        exit 2
    fi
    # shellcheck disable=SC2086 # a list of folders
    run_c_part $folders
}

# What a JUnit report counts, "PASSED FAILED"; a report that is missing or empty counts as one failure.
junit_counts() {
    "$PYTHON" - "$1" <<'END'
import sys, xml.etree.ElementTree as tree
try:
    suite = tree.parse(sys.argv[1]).getroot().find("testsuite")
    n = {k: int(suite.get(k)) for k in ("tests", "failures", "errors", "skipped")}
    bad = n["failures"] + n["errors"]
    print(max(0, n["tests"] - bad - n["skipped"]), bad if n["tests"] else 1)
except Exception:
    print(0, 1)
END
}

# The files that took longest, in seconds of their cases.
slowest() {
    "$PYTHON" - "$1" <<'END'
import collections, sys, xml.etree.ElementTree as tree
spent = collections.Counter()
try:
    for case in tree.parse(sys.argv[1]).iter("testcase"):
        spent[case.get("classname", "")] += float(case.get("time"))
except Exception:
    pass
if len(spent) > 1:
    print("longest:", ", ".join(f"{name} {s:.0f} s" for name, s in spent.most_common(25)))
END
}

# One run of pytest over what is named, counted. Processes that share the files must name their cases alike: those
# named after a set, too, whose order is that of hashes.
run_pytest() {
    report=$(mktemp)
    LAPLACED_BIN=${LAPLACED_BIN:-$(realpath "$OUT")/laplaced} LAPLACECTL_BIN=${LAPLACECTL_BIN:-$(realpath "$OUT")/laplacectl} \
        LAPLACED_SEEN=$seen PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 "$PYTHON" -m pytest "$@" --junitxml="$report" || true
    # shellcheck disable=SC2046 # two numbers
    add $(junit_counts "$report")
    slowest "$report"
    rm -f "$report"
}

# The files side by side, each in one process, since most of their time is waiting; then, from what all of them have
# noted in $seen, whether the whole contract was covered.
run_http() {
    seen=$(mktemp -d)
    # Half as many more as there are processors: most files wait more than they compute.
    if [ "$jobs" -gt 1 ]; then set -- -n $((jobs + jobs / 2)) --dist loadfile; else set --; fi
    set -f # patterns are pytest's to expand
    for pattern in ${HTTP_LEAVE:-}; do set -- "$@" --ignore-glob="$ROOT/tests/http/$pattern"; done
    set +f
    run_pytest "$ROOT/tests/http" --ignore="$ROOT/tests/http/z99_coverage.py" "$@"
    run_pytest "$ROOT/tests/http/z99_coverage.py"
    rm -rf "$seen"
}

case $PART in
all) parts='c http' ;;
c) parts=c ;;
unit | property | server | tools | paper | fuzz | http | cluster | nodes | acceptance | room | package | package-chroot | package-deep | hammered | image) parts=$PART ;;
*)
    echo "usage: sh tests/run.sh OUT [c|unit|property|server|tools|paper|fuzz|http|cluster|nodes|acceptance|package|package-chroot|package-deep|hammered|image], or OUT room NAME" >&2
    exit 2
    ;;
esac
for part in $parts; do
    case $part in
    c) run_c_part tests/unit tests/property tests/server tests/tools tests/paper tests/fuzz ;;
    http) run_http ;;
    room) run_room "${3:-}" ;;
    cluster)
        run_c_part tests/cluster
        seen='' run_pytest "$ROOT/tests/cluster/test_cluster_ctl.py"
        ;;
    package) seen='' run_pytest "$ROOT/tests/packaging/a00_package.py" ;;
    nodes) seen='' run_pytest -s "$ROOT/tests/cluster" --ignore="$ROOT/tests/cluster/test_cluster_ctl.py" ${CLUSTER_PICK:+-k "$CLUSTER_PICK"} ;;
    acceptance) seen='' run_pytest -s "$ROOT/tests/cluster/test_acceptance.py" "$ROOT/tests/cluster/test_patroni.py" "$ROOT/tests/cluster/test_behind.py" "$ROOT/tests/cluster/test_nodes.py" "$ROOT/tests/cluster/test_processors.py" ;;
    package-chroot) seen='' run_pytest -s "$ROOT/tests/packaging/b00_chroot.py" ;;
    hammered) seen='' run_pytest -s "$ROOT/tests/packaging/d00_hammered.py" ;;
    image) seen='' run_pytest -s "$ROOT/tests/packaging/c00_image.py" ;;
    package-deep) seen='' run_pytest -s "$ROOT/tests/packaging/b00_chroot.py" "$ROOT/tests/packaging/b10_reproducible.py" ;;
    *) run_c_part "tests/$part" ;;
    esac
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
