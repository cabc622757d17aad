#!/bin/sh
# One target under libFuzzer for some seconds. New inputs go to BUILD/fuzz/corpus/TARGET, crashes beside them; an input that
# is worth keeping is copied into tests/fuzz/corpus by hand.
#
#   sh tests/fuzz/run.sh BUILD TARGET SECONDS
set -eu
build=$1
target=$2
seconds=$3
found=$build/fuzz/corpus/$target
mkdir -p "$found"
seeds=tests/fuzz/corpus/$target
if [ "$target" = shadow ]; then
    seeds=tests/fuzz/corpus/log
fi
if [ "$target" = snapshot ]; then
    seeds=$build/fuzz/seeds
    mkdir -p "$seeds"
    "$build/release/tests/fuzz/test_corpus" --write-snapshots "$seeds"
fi
words=
case $target in log | shadow) words=-dict=tests/fuzz/log.dict ;; esac
longest=8192
if [ "$target" = file ]; then
    longest=65536 # a database has a page for each of its tables
fi
OPENBLAS_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1 \
    "$build/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -max_len="$longest" $words \
    -artifact_prefix="$found-" -print_final_stats=1 "$found" "$seeds"
