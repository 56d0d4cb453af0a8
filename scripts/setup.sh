#!/usr/bin/env bash
# Makes .venv and sees to Python >= 3.11, Java >= 17 and Maven, and to the programs named as arguments (each in a Debian
# package of its name). Run again it does nothing and takes no time.
# Console scripts are never called: their first line breaks in a path with spaces. `.venv/bin/python -m NAME` always works.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly ROOT="$PWD"
readonly VENV=".venv"
readonly STAMP="$VENV/.fairlane-setup"
readonly PROGRAMS=("$@")

say() { printf 'setup: %s\n' "$*" >&2; }

good_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    local name
    for name in python3.13 python3.12 python3.11 python3; do
        if command -v "$name" >/dev/null 2>&1 && good_python "$name"; then
            printf '%s\n' "$name"
            return
        fi
    done
    return 1
}

# Debian ships Python without ensurepip unless python3-venv is there.
can_make_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

java_major() {
    command -v java >/dev/null 2>&1 || { echo 0; return; }
    java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

# Debian 12 has Java 17, Debian 13 has 21; Pulsar runs on both. A machine without package lists is taken for the former.
java_package() {
    if apt-cache show openjdk-21-jre-headless >/dev/null 2>&1 && ! apt-cache show openjdk-17-jre-headless >/dev/null 2>&1; then
        echo openjdk-21-jre-headless
    else
        echo openjdk-17-jre-headless
    fi
}

# Prints the Debian packages this machine lacks.
missing_packages() {
    local python major
    if ! python="$(find_python)"; then
        echo python3 python3-venv
    elif ! [ -x "$VENV/bin/python" ] && ! can_make_venv "$python"; then
        echo "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    fi
    major="$(java_major)"
    [ "${major:-0}" -ge 17 ] || java_package
    command -v mvn >/dev/null 2>&1 || echo maven
    missing_programs
}

missing_programs() {
    local name
    for name in ${PROGRAMS[@]+"${PROGRAMS[@]}"}; do  # an empty array is unset to older bash
        command -v "$name" >/dev/null 2>&1 || echo "$name"
    done
}

# How to become root without being asked for a password; empty when root already.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        echo env
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        echo "sudo -n env"
    else
        return 1
    fi
}

install_packages() {
    local root
    if ! command -v apt-get >/dev/null 2>&1; then
        say "this machine lacks: $*. Install Python 3.11 or newer with venv, Java 17 or newer and Maven, then run this again."
        exit 1
    fi
    if ! root="$(as_root)"; then
        say "this machine lacks: $*. Run this one command, then try again:"
        printf '  sudo apt-get update && sudo apt-get install -y --no-install-recommends %s\n' "$*" >&2
        exit 1
    fi
    say "reading the package lists"
    # shellcheck disable=SC2086  # `root` is words on purpose
    $root DEBIAN_FRONTEND=noninteractive apt-get -q update >/dev/null
    # shellcheck disable=SC2046  # package names have no spaces; asked for again, now that the lists are there
    set -- $(missing_packages)
    say "installing with apt-get: $*"
    # shellcheck disable=SC2086
    $root DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@" >/dev/null
}

stamp_text() { printf '%s\n' "$ROOT"; cat pyproject.toml requirements.lock; }

venv_works() { [ -x "$VENV/bin/python" ] && good_python "$VENV/bin/python"; }

pip_install() {
    "$VENV/bin/python" -m pip install -qq --disable-pip-version-check --constraint requirements.lock "$@"
}

make_venv() {
    local python
    python="$(find_python)" || { say "no Python 3.11 or newer even after installing; install one and run this again"; exit 1; }
    rm -rf -- "$VENV"
    say "making $VENV with $("$python" --version)"
    "$python" -m venv "$VENV"
}

# A checkout that was moved or whose settings of tools changed keeps its packages: only the link to the sources is made
# again, offline. Fails if a package is missing or has another version than the lock says.
relink() {
    venv_works && pip_install --no-index --no-build-isolation --editable '.[dev,lab,push,spark,web]' 2>/dev/null
}

main() {
    local missing
    missing="$(missing_packages)"
    if [ -n "$missing" ]; then
        # shellcheck disable=SC2086  # package names have no spaces
        install_packages $missing
    fi
    if venv_works && [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(stamp_text)" ]; then
        return
    fi
    if relink; then
        say "linked $VENV to $ROOT"
    else
        venv_works || make_venv
        say "installing the Python packages, Spark among them (some minutes)"
        pip_install --upgrade pip setuptools
        pip_install --editable '.[dev,lab,push,spark,web]'
    fi
    # Without this, commands compile Fairlane at each start where PYTHONDONTWRITEBYTECODE is set.
    "$VENV/bin/python" -m compileall -q dispatcher backends quotas producers consumers fairlane spark_jobs estate web lab
    stamp_text >"$STAMP"
    say "ready"
}

main
