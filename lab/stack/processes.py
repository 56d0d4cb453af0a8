"""Server processes: started detached, distinguished from later processes with the same pid, and stopped."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fairlane.local_stack import is_alive

POLL_S = 0.05
_LISTENING = "0A"
"""The state of a listening socket in /proc/net/tcp."""


def start_detached(command: Sequence[str], cwd: Path, log: Path, env: Mapping[str, str]) -> int:
    """Start a server in its own session, so that it outlives the caller; append its output to `log`.

    Returns its pid. `sh` only changes the directory and is then replaced by the server itself.
    """
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    shell = ["sh", "-c", 'cd -- "$0" && exec "$@"', str(cwd), *command]
    return os.posix_spawn("/bin/sh", shell, dict(env), file_actions=actions, setsid=True)


def listens(pid: int, port: int) -> bool:
    """Return whether this process listens on the port.

    True where the system does not tell which process has a port (not Linux).
    """
    tables = [table for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")) if table.exists()]
    if not tables:
        return True
    rows = [line.split() for table in tables for line in table.read_text().splitlines()[1:]]
    ours = {f"socket:[{row[9]}]" for row in rows if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port}
    return any(_target(link) in ours for link in Path(f"/proc/{pid}/fd").glob("*"))


def _target(link: Path) -> str:
    """Return the target of an open file's link; empty if the file has been closed meanwhile."""
    try:
        return str(link.readlink())
    except OSError:
        return ""


def stop(pid: int, birth: str, deadline_s: float) -> bool:
    """End a process: SIGTERM, then SIGKILL if it is still alive after `deadline_s`. Return whether SIGTERM was enough.

    `birth` tells it from a later process with the same id, which is left alone; see `birth_of`.
    """
    if _signal_and_wait(pid, birth, signal.SIGTERM, deadline_s):
        return True
    _signal_and_wait(pid, birth, signal.SIGKILL, 10.0)
    return False


def _signal_and_wait(pid: int, birth: str, number: signal.Signals, deadline_s: float) -> bool:
    end = time.monotonic() + deadline_s
    if is_alive(pid, birth):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    while is_alive(pid, birth):
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True


def resident_bytes(pid: int) -> int | None:
    """Return the resident memory of a process in bytes, or None if it has ended."""
    statm = Path(f"/proc/{pid}/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    answer = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return int(answer.stdout) * 1024 if answer.stdout.strip() else None


def last_lines(log: Path) -> str:
    """Return the end of a log, for an error message, without the frames of Java stack traces."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 64_000))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join([line for line in lines if not line.startswith(("\tat ", "\t... "))][-15:])
