#!/bin/sh
# Resolve pyproject.toml and requirements/dev.in in a new environment and write the versions
# down: core.txt is what the package needs, server.txt what the extra `server` adds, dev.txt what
# dev.in adds to both. Names and versions only, so that any package index serves them.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

sh tools/venv.sh "$folder/venv"
pip() {
    "$folder/venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"
}
freeze() {
    pip freeze --exclude minuet | tr '[:upper:]' '[:lower:]' | LC_ALL=C sort
}

pip install .
freeze >"$folder/core"
pip install '.[server]'
freeze >"$folder/with-server"
LC_ALL=C comm -13 "$folder/core" "$folder/with-server" >"$folder/server"
pip install -r requirements/dev.in
freeze >"$folder/all"
LC_ALL=C comm -13 "$folder/with-server" "$folder/all" >"$folder/dev"

if grep -n '@\|://' "$folder/all"; then
    echo "a package did not come from an index by its version" >&2
    exit 1
fi
{
    echo "# Made by 'make pins' from pyproject.toml."
    cat "$folder/core"
} >requirements/core.txt
{
    echo "# Made by 'make pins' from the extra \`server\` in pyproject.toml."
    echo "-r core.txt"
    cat "$folder/server"
} >requirements/server.txt
{
    echo "# Made by 'make pins' from requirements/dev.in."
    echo "-r server.txt"
    cat "$folder/dev"
} >requirements/dev.txt
