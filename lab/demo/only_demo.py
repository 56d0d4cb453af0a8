"""One demo at a time, without the processes of one that was killed: they would serve its tenant, which is the same."""

import fcntl
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from dispatcher.model.errors import Refused
from fairlane.cli.base.output import say
from fairlane.local_stack import birth_of, is_alive
from fairlane.worker.process.stop_signal import interrupted_by
from lab.stack import processes
from lab.stack.stored import StoredFile

_STOP_S = 2.0
"""Deadline of SIGTERM. What they hold is of no use: the tenant is deleted."""


class _Started(BaseModel, frozen=True):
    """A process of the demo."""

    pid: int
    birth: str


@contextmanager
def only_demo(folder: Path) -> Iterator[Callable[[int], None]]:
    """Yield the function to call with the id of each process that the demo starts.

    The processes of a demo that was killed are stopped first. Raises Refused if another demo is under way.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fix = "Wait for its end, or choose another folder for this one with FAIRLANE_HOME."
            raise Refused("A demo is under way on this machine.", fix) from None
        file = StoredFile(folder / "processes.json", list[_Started], "Delete the file.")
        _stop(file.load() or [])
        with interrupted_by(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            yield _noting(file)


def _stop(left: list[_Started]) -> None:
    living = [one for one in left if is_alive(one.pid, one.birth)]
    if living:
        say("stopping the processes of a demo that was killed")
    for one in living:
        processes.stop(one.pid, one.birth, _STOP_S)


def _noting(file: StoredFile[list[_Started]]) -> Callable[[int], None]:
    started: list[_Started] = []

    def note(pid: int) -> None:
        birth = birth_of(pid)
        if birth is not None:
            started.append(_Started(pid=pid, birth=birth))
            file.save(started)

    return note
