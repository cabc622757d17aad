#!/bin/sh
# Builds the image of the Dockerfile without a daemon and without a registry: buildah, with a base made from Debian's packages.
#
#   sh tools/image.sh FOLDER [BASE.tar [PACKAGE.deb]]
#
# With PACKAGE.deb the programs are those of the Debian package, and the stage that compiles them is left out: the same stage behind it makes the image.
# Leaves in FOLDER laplaced.tar.gz, for `zcat laplaced.tar.gz | docker load` (or podman's), and laplaced.packages, the Debian packages in it with their
# versions; prints the size of what is sent. The image is also in the store FOLDER/store. BASE.tar: by tools/base.sh --slim. As root.
set -eu
[ $# -ge 1 ] || { echo "usage: sh tools/image.sh FOLDER [BASE.tar [PACKAGE.deb]]" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1/store"
out=$(cd "$1" && pwd)
base=${2:-$out/bookworm-slim.tar}
package=${3:-}
version=$(sed -n 's/^#define LD_VERSION "\(.*\)"$/\1/p' "$root/server/base/version.h")
time=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/CHANGELOG.md")}

# The driver vfs needs nothing of the kernel.
store() { buildah --storage-driver=vfs --root "$out/store" --runroot "$out/store/run" "$@"; }

sh "$root/tools/base.sh" "$base" --slim
if ! store inspect --type image localhost/debian:bookworm-slim >/dev/null 2>&1; then
    from=$(store from --pull-never scratch)
    store add --quiet "$from" "$base" / >/dev/null
    store config --cmd bash "$from"
    store commit --quiet --rm "$from" localhost/debian:bookworm-slim >/dev/null
fi
context=$root
if [ -n "$package" ]; then
    context=$out/context
    rm -rf "$context" && dpkg-deb -x "$package" "$context"
    # The Dockerfile from its second FROM on.
    { printf 'FROM scratch AS build\nCOPY usr/bin/laplaced usr/bin/laplacectl /out/\n'; awk '/^FROM /{n++} n > 1' "$root/Dockerfile"; } >"$context/Dockerfile"
fi
store bud --quiet --layers --format docker --isolation chroot --network host --pull-never --timestamp "$time" -t localhost/laplaced:latest "$context" >"$out/build.log" 2>&1 || {
    tail -n 40 "$out/build.log" >&2
    exit 1
}
store tag localhost/laplaced:latest "localhost/laplaced:$version"
from=$(store from --pull-never localhost/laplaced:latest)
# shellcheck disable=SC2016 # dpkg's own variables
store run --isolation chroot "$from" -- dpkg-query -W -f '${Package} ${Version}\n' >"$out/laplaced.packages"
store rm "$from" >/dev/null
rm -f "$out/laplaced.tar" "$out/laplaced.tar.gz"
store push --quiet localhost/laplaced:latest "docker-archive:$out/laplaced.tar:localhost/laplaced:$version"
gzip -n "$out/laplaced.tar"
echo "$out/laplaced.tar.gz: $(($(stat -c %s "$out/laplaced.tar.gz") / 1000000)) MB compressed, $(wc -l <"$out/laplaced.packages") packages"
