"""Hold a local stack for one process of the tests, in a process of its own. When its standard input is closed, for
example because that process was killed, it releases the stack. The last release stops the stack and wipes its data."""

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.stack.stack import LocalStack

ROOT = Path(__file__).parents[1]


@contextmanager
def held(home: Path) -> Iterator[None]:
    """A stack that is started there within the context lasts until nobody holds it any more."""
    command, pipe = [sys.executable, "-m", __name__, str(home)], subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, start_new_session=True) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline(), "nobody will stop the stack"
        yield


def keep(home: Path) -> None:
    with home.with_name(f"{home.name}.holders").open("w") as holders:
        fcntl.flock(holders, fcntl.LOCK_SH)
        print("held", flush=True)
        sys.stdin.read()
        fcntl.flock(holders, fcntl.LOCK_UN)  # first: of two that end at once, one must be the last
        try:
            fcntl.flock(holders, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        LocalStack(home).down(wipe=True)


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
