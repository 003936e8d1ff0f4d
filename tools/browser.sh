#!/bin/sh
# Install Debian's Chromium for the tests of the web page, where it is missing and root may do so.
# Without it, those tests are skipped and say so.
set -eu
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then
        exit 0
    fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing Chromium for the tests of the web page …" >&2
    apt-get install -qq -y --no-install-recommends chromium >/dev/null 2>&1 ||
        { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; } >/dev/null 2>&1 ||
        echo "Chromium is not to be had here: the tests of the page go on without it" >&2
fi
