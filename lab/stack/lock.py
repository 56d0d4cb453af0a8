"""Locks: one `stack up` or `down` at a time per home, and one start at a time per machine."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MACHINE = Path("/tmp")  # nothing is written there
"""Locked by every user of the machine. It is a directory, since a file there would belong to the first user."""


@contextmanager
def exclusive(path: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock on a file (created if it is missing) or a directory.

    Waits while another process holds it, and reports that. The lock ends with the process, whatever happens.
    """
    held = os.open(path, os.O_RDONLY if path.is_dir() else os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another `fairlane stack` command to end")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)
