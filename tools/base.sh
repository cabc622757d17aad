#!/bin/sh
# A bare Debian 12 as an archive of its files, for tests in a chroot and as the image's base where no registry is in reach. Made once.
#
#   sh tools/base.sh FILE.tar [--slim]      --slim: without manuals and translations, as the images called slim
#
# The packages come from where this machine has its own, by mmdebstrap, which checks their signatures. As root.
set -eu
[ $# -ge 1 ] || { echo "usage: sh tools/base.sh FILE.tar [--slim]" >&2; exit 2; }
if [ -s "$1" ]; then exit 0; fi
mkdir -p "$(dirname "$1")"
set -- "$1.new" "$1" "${2:-}"
# shellcheck disable=SC2016 # apt's own variables
apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | grep ' bookworm' | sort -u >"$1.list"
if [ ! -s "$1.list" ]; then echo "deb http://deb.debian.org/debian bookworm main" >"$1.list"; fi
file=$1 to=$2 slim=$3
set --
if [ "$slim" = --slim ]; then
    set -- --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright'
fi
# With /usr merged from the beginning, as the images have it: else a package comes that would merge it, and perl with that.
mmdebstrap --quiet --variant=minbase --format=tar --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --include=usr-is-merged "$@" bookworm "$file" "$file.list" >&2
rm "$file.list"
mv "$file" "$to"
