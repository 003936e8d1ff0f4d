#!/bin/sh
# Print a new folder for temporary files: in memory where there is plenty of it, else on disk.
#
# Tests sync thousands of small files, and a disk makes them wait for each.
set -eu

NEEDED_KB=4000000

free_kb() { df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }'; }
memory_kb() { awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo 2>/dev/null; }

place=${TMPDIR:-/tmp}
if [ -w /dev/shm ] && [ "$(free_kb || true)" -gt "$NEEDED_KB" ] 2>/dev/null &&
    [ "$(memory_kb || true)" -gt "$((2 * NEEDED_KB))" ] 2>/dev/null; then
    place=/dev/shm
fi
folder=$(mktemp -d "$place/minuet-tests-XXXXXX")
# PostgreSQL runs as a user of its own, which must get in.
chmod 755 "$folder"
echo "$folder"
