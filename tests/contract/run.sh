#!/bin/sh
# Holds openapi.yaml to what others make of it: linters, and a client generated from it that runs against a server. And
# /ofrep/ to the OpenFeature providers that others use, and /personalizer/ to both clients of that service, unmodified (flags/, personalizer/). And openapi-3.0.yaml to generators that read nothing newer
# (generators/), and the client of tools/clients/typescript to a live server. The last line is "N passed, N failed".
#
#   sh tests/contract/run.sh OUT [--when-reachable]      OUT: a build folder such as build/release
#
# The tools come from npm as package-lock.json has them, with their hashes, into build/contract. They run on the node of
# Debian 12 (18.19). With --when-reachable a registry that does not answer is said and is no failure: nothing was tested.
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
OUT=$(cd "$1" && pwd)
WORK=$ROOT/build/contract
BIN=$WORK/node_modules/.bin
GENERATORS=$WORK/generators/node_modules/.bin
passed=0
failed=0
server=
# Neither tool is to tell its makers of our runs.
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true SCARF_ANALYTICS=false

# What a check prints is shown when it fails.
check() {
    name=$1
    shift
    if "$@" >"$WORK/log" 2>&1; then
        echo "ok $name"
        passed=$((passed + 1))
    else
        cat "$WORK/log"
        echo "FAIL $name"
        failed=$((failed + 1))
    fi
}

finish() {
    if [ -n "$server" ]; then kill "$server" && wait "$server"; fi
}
trap finish EXIT

# From a folder with a lock to another; again only after the lock has changed.
install() {
    mkdir -p "$2"
    if cmp -s "$1/package-lock.json" "$2/package-lock.json" && [ -f "$2/installed" ]; then return 0; fi
    rm -f "$2/installed"
    cp "$1/package.json" "$1/package-lock.json" "$2/"
    (cd "$2" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) && touch "$2/installed"
}

lint_redocly() { "$BIN/redocly" lint --config "$HERE/redocly.yaml" "$ROOT/openapi.yaml"; }
lint_redocly_30() { "$BIN/redocly" lint --config "$HERE/generators/redocly.yaml" "$ROOT/openapi-3.0.yaml"; }
lint_spectral_30() { "$BIN/spectral" lint --ruleset "$HERE/generators/spectral.yaml" --fail-severity hint "$ROOT/openapi-3.0.yaml"; }
lint_spectral() { "$BIN/spectral" lint --ruleset "$HERE/spectral.yaml" --fail-severity hint "$ROOT/openapi.yaml"; }

# The first block of TypeScript in docs/API.md is a program like any other, at this server's address.
# shellcheck disable=SC2016 # backticks are Markdown's
compile_client() {
    cp "$HERE/client.test.ts" "$HERE/tsconfig.json" "$WORK/" &&
        sed -n '/^```ts$/,/^```$/p' "$ROOT/docs/API.md" | sed -e '/^```/d' -e 's|"http://127.0.0.1:8080"|process.env["LAPLACED_URL"]!|' >"$WORK/documented.ts" &&
        grep -q LAPLACED_URL "$WORK/documented.ts" &&
        "$BIN/openapi-typescript" "$ROOT/openapi.yaml" --default-non-nullable=false -o "$WORK/laplaced.d.ts" &&
        "$BIN/tsc" --project "$WORK/tsconfig.json"
}

compile_client_30() {
    cp "$HERE/generators/client30.test.ts" "$HERE/generators/tsconfig.json" "$WORK/generators/" && rm -rf "$WORK/generators/client" "$WORK/generators/out" &&
        "$GENERATORS/openapi" --input "$ROOT/openapi-3.0.yaml" --output "$WORK/generators/client" --client fetch &&
        "$GENERATORS/tsc" --project "$WORK/generators/tsconfig.json"
}

