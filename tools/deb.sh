#!/bin/sh
# Makes the Debian package of this source: deploy/debian becomes debian/ in a copy of the source, and debhelper builds there.
#
#   sh tools/deb.sh FOLDER       leaves laplaced_VERSION_ARCH.deb, its symbols and its .buildinfo in FOLDER, in place of those
#                                that an earlier build has left there; all else in it stays
#
# The same source gives the same bytes in whatever folder: SOURCE_DATE_EPOCH (default: the time of the last commit, else of
# CHANGELOG.md) is the time of all that has one. DEB_VERSION: another version than server/base/version.h has.
set -eu
[ $# -eq 1 ] || { echo "usage: sh tools/deb.sh FOLDER" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
version=${DEB_VERSION:-$(sed -n 's/^#define LD_VERSION "\(.*\)"$/\1/p' "$root/server/base/version.h")}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/CHANGELOG.md")}
export SOURCE_DATE_EPOCH

tree=$out/laplaced-$version
rm -rf "$tree"
rm -f "$out"/laplaced_*.deb "$out"/laplaced-dbgsym_*.deb "$out"/laplaced_*.buildinfo "$out"/laplaced_*.changes
mkdir "$tree"
tar -C "$root" -c --exclude=__pycache__ Makefile openapi.yaml openapi-3.0.yaml core server schema tools docs deploy README.md CHANGELOG.md LICENSE | tar -C "$tree" -x
cp -R "$tree/deploy/debian" "$tree/debian"
cat >"$tree/debian/changelog" <<END
laplaced ($version) unstable; urgency=medium

  * Built from its source; CHANGES.md tells what has changed.

 -- $(sed -n 's/^Maintainer: //p' "$tree/debian/control")  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END

# What make was called with is not the package's business.
unset MAKEFLAGS MAKELEVEL MFLAGS MODE BUILD PREFIX DESTDIR CFLAGS LDFLAGS WERROR
(cd "$tree" && dpkg-buildpackage --build=binary --no-sign "--jobs=${JOBS:-$(nproc)}" >"$out/build.log" 2>&1) || {
    tail -n 40 "$out/build.log" >&2
    exit 1
}
rm -rf "$tree"
ls "$out"/laplaced_*.deb
