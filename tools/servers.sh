#!/bin/sh
# Unpack Debian's Redis and PgBouncer, and openssl, strace and promtool, into the folder $1, with the
# libraries that are missing here.
#
# The tests start them from there. Nothing is installed, so no service of the system is started,
# now or at the next boot, and root is needed only where apt has no lists of packages yet.
# Where there is no apt, the tests use the servers that they find, and this says so.
set -eu
case $1 in /*) folder=$1 ;; *) folder=$PWD/$1 ;; esac
packages="redis-server pgbouncer openssl strace"

if [ "$folder/.complete" -nt "$0" ]; then
    exit 0
fi

do_without() {
    echo "Redis and PgBouncer are not to be had here: the tests go on without them" >&2
    exit 0
}

command -v apt-get >/dev/null && command -v dpkg >/dev/null || do_without

download() {
    rm -rf "$folder" && mkdir -p "$folder/archives/partial" &&
        # shellcheck disable=SC2086
        apt-get install -qq --no-install-recommends --download-only --reinstall \
            -o Debug::NoLocking=1 -o "Dir::Cache::archives=$folder/archives" -o APT::Sandbox::User=root \
            $packages >"$folder/log" 2>&1
}

echo "unpacking Redis and PgBouncer for the tests …" >&2
if ! download; then
    if [ "$(id -u)" != 0 ] || ! apt-get update -qq >/dev/null || ! download; then
        rm -rf "$folder"
        do_without
    fi
fi
# Of Prometheus only the tool that checks rules. It needs no library, so nothing else is fetched.
if (cd "$folder/archives" && apt-get download -qq -o APT::Sandbox::User=root prometheus) >/dev/null 2>&1; then
    mkdir -p "$folder/prometheus" "$folder/usr/bin"
    dpkg -x "$folder"/archives/prometheus_*.deb "$folder/prometheus"
    mv "$folder/prometheus/usr/bin/promtool" "$folder/usr/bin/"
    rm -rf "$folder/prometheus" "$folder"/archives/prometheus_*.deb
fi
for archive in "$folder"/archives/*.deb; do
    dpkg -x "$archive" "$folder"
done
rm -rf "$folder/archives" "$folder/log"
touch "$folder/.complete"
