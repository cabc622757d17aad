#!/bin/sh
# Proves by includes who may know whom (docs/ARCHITECTURE.md, "Rooms"). Prints each offending line; exit status 1 when
# there is one.
#
#   core     C11's headers and core's own; cblas.h and lapacke.h only in their owners; stdio.h only in err.c
#   server   core's public headers; each third-party header only in the files that own it
#   tools    the same, with a third-party owner table of its own; tools/paper knows the core only
#   anybody  nobody includes tools/ or tests/, and no .c file is included
# shellcheck disable=SC2086 # lists of words are split on purpose
set -eu
cd "${1:-$(dirname "$0")/..}"
faults=$(mktemp)
trap 'rm -f "$faults"' EXIT

# What C11 offers without input, output, time, threads or signals.
CORE_C11='assert complex ctype errno fenv float inttypes iso646 limits math stdalign stdarg stdatomic stdbool stddef
          stdint stdlib stdnoreturn string tgmath'
# Headers of core that other rooms may use; the rest of core/ is its own business.
CORE_PUBLIC='alloc arena buf chol commit confidence eigen engine err event graph graph_draft hash history ids kernel keyed linalg magnitude policy posterior rng
             snips spec summary user_kernel vec_kernel'

# Owners, as shell patterns: header|files that may include it.
OWNERS='cblas.h|core/linalg.c core/chol.c
lapacke.h|core/chol.c core/eigen.c
microhttpd.h|server/http*.c server/http_internal.h
gnutls/abstract.h|server/tls.c
gnutls/gnutls.h|server/tls.c
gnutls/x509.h|server/tls.c
uv.h|server/sched.c
charconv|server/number.cc
jansson.h|server/json_in.c tools/ctl/json.c
sqlite3.h|server/store_*.c server/registry_file.c server/registry_keys.c server/sqlite_util.[ch] server/db_*.c server/migrate.c
sodium.h|server/secret.c tools/ctl/fingerprint.c
curl/curl.h|tools/ctl/http_client.c
zlib.h|tools/ctl/unpack.c
zstd.h|tools/ctl/unpack.c'

is_in() { # word list...
    word=$1
    shift
    for item in "$@"; do
        if [ "$item" = "$word" ]; then return 0; fi
    done
    return 1
}

fits() { # file patterns...
    file=$1
    shift
    for pattern in "$@"; do
        # shellcheck disable=SC2254 # a pattern on purpose
        case $file in $pattern) return 0 ;; esac
    done
    return 1
}

fault() { echo "$1:$2: $3: $4" >>"$faults"; }

# file:line:text of every include of a room.
includes() { grep -nE '^[[:space:]]*#[[:space:]]*include' "$@" /dev/null || true; }

check_core() { # file line header quoted
    if [ "$4" = yes ]; then
        [ -f "core/$3" ] || fault "$1" "$2" "$3" "core includes its own headers only"
    elif [ "$3" = stdio.h ]; then
        [ "$1" = core/err.c ] || fault "$1" "$2" "$3" "input and output have no place in core"
    elif ! is_in "${3%.h}" $CORE_C11 && ! is_third_party "$3"; then
        fault "$1" "$2" "$3" "core includes nothing but C11, core and BLAS"
    elif is_third_party "$3" && [ "$3" != cblas.h ] && [ "$3" != lapacke.h ]; then
        fault "$1" "$2" "$3" "core includes nothing but C11, core and BLAS"
    fi
}

check_outer() { # room file line header quoted
    [ "$5" = yes ] || return 0
    case $4 in *.c | */*) fault "$2" "$3" "$4" "include headers by their name" && return 0 ;; esac
    if [ -f "$1/$4" ]; then return 0; fi
    if [ -f "core/$4" ]; then
        is_in "${4%.h}" $CORE_PUBLIC || fault "$2" "$3" "$4" "this header is core's own business"
    elif [ "$1" != tools/ctl ] || [ ! -f "server/$4" ]; then
        fault "$2" "$3" "$4" "not a header of this room, of core or of the server"
    fi
}

is_third_party() { echo "$OWNERS" | grep -q "^$1|"; }

check_owner() { # file line header
    owners=$(echo "$OWNERS" | sed -n "s#^$3|##p")
    if [ -n "$owners" ] && ! fits "$1" $owners; then fault "$1" "$2" "$3" "its owners are $owners"; fi
}

for room in core server tools/ctl tools/paper; do
    set -- "$room"/*.[ch]
    if [ $room = server ]; then set -- "$@" server/*.cc; fi
    includes "$@" | sed -E 's/^([^:]+):([0-9]+):[[:space:]]*#[[:space:]]*include[[:space:]]*([<"])([^>"]+).*/\1 \2 \4 \3/' |
        while read -r file line header mark; do
            quoted=no
            if [ "$mark" = '"' ]; then quoted=yes; fi
            if [ $room = core ]; then check_core "$file" "$line" "$header" $quoted; fi
            if [ $room != core ]; then check_outer $room "$file" "$line" "$header" $quoted; fi
            check_owner "$file" "$line" "$header"
        done
done

# A connection to a database that is opened elsewhere would run what a stranger's file has in it.
grep -nE 'sqlite3_open(16|_v2)?\(' server/*.c tools/*/*.c | grep -v '^server/sqlite_util.c:' |
    sed 's#$#: connections are made by ld_sql_connect alone#' >>"$faults" || true

# Mutable data at file scope has no place in core (alloc.c's hook of the tests aside).
for file in core/*.c; do
    [ "$file" = core/alloc.c ] && continue
    grep -nE '^(static )?(_Atomic )?(struct [a-z_]+|double|float|int|long|size_t|u?int[0-9]+_t|char|bool|unsigned|void) \*?[a-z_]+(\[[^]]*\])*( =.*)?;' "$file" |
        grep -v 'const' | sed "s#^#$file:#; s#\$#: mutable data at file scope#" >>"$faults" || true
done

if [ -s "$faults" ]; then
    cat "$faults"
    exit 1
fi
echo "layers: every include is where it may be"
