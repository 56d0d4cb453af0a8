"""One `stack up` or `down` at a time for one home, and one start at a time for a user."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock file; waits for another holder, saying so. The lock ends with the process, whatever happens."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another `fairlane stack` command to end")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
