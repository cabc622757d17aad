#!/bin/sh
# Starts the server on ./data (unless one answers already), shows it learning, leaves a picture of that in ./data/demo.svg,
# and leaves the server running.
set -eu
url=${LAPLACED_URL:-http://127.0.0.1:8080}
data=${LAPLACED_DATA:-./data}
log=$data/laplaced.log

if build/laplacectl --server "$url" health >/dev/null 2>&1; then
    echo "A laplaced answers at $url already: using it."
else
    mkdir -p "$data"
    echo "Starting build/laplaced --data $data --listen ${url#http://} --finish-builds (log: $log)"
    nohup build/laplaced --data "$data" --listen "${url#http://}" --finish-builds >>"$log" 2>&1 </dev/null &
    pid=$!
    echo "$pid" >"$data/laplaced.pid"
    tries=0
    until build/laplacectl --server "$url" health >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ] || ! kill -0 "$pid" 2>/dev/null; then
            echo "The server did not come up. Its last words:" >&2
            tail -n 5 "$log" >&2
            exit 1
        fi
        sleep 0.1
    done
fi
mkdir -p "$data"
build/laplacectl --server "$url" demo --svg "$data/demo.svg" "$@"
echo
echo "The same as a picture: $data/demo.svg"
echo "What it has learned, in a browser: $url/console/"
if [ -f "$data/laplaced.pid" ]; then
    echo
    echo "The server keeps running (pid $(cat "$data/laplaced.pid"), data in $data). Stop it: kill $(cat "$data/laplaced.pid")"
fi
