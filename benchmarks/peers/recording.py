"""The handling of a message, the same for every peer: append one record to the process' own file.

In paced rows it also takes as long as sending would. bullmq_peer.js has the same in JavaScript. The settings come from
the environment, set by crew.py.
"""

import os
import time
from pathlib import Path

RECORD_BYTES = 40
SLACK_S = 0.1
"""How much unused capacity a paced worker may catch up on: it hides what a message costs besides its handling."""
GATE_POLL_S = 0.001


def record(time_us: int, task: str, sequence: int, targets: int) -> bytes:
    """Return one record of fixed size: time (wall clock, us), task, sequence of the message, number of targets."""
    return b"%016d %-8s %08d %04d\n" % (time_us, task.encode(), sequence, targets)


class Recorder:
    """Records messages.

    gate: a folder in which each worker leaves a file when it holds its first message, and the number to wait for.
    pace: targets/s of this process, 0 for as fast as it can.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        folder = Path(environment["PEER_RECORDS"])
        self._file = os.open(folder / f"{os.getpid()}.records", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._pace = float(environment.get("PEER_PACE", "0"))
        self._gate = Path(environment["PEER_GATE"])
        self._workers = int(environment.get("PEER_WORKERS", "1"))
        self._open = False
        self._free_s = 0.0

    def handle(self, task: str, sequence: int, targets: int) -> None:
        """Handle a message. Blocks while the gate is closed, and, where paced, while it sends."""
        if not self._open:
            self._pass_gate()
        self.append(task, sequence, targets)
        if self._pace:
            self._send(targets)

    def append(self, task: str, sequence: int, targets: int) -> None:
        """Append the record of one message."""
        os.write(self._file, record(time.time_ns() // 1000, task, sequence, targets))

    def _pass_gate(self) -> None:
        (self._gate / str(os.getpid())).touch()
        while len(os.listdir(self._gate)) < self._workers:  # noqa: PTH208  # cheaper, and polled
            time.sleep(GATE_POLL_S)
        self._open = True

    def _send(self, targets: int) -> None:
        """Take as long as sending the targets would.

        The record is already written: a message counts as handled when its sending begins, so that no peer's wait
        includes its own sending.
        """
        now = time.monotonic()
        self._free_s = max(self._free_s, now - SLACK_S) + targets / self._pace
        if self._free_s > now:
            time.sleep(self._free_s - now)
