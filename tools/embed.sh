#!/bin/sh
# Prints a C file with each argument's bytes as a NUL-terminated array: a/b-c.sql becomes ld_embed_b_c_sql.
set -eu
for file in "$@"; do
    name=$(basename "$file" | tr '.-' '__')
    printf 'const char ld_embed_%s[] = {\n' "$name"
    od -An -v -tx1 "$file" | sed 's/\([0-9a-f][0-9a-f]\)/0x\1,/g'
    printf '0};\n'
done