# The generator of most clients in Java and C#. Its models must be there, and their numbers wide enough. Of Go this version writes no models
# for any contract, so its operations are looked at alone.
generate() {
    jar=$WORK/generators/node_modules/@openapitools/openapi-generator-cli/bin/openapi-generator.jar
    rm -rf "$WORK/generators/$1" && mkdir "$WORK/generators/$1" || return 1
    # shellcheck disable=SC2086 # a list of words
    if ! java -jar "$jar" generate -i "$ROOT/openapi-3.0.yaml" -g "$1" -o "$WORK/generators/$1" ${4:-} >"$WORK/generators/$1.log" 2>&1; then
        tail -n 20 "$WORK/generators/$1.log"
        return 1
    fi
    grep -rlqE "$2" "$WORK/generators/$1" --include="$3"
}
# Java is compiled, with what the generator's own archive has of the libraries that its clients use. Two faults of its version are mended before: it names no
# class for alternatives that have no name (as --type-mappings OneOf...=Object would), and forgets an import where a class has no members.
compile_java() {
    sources=$WORK/generators/java/src/main/java
    find "$sources" -name '*.java' >"$WORK/generators/java.list" && [ "$(wc -l <"$WORK/generators/java.list")" -gt 200 ] || return 1
    xargs -a "$WORK/generators/java.list" sed -i -e '/^import .*\.OneOf[A-Za-z]*;$/d' -e 's/\bOneOf[A-Za-z]*\b/Object/g' -e 's/^@JsonTypeName(/@com.fasterxml.jackson.annotation.JsonTypeName(/'
    rm -rf "$WORK/generators/classes" && mkdir "$WORK/generators/classes" &&
        javac -nowarn -Xmaxerrs 20 -cp "$WORK/generators/node_modules/@openapitools/openapi-generator-cli/bin/openapi-generator.jar" -d "$WORK/generators/classes" "@$WORK/generators/java.list"
}
validate_30() {
    java -jar "$WORK/generators/node_modules/@openapitools/openapi-generator-cli/bin/openapi-generator.jar" validate -i "$ROOT/openapi-3.0.yaml" >"$WORK/generators/validate.log" 2>&1 ||
        { cat "$WORK/generators/validate.log"; return 1; }
}

# The client of tools/clients/typescript with its tests, by its own settings; then the programs of its README, in their order as one.
# shellcheck disable=SC2016 # backticks are Markdown's
compile_typescript() {
    rm -rf "$WORK/typescript" && mkdir "$WORK/typescript" && cp -r "$ROOT/tools/clients/typescript/." "$WORK/typescript" && rm -rf "$WORK/typescript/src/contract.ts" &&
        "$BIN/openapi-typescript" "$ROOT/openapi.yaml" --default-non-nullable=false -o "$WORK/typescript/src/contract.ts" &&
        sed -n '/^```ts$/,/^```$/p' "$WORK/typescript/README.md" | sed -e '/^```/d' -e 's|"laplaced"|"../src/index.js"|' -e 's|"http://127.0.0.1:8080"|process.env["LAPLACED_URL"]!|' \
            >"$WORK/typescript/test/readme.ts" &&
        "$BIN/tsc" --project "$WORK/typescript/tsconfig.test.json" && "$BIN/tsc" --project "$WORK/typescript/tsconfig.json"
}
# What npm would publish: the program, its types, and nothing of the tests.
pack_typescript() {
    (cd "$WORK/typescript" && npm pack --dry-run --json --ignore-scripts) >"$WORK/packed.json" 2>/dev/null &&
        for file in dist/index.js dist/index.d.ts dist/contract.d.ts README.md LICENSE; do grep -q "\"$file\"" "$WORK/packed.json" || return 1; done &&
        ! grep -qE '"(test|out|src)/' "$WORK/packed.json"
}

# The tests of Azure Personalizer's clients, by the types of those clients.
compile_personalizer() {
    cp "$HERE/personalizer/personalizer.test.ts" "$HERE/personalizer/tsconfig.json" "$WORK/personalizer/" && "$BIN/tsc" --project "$WORK/personalizer/tsconfig.json"
}

# The types are those of Kubernetes' own description of its kinds, and of the Prometheus operator's.
type_manifests() {
    install "$HERE/kubernetes" "$WORK/kubernetes" &&
        "${PYTHON:-python3}" -B "$HERE/kubernetes/typed.py" "$ROOT/deploy/kubernetes/single" "$ROOT/deploy/kubernetes/cluster" "$ROOT/deploy/kubernetes/monitored" >"$WORK/kubernetes/manifests.ts" &&
        (cd "$WORK/kubernetes" && node_modules/.bin/tsc --noEmit --strict --skipLibCheck --module nodenext manifests.ts)
}

