#!/usr/bin/env bash
# Puts prometheus and promtool of Debian's package into .venv/share/prometheus, for the tests of deploy/monitoring. The
# package is unpacked and not installed: an installed one would start a service.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly FOLDER=".venv/share/prometheus"

say() { printf 'prometheus: %s\n' "$*" >&2; }

read_lists() {
    if [ "$(id -u)" = 0 ]; then
        apt-get -q update
    elif command -v sudo >/dev/null 2>&1; then
        sudo -n apt-get -q update
    else
        return 1
    fi
}

main() {
    if command -v promtool >/dev/null 2>&1 && command -v prometheus >/dev/null 2>&1; then
        return
    fi
    [ -x "$FOLDER/bin/promtool" ] && return
    command -v apt-get >/dev/null 2>&1 || { say "no apt-get: install prometheus and promtool yourself"; exit 1; }
    local work
    work="$(mktemp -d)"
    # shellcheck disable=SC2064  # the folder of now
    trap "rm -rf -- '$work'" EXIT
    (cd "$work" && apt-get -q download prometheus) >/dev/null 2>&1 || {
        say "reading the package lists"
        read_lists >/dev/null
        (cd "$work" && apt-get -q download prometheus) >/dev/null
    }
    dpkg -x "$work"/prometheus_*.deb "$work/all"
    mkdir -p "$FOLDER"
    rm -rf -- "$FOLDER/bin"
    mv -- "$work/all/usr/bin" "$FOLDER/bin"
    say "promtool and prometheus are in $FOLDER/bin"
}

main
