"""Finds a Java that can run Pulsar."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.stack.errors import JavaUnusable

OLDEST = 17
HOW_TO_GET = "Install it (Debian: `apt-get install openjdk-17-jre-headless`), or run `make setup`."


@dataclass(frozen=True)
class Java:
    """A Java program and its major version."""

    program: Path
    version: int


def find(env: Mapping[str, str]) -> Java:
    """Return the Java of JAVA_HOME, else the one on PATH. Raises JavaUnusable if there is none or it is too old."""
    program = _program(env)
    if program is None:
        raise JavaUnusable("Java was not found, and Pulsar needs it.", HOW_TO_GET)
    version = version_of(program)
    if version < OLDEST:
        raise JavaUnusable(f"{program} is Java {version}; Pulsar needs {OLDEST} or newer.", HOW_TO_GET)
    return Java(program, version)


def _program(env: Mapping[str, str]) -> Path | None:
    if env.get("JAVA_HOME"):
        program = Path(env["JAVA_HOME"]) / "bin" / "java"
        if os.access(program, os.X_OK):
            return program
    path = shutil.which("java", path=env.get("PATH", ""))
    return Path(path) if path else None


def version_of(program: Path) -> int:
    """Return the major version: 17 for 17.0.2, 8 for 1.8.0. Raises JavaUnusable if the program does not print it."""
    try:
        output = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaUnusable(f"{program} does not run: {error}.", HOW_TO_GET) from error
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    if match is None:
        raise JavaUnusable(f"{program} does not print its version.", HOW_TO_GET)
    return int(match[1])