# Sets server and LAPLACED_URL.
start_server() {
    rm -rf "$WORK/data" && : >"$WORK/greeting"
    "$OUT/laplaced" --data "$WORK/data" --listen 127.0.0.1:0 --cors-origin https://shop.example >"$WORK/greeting" 2>"$WORK/stderr" &
    server=$!
    tries=0
    until grep -q http:// "$WORK/greeting"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 300 ] || ! kill -0 "$server"; then return 1; fi
        sleep 0.1
    done
    LAPLACED_URL=$(sed -n 's|.*\(http://[^ ]*\).*|\1|p' "$WORK/greeting")
    export LAPLACED_URL
}

# node's own report has a line of each test, and counts.
run_tests() {
    (cd "$1" && node --test --test-reporter=tap "$2") >"$WORK/tap" 2>&1
    grep -E '^ *(not )?ok [0-9]+ - ' "$WORK/tap" | grep -v "$2"
    good=$(sed -n 's/^# pass //p' "$WORK/tap")
    bad=$(sed -n 's/^# fail //p' "$WORK/tap")
    if [ "${bad:-1}" -ne 0 ] || [ "${good:-0}" -eq 0 ]; then cat "$WORK/tap" "$WORK/stderr"; fi
    passed=$((passed + ${good:-0}))
    failed=$((failed + ${bad:-1}))
}

if [ "${2:-}" = --when-reachable ] && ! (command -v npm && npm ping --fetch-timeout=20000 --fetch-retries=1) >/dev/null 2>&1; then
    echo "NOT TESTED: openapi.yaml's linters, the generated client and the OpenFeature providers. There is no npm, or its registry is out of reach."
    exit 0
fi
{ install "$HERE" "$WORK" && install "$HERE/flags" "$WORK/flags" && install "$HERE/personalizer" "$WORK/personalizer" && install "$HERE/generators" "$WORK/generators"; } || { echo "FAIL the tools of tests/contract, its flags/, its personalizer/ and its generators/ could not be installed"; echo "0 passed, 1 failed"; exit 1; }
check "openapi.yaml has no faults under redocly" lint_redocly
check "openapi.yaml has no faults under spectral" lint_spectral
check "a generated client and that of docs/API.md compile under tsc" compile_client
check "openapi-3.0.yaml has no faults under redocly" lint_redocly_30
check "openapi-3.0.yaml has no faults under spectral, the schema of OpenAPI 3.0 among its rules" lint_spectral_30
check "a client generated from openapi-3.0.yaml compiles under tsc" compile_client_30
check "the client of tools/clients/typescript and its README compile under tsc" compile_typescript
check "what the clients of Azure Personalizer are asked for compiles under tsc" compile_personalizer
check "the client of tools/clients/typescript can be published" pack_typescript
check "what deploy/kubernetes has, Kubernetes and the Prometheus operator know by name and type" type_manifests
if command -v java >/dev/null; then
    check "openapi-3.0.yaml is valid for openapi-generator" validate_30
    check "openapi-generator makes a client in Java" generate java 'private Long seq' Tenant.java '--library=native --additional-properties=openApiNullable=false'
    if command -v javac >/dev/null; then check "the client in Java compiles under javac" compile_java; else echo "NOT TESTED: the client in Java is not compiled. There is no javac."; fi
    check "openapi-generator makes a client in C#" generate csharp-netcore 'long Seq' Tenant.cs
    check "openapi-generator makes the operations of a client in Go" generate go 'CallSelectExecute' api_decisions.go
else
    echo "NOT TESTED: openapi-generator. There is no java."
fi
if start_server; then
    check "the client of docs/API.md runs" node "$WORK/out/documented.js"
    cp "$HERE/flags/flags.test.js" "$WORK/flags/"
    run_tests "$WORK/flags" flags.test.js
    run_tests "$WORK/personalizer/out" personalizer.test.js
    run_tests "$WORK/generators/out" client30.test.js
    LAPLACED_BIN=$OUT/laplaced
    export LAPLACED_BIN
    check "the README of tools/clients/typescript runs" node "$WORK/typescript/out/test/readme.js"
    run_tests "$WORK/typescript/out/test" client.test.js
    run_tests "$WORK/out" client.test.js # makes a key, without which the server answers nobody from there on
    kill "$server" && wait "$server" || failed=$((failed + 1))
    server=
else
    cat "$WORK/stderr"
    echo "FAIL the server did not start"
    failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
