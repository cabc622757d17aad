#!/bin/sh
# Installs what laplaced needs to be built (and with --test: to be tested; with --lint: to be linted; with
# --paper: to draw the papers' figures; with --league: to be compared with other algorithms; with --fuzz: to be fuzzed;
# with --bench: to have its instructions counted; with --contract: to hold openapi.yaml to the linters and a generated
# client; with --proxies: to be run behind and before proxies; with --pages: to be installed with its manual; with --package:
# to be made a Debian package that is tried; with --image: to be made an image that is run; with --hammer: to be attacked by others' tools; with --clients:
# to have the clients of tools/clients tested; with --monitoring: to have alerts and dashboard asked of Prometheus; with
# --cluster: to have several servers share a log in PostgreSQL; with --patroni: to have Patroni promote it;
# with --browser: to have its console looked at) by apt.
# Says first what it will do, does nothing when all is there, and needs root or sudo only when something is missing.
#
#   sh tools/setup.sh [--build] [--test] [--lint] [--paper] [--league] [--fuzz] [--bench] [--contract] [--clients] [--monitoring] [--proxies] [--pages] [--package] [--image] [--hammer] [--cluster] [--patroni] [--browser] [--list]
set -eu

# a|b: either will do; the first is installed when neither is there.
BUILD='gcc g++ make libc6-dev libmicrohttpd-dev libjansson-dev libsqlite3-dev libuv1-dev libsodium-dev libgnutls28-dev libpq-dev libopenblas-dev liblapacke-dev liblbfgs-dev
       zlib1g-dev libzstd-dev curl
       libcurl4-openssl-dev|libcurl4-gnutls-dev|libcurl4-nss-dev'
TEST='check libsubunit-dev python3 python3-pytest python3-pytest-xdist python3-jsonschema python3-numpy python3-yaml python3-requests openssl'
LINT='clang-format cppcheck shellcheck systemd strace prometheus'
FUZZ='clang'
BENCH='valgrind'
CONTRACT='nodejs npm default-jdk-headless'
MONITORING='prometheus'
CLIENTS='mypy python3-pip python3-setuptools python3-wheel nodejs npm'
PAGES='python3'
PACKAGE='dpkg-dev debhelper lintian fakeroot python3 mmdebstrap zsh mandoc'
IMAGE='buildah podman runc conmon mmdebstrap kubernetes-client'
HAMMER='testssl.sh slowhttptest wrk openssl'
CLUSTER='postgresql-15 haproxy iproute2 iptables faketime'
PATRONI='postgresql-15 patroni python3-etcd etcd-server haproxy'
BROWSER='chromium fonts-dejavu-core'
PROXIES='nginx-light|nginx-core|nginx-full|nginx-extras haproxy caddy'
LEAGUE='python3 python3-numpy python3-sklearn'
PAPER='gnuplot-nox|gnuplot-qt|gnuplot-x11'

wanted=$BUILD
is_list=false
for arg in "$@"; do
    case $arg in
    --build) ;;
    --test) wanted="$wanted $TEST" ;;
    --lint) wanted="$wanted $LINT" ;;
    --paper) wanted="$wanted $PAPER" ;;
    --league) wanted="$wanted $LEAGUE" ;;
    --pages) wanted="$wanted $PAGES" ;;
    --package) wanted="$wanted $PACKAGE" ;;
    --image) wanted="$wanted $IMAGE" ;;
    --hammer) wanted="$wanted $HAMMER" ;;
    --cluster) wanted="$wanted $CLUSTER" ;;
    --patroni) wanted="$wanted $PATRONI" ;;
    --browser) wanted="$wanted $BROWSER" ;;
    --fuzz) wanted="$wanted $FUZZ" ;;
    --bench) wanted="$wanted $BENCH" ;;
    --monitoring) wanted="$wanted $MONITORING" ;;
    --clients) wanted="$wanted $CLIENTS" ;;
    --contract) wanted="$wanted $CONTRACT" ;;
    --proxies) wanted="$wanted $PROXIES" ;;
    --list) is_list=true ;;
    *)
        echo "usage: sh tools/setup.sh [--build] [--test] [--lint] [--paper] [--league] [--fuzz] [--bench] [--contract] [--clients] [--monitoring] [--proxies] [--pages] [--package] [--image] [--hammer] [--cluster] [--patroni] [--browser] [--list]" >&2
        exit 2
        ;;
    esac
done
if $is_list; then
    for group in $wanted; do echo "${group%%|*}"; done
    exit 0
fi

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "setup: this is not a Debian system; please provide what these packages hold:" "$wanted"
    exit 0
fi

is_installed() {
    dpkg-query -W -f='${Status}\n' "$1" 2>/dev/null | grep -q '^install ok installed$'
}

# Node.js by another way than Debian's packages is Node.js, and keeps Debian's npm from being installed beside it.
has_command() {
    case $1 in
    nodejs) command -v node ;;
    npm) command -v npm ;;
    default-jdk-headless) command -v javac ;;
    kubernetes-client) command -v kubectl ;;
    *) false ;;
    esac >/dev/null 2>&1
}

# Prints the group's first name unless one of its alternatives is there.
missing_of() {
    for name in $(echo "$1" | tr '|' ' '); do
        if is_installed "$name" || has_command "$name"; then return 0; fi
    done
    echo "${1%%|*}"
}

missing=
for group in $wanted; do
    name=$(missing_of "$group")
    missing="$missing${name:+ $name}"
done
if [ -z "$missing" ]; then
    exit 0
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "setup: missing packages, and neither root nor sudo to install them. As root, run:" >&2
        echo "  apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    as_root=sudo
fi
echo "setup: will run: ${as_root:+sudo }apt-get update; ${as_root:+sudo }apt-get install -y --no-install-recommends$missing"
export DEBIAN_FRONTEND=noninteractive
# An update that fails (no network, a stale mirror) is no reason to stop when the packages are in reach.
$as_root apt-get update -q || echo "setup: apt-get update failed; trying with the lists at hand" >&2
# shellcheck disable=SC2086 # a list of words
$as_root apt-get install -y -q --no-install-recommends $missing
