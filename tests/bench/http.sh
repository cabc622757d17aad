#!/bin/sh
# HTTP bench: durable decisions and rewards through laplacectl replay, closed loop, over growing numbers of connections,
# beside the rate of bare fsyncs on the same disk in the same run. One JSON line per figure.
#
#   sh tests/bench/http.sh OUT FILE       OUT: a build folder such as build/release; FILE: where the lines go
set -eu
out=$1
file=$2
lines=${LINES_PER_RUN:-4000}
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; [ -z "$server" ] || wait "$server" || true; rm -rf "$dir"' EXIT

# Full-information traffic: 200 users, four arms, the reward follows user and arm.
awk -v n="$lines" 'BEGIN { for (i = 0; i < n; i++) { u = (i * 7919) % 200;
    printf "{\"user\":\"u%d\",\"rewards\":{\"a\":%.2f,\"b\":%.2f,\"c\":0.5,\"d\":0.1}}\n", u, u / 200, 1 - u / 200 } }' >"$dir/traffic"

"$out/laplaced" --data "$dir/data" --listen 127.0.0.1:0 >"$dir/out" 2>"$dir/err" &
server=$!
tries=0
until grep -q listening "$dir/out"; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { cat "$dir/err" >&2; exit 1; }
    sleep 0.1
done
url=$(sed -n 's/^laplaced listening on \(http[^ ]*\).*/\1/p' "$dir/out")
core=$(sed -n 's/.*OpenBLAS kernels: \([A-Za-z0-9]*\).*/\1/p' "$dir/err" | head -n 1)

: >"$file"
# The ceiling of a single client: one 4 KiB append and fdatasync at a time.
dd if=/dev/zero of="$dir/fsync" bs=4096 count=500 oflag=dsync 2>"$dir/dd"
rate=$(awk '/copied/ { for (i = 1; i <= NF; i++) if ($i == "s,") printf "%.0f", 500 / $(i - 1) }' "$dir/dd")
echo "{\"bench\":\"fsync\",\"rate\":${rate:-0},\"blas_core\":\"$core\"}" | tee -a "$file"
for clients in 1 4 16 64; do
    echo '{"algorithm":"laplaced"}' >"$dir/config"
    "$out/laplacectl" --server "$url" tenant put "bench-$clients" "$dir/config" >/dev/null
    cpu0=$(awk '{ print $14 + $15 }' "/proc/$server/stat")
    "$out/laplacectl" --server "$url" --tenant "bench-$clients" replay "$dir/traffic" --concurrency "$clients" --quiet --json >"$dir/result"
    cpu1=$(awk '{ print $14 + $15 }' "/proc/$server/stat")
    us=$(awk -v a="$cpu0" -v b="$cpu1" -v n="$lines" -v hz="$(getconf CLK_TCK)" 'BEGIN { printf "%.1f", (b - a) / hz * 1e6 / (2 * n) }')
    echo "{\"bench\":\"http\",\"clients\":$clients,\"lines\":$lines,\"server_cpu_us_per_request\":$us,\"blas_core\":\"$core\",\"replay\":$(tr -d '\n' <"$dir/result")}" | tee -a "$file"
done
