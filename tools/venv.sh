#!/bin/sh
# Make a virtual environment with a working pip in the folder $1; keep one that works already.
#
# The interpreter is $PYTHON if it is new enough, else the first python3.x that is. Where the
# system lacks Python's venv module, it is installed if we are root on a Debian-like system.
set -eu
folder=$1

if "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

fresh_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
        if fresh_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

install_packages() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        return 1
    fi
    echo "installing $* …" >&2
    apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >&2
}

python=$(find_python)
if [ -z "$python" ]; then
    install_packages python3 python3-venv || true
    python=$(find_python)
fi
if [ -z "$python" ]; then
    echo "Minuet needs Python 3.11 or newer; install it, or set PYTHON=/path/to/python3" >&2
    exit 1
fi

if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if ! install_packages "python$version-venv" && ! install_packages python3-venv; then
        if command -v uv >/dev/null; then
            exec uv venv --quiet --clear --seed --python "$python" "$folder"
        fi
        echo "Python's venv module is missing; install python$version-venv (or uv) and try again" >&2
        exit 1
    fi
fi
exec "$python" -m venv --clear "$folder"
