"""Commands as processes of their own, forked from one that has imported Fairlane: most of what a short command costs is
importing. Commands that are started from nothing are tested too: see CommandLine."""

import gc
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import IO, Any, NoReturn

ROOT = Path(__file__).parents[2]
STREAMS = (("in", os.O_RDONLY), ("out", os.O_WRONLY), ("err", os.O_WRONLY))
"""The files that a command has for its standard streams."""


class CommandServer:
    """Runs one command at a time; each is given its arguments, environment, folder and standard streams."""

    def __init__(self, files: Path) -> None:
        self._files = files
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, arguments: tuple[str, ...], stdin: str, env: Mapping[str, str], folder: Path, timeout_s: float
    ) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        for name, text in (("in", stdin), ("out", ""), ("err", "")):
            (self._files / name).write_text(text)
        given = {"arguments": arguments, "env": dict(env), "folder": str(folder), "files": str(self._files)}
        try:
            code = self._code(json.dumps(given).encode(), timeout_s)
        except BaseException:
            self.close()  # with the command that did not end; the next one finds another server
            raise
        return code, (self._files / "out").read_text(), (self._files / "err").read_text()

    def close(self) -> None:
        """Ends it and what it still runs."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def _code(self, question: bytes, timeout_s: float) -> int:
        process = self._process = self._process or _begin()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(question + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], timeout_s)
        assert ready, f"not done within {timeout_s:g} s: {question!r}"
        return int(process.stdout.readline())


def _begin() -> "subprocess.Popen[bytes]":
    command, pipe = [sys.executable, "-m", __name__], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, process_group=0)


# ---------------------------------------------------------------- in the server's process
def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    for question in questions:
        given = json.loads(question)
        child = os.fork()
        if not child:
            become(given)
        _, status = os.waitpid(child, 0)
        answers.write(b"%d\n" % os.waitstatus_to_exitcode(status))
        answers.flush()


def become(given: dict[str, Any]) -> NoReturn:
    """This process is the command now."""
    from fairlane.cli.main import main

    os.environ.clear()
    os.environ.update(given["env"])
    os.chdir(given["folder"])
    for number, (name, flags) in enumerate(STREAMS):
        opened = os.open(Path(given["files"]) / name, flags)
        os.dup2(opened, number)
        os.close(opened)
    main(given["arguments"])


def import_all() -> None:
    """As any command does, and without starting a thread: threads are not forked."""
    from fairlane.cli import handlers

    for module in iter_modules(handlers.__path__):
        import_module(f"{handlers.__name__}.{module.name}")


if __name__ == "__main__":
    streams = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    import_all()
    gc.freeze()
    serve(*streams)
