"""CPU cost of this process and of all that it started, among them Spark's JVM and its Python workers."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PARENT, _TIMES = 1, slice(11, 15)
"""Positions in /proc/PID/stat after the command: user and system time, of the process and of its ended children."""


def family_cpu_s() -> float:
    """Return user and system CPU seconds so far; processes that ended count if they were waited for."""
    processes = dict(_processes())
    ours = {os.getpid()}
    grew = True
    while grew:
        more = {pid for pid, fields in processes.items() if int(fields[_PARENT]) in ours} - ours
        ours |= more
        grew = bool(more)
    ticks = sum(int(field) for pid in ours for field in processes[pid][_TIMES])
    return ticks / os.sysconf("SC_CLK_TCK")


def _processes() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):  # it may have ended meanwhile
                yield int(folder.name), (folder / "stat").read_text().rpartition(")")[2].split()
