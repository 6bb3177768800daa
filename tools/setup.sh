#!/bin/sh
# Prepares .venv. Checks by hand what Python cannot check for itself: that there is one.
# Usage: tools/setup.sh [--dev] [python]
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "setup: $1" >&2
    echo "setup: $2" >&2
    exit 2
}

usable() {
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

packages=
if [ "${1:-}" = --dev ]; then
    packages=--dev
    shift
fi
python=${1:-}
if [ -n "$python" ]; then
    usable "$python" || fail "PYTHON=$python is not Python 3.11, 3.12 or 3.13" \
        "give another one: make PYTHON=/path/to/python3.11"
else
    for candidate in python3 python3.13 python3.12 python3.11 python; do
        if usable "$candidate"; then
            python=$candidate
            break
        fi
    done
    [ -n "$python" ] || fail "no Python 3.11, 3.12 or 3.13 found (python3 is: $(python3 -V 2>&1 || true))" \
        "install one (Debian, Ubuntu: apt install python3.11 python3.11-venv), or make PYTHON=/path/to/it"
fi
command -v g++ >/dev/null 2>&1 || fail "no g++ found; the simulator is compiled with it" \
    "install it (Debian, Ubuntu: apt install g++)"

exec "$python" tools/setup.py $packages
