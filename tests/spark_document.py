"""The commands of docs/spark.md, for tests that run them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

DOCUMENT = Path(__file__).parents[1] / "docs" / "spark.md"
_BLOCK = re.compile(r"^```(\w+)\n(.+?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^# (\w+\.\w+)\n")


class Block(NamedTuple):
    """kind: sh (commands), text (what they print, or what no test can run), or the language of a file."""

    kind: str
    text: str

    @property
    def file(self) -> str:
        """Its name, if it says one."""
        found = _FILE.match(self.text)
        return found[1] if found else ""


def blocks_of(section: str) -> list[Block]:
    """In order, of a section of the second level."""
    text = DOCUMENT.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    assert text
    return [Block(*found) for found in _BLOCK.findall(text)]


def examples() -> list[str]:
    """Python that is not for a file."""
    found = [Block(*found) for found in _BLOCK.findall(DOCUMENT.read_text(encoding="utf-8"))]
    return [block.text for block in found if block.kind == "python" and not block.file]


def path_with_commands(folder: Path) -> str:
    """A PATH on which `fairlane`, `python` and `spark-submit` are those of this environment. The first two have this
    checkout; `spark-submit` has only what it is given."""
    import pyspark

    folder.mkdir()
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    for name, command in {
        "fairlane": f'"{sys.executable}" -m fairlane', "python": f'"{sys.executable}"', "spark-submit": f'"{submit}"',
    }.items():  # fmt: skip
        path = "-u PYTHONPATH" if name == "spark-submit" else f'PYTHONPATH="{DOCUMENT.parents[1]}"'
        (folder / name).write_text(f'#!/bin/sh\nexec env {path} {command} "$@"\n')
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def begin(script: str, folder: Path, env: dict[str, str]) -> "subprocess.Popen[str]":
    """Commands in a shell and a process group of their own; its ends of the pipes are to be closed."""
    pipe, command = subprocess.PIPE, ["bash", "-eu", "-o", "pipefail", "-c", script]
    return subprocess.Popen(command, cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
