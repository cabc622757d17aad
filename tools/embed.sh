#!/bin/sh
# Prints a C file with each argument's bytes as a NUL-terminated array: a/b-c.sql becomes ld_embed_b_c_sql.
# With `--table NAME` first, the arrays have no names of their own, but rows of ld_embed_NAME (server/base/embed.h).
set -eu
bytes() {
    od -An -v -tx1 "$1" | sed 's/\([0-9a-f][0-9a-f]\)/0x\1,/g'
    printf '0};\n'
}
if [ "$1" = --table ]; then
    table=$2
    shift 2
    printf '#include "base/embed.h"\n'
    n=0
    for file in "$@"; do
        printf 'static const char file%d[] = {\n' "$n"
        bytes "$file"
        n=$((n + 1))
    done
    printf 'const struct ld_embed_file ld_embed_%s[] = {\n' "$table"
    n=0
    for file in "$@"; do
        tag=$(sha256sum "$file" | cut -c 1-16)
        printf '{"%s", "\\"%s\\"", file%d, sizeof file%d - 1},\n' "$(basename "$file")" "$tag" "$n" "$n"
        n=$((n + 1))
    done
    printf '{0, 0, 0, 0}};\n'
    exit
fi
for file in "$@"; do
    name=$(basename "$file" | tr '.-' '__')
    printf 'const char ld_embed_%s[] = {\n' "$name"
    bytes "$file"
done
