"""Copies of the repository in which mutations are made and tested; the working tree is never touched."""

import compileall
import os
import py_compile
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.mutations.catalog import ROOT, Mutation, mutated

WITHOUT_SERVERS = "in-process or not ([redis or [valkey)"
"""Tests of the contract over a Redis in this process, and those that have no such choice."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - |$)", re.MULTILINE)
_IMPORTED = (
    "import importlib, sys; print(*(importlib.import_module(name).__file__ for name in sys.argv[1:]), sep='\\n')"
)
PASSED, FAILED, TOO_LONG = 0, 1, -1


class RunOfTests(NamedTuple):
    """code: pytest's, or TOO_LONG."""

    code: int
    failed: str
    """The first test that failed."""
    output: str


class Tree:
    """One copy. For one thread at a time."""

    def __init__(self, folder: Path) -> None:
        """Copy what git tracks. Raises RuntimeError if programs in the copy would import the code of another tree."""
        self._folder = folder
        self._running: subprocess.Popen[str] | None = None
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        # By content: two mutations of a file within a second may be of the same length.
        compileall.compile_dir(folder, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
        self._check_imports()

    @contextmanager
    def with_mutation(self, mutation: Mutation) -> Iterator[None]:
        """Raises DoesNotApply."""
        path = self._folder / mutation.file
        text = path.read_text(encoding="utf-8")
        path.write_text(mutated(text, mutation), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")

    def run(self, tests: Sequence[str], limit_s: float) -> RunOfTests:
        """Run test files in this order up to the first failure."""
        options = ["-x", "-q", "--tb=short", "-rfE", "-p", "no:cacheprovider", "-p", "tests.mutations.plugin"]
        command = [*options, "--hypothesis-profile=mutations", "-k", WITHOUT_SERVERS, *tests]
        process = self._running = subprocess.Popen(
            [sys.executable, "-m", "pytest", *command],
            cwd=self._folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self.stop()
            output, _ = process.communicate()
            return RunOfTests(TOO_LONG, "", output)
        failed = _FAILED.search(output)
        return RunOfTests(process.returncode, failed[1] if failed else "", output)

    def stop(self) -> None:
        """End the run under way, if there is one. From any thread."""
        if self._running is not None and self._running.poll() is None:
            os.killpg(self._running.pid, signal.SIGKILL)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLANE_")}
        return {**kept, "PYTHONPATH": str(self._folder)}

    def _check_imports(self) -> None:
        """An editable install points to one tree: the copy has to come before it."""
        packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
        found = subprocess.run(
            [sys.executable, "-c", _IMPORTED, *packages],
            cwd=self._folder,
            env=self._environment(),
            check=True,
            capture_output=True,
            text=True,
        )
        astray = [path for path in found.stdout.split("\n") if path and not Path(path).is_relative_to(self._folder)]
        if astray:
            raise RuntimeError(f"The copy in {self._folder} would import {', '.join(astray)}: unset PYTHONPATH.")
