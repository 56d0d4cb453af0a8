"""Installs the Kafka server and its client into the user's cache directory."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dispatcher.model.errors import FairlaneError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


@dataclass(frozen=True)
class KafkaTools:
    """Paths of what was installed."""

    python: Path
    """The Python with the client."""
    jars: Path
    """The folder with the server's jars."""


def install(say: Callable[[str], None]) -> KafkaTools:
    """Install what is missing; a second call does nothing. Raises FairlaneError."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "fairlane" / "kafka"
    folder.mkdir(parents=True, exist_ok=True)
    tools = KafkaTools(python=folder / "venv" / "bin" / "python", jars=folder / "server" / "jars")
    if _is_stale(tools.jars.parent, HERE / "pom.xml"):
        say("fetching Kafka (46 MB, once per user)")
        _run([_maven(), "-B", "-q", "-f", str(HERE / "pom.xml"), COPY_GOAL, f"-DoutputDirectory={tools.jars}"])
        shutil.copy(HERE / "pom.xml", tools.jars.parent)
    if _is_stale(folder / "venv", HERE / "requirements.txt"):
        say("installing the Kafka client")
        _run([sys.executable, "-m", "venv", str(folder / "venv")])
        _run([str(tools.python), "-m", "pip", "install", "-q", "-r", str(HERE / "requirements.txt")])
        shutil.copy(HERE / "requirements.txt", folder / "venv")
    return tools


def _is_stale(folder: Path, pinned: Path) -> bool:
    """Return whether the folder was not made from this file. What another one made is deleted."""
    stamp = folder / pinned.name
    if stamp.exists() and stamp.read_text() == pinned.read_text():
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def _maven() -> str:
    found = shutil.which("mvn")
    if found is None:
        raise FairlaneError("Maven, which fetches Kafka, was not found.", "Install it: `apt-get install maven`.")
    return found


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FairlaneError(f"This failed: {' '.join(command)}\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
