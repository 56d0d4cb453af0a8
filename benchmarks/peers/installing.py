"""Installs what the peers need outside the project: packages in the user's cache directory, servers by apt."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SERVERS = {"redis": "redis-server", "rabbitmq": "rabbitmq-server"}
"""Debian package by kind of server."""
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_POLICY = Path("/usr/sbin/policy-rc.d")
"""The file that Debian checks for whether a package may start its service."""


class CannotInstall(Exception):
    """Something cannot be installed; the message says what to run by hand."""


@dataclass(frozen=True)
class Tools:
    """Paths of the installed tools."""

    python: Path
    """The Python with the peers' clients."""
    node_modules: Path
    """The folder with BullMQ."""
    fairlane: Path
    """The project's own Python."""


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fairlane" / "peers"


def install(servers: set[str], *, python: bool, node: bool) -> Tools:
    """Install the named servers and clients that are missing; a second call does nothing."""
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    _servers(sorted(kind for kind in servers if kind in SERVERS and not _found(kind)))
    if python:
        _python(folder / "venv")
    if node:
        _node(folder / "node")
    fairlane = ROOT / ".venv" / "bin" / "python"
    if not fairlane.exists():
        _run(["make", "-C", str(ROOT), "setup"])
    return Tools(folder / "venv" / "bin" / "python", folder / "node" / "node_modules", fairlane)


def _found(kind: str) -> bool:
    return RABBITMQ.exists() if kind == "rabbitmq" else shutil.which("redis-server") is not None


def _servers(missing: list[str]) -> None:
    if not missing:
        return
    packages = [SERVERS[kind] for kind in missing]
    by_hand = "apt-get install --no-install-recommends " + " ".join(packages)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise CannotInstall(f"Missing: {', '.join(packages)}. Run as root: {by_hand}")
    say(f"installing {', '.join(packages)}")
    made = _forbid_start()
    try:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        _run(["apt-get", "update", "-q"], environment)
        _run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages], environment)
    finally:
        if made:
            START_POLICY.unlink()


def _forbid_start() -> bool:
    """Keep the packages from starting their own services. Return whether this call had to forbid it."""
    if START_POLICY.exists():
        return False
    START_POLICY.write_text("#!/bin/sh\nexit 101\n")
    START_POLICY.chmod(0o755)
    return True


def _python(venv: Path) -> None:
    requirements = (HERE / "requirements.txt").read_text()
    stamp = venv / "installed.txt"
    if stamp.exists() and stamp.read_text() == requirements:
        return
    say("installing the Python peers' clients")
    shutil.rmtree(venv, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(venv)])
    _run([str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "-r", str(HERE / "requirements.txt")])
    stamp.write_text(requirements)


def _node(folder: Path) -> None:
    if shutil.which("npm") is None:
        raise CannotInstall("Missing: node and npm. Run as root: apt-get install nodejs npm")
    package = (HERE / "package.json").read_text()
    stamp = folder / "installed.txt"
    if stamp.exists() and stamp.read_text() == package:
        return
    say("installing BullMQ")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(HERE / "package.json", folder)
    quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    _run(["npm", "install", "--prefix", str(folder), *quiet])
    stamp.write_text(package)


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotInstall(f"This failed: {' '.join(command)}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
