"""Store a submission's progress in the background, so that the stream never waits for it."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from dispatcher.model.errors import Unreachable
from dispatcher.wire.control import FORMAT, MAIN_WRITER, Checkpoint
from producers.ports import LaneWriter, Services

_POLL_S: Final = 0.01


class Checkpointer:
    """Stores the checkpoints of a submission (how far it has published), one at a time.

    A new one starts only after the one before is stored. After each, the task is read again, and `stopped` has the
    reason why the submission should end, such as a cancel; it is empty if there is none. `base` is the sequence number
    of the first envelope that `writer` publishes.
    """

    def __init__(self, services: Services, writer: LaneWriter, task: str, base: int) -> None:
        self.stopped = ""
        self._services = services
        self._writer = writer
        self._task = task
        self._base = base
        self._pace = services.pace
        self._sequence = base
        self._due_s = services.clock.monotonic_s() + self._pace.first_s
        self._soonest_s = self._due_s
        self._pool: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None
        self._closing = threading.Event()

    def due(self, sequence: int) -> bool:
        """Return whether to `store` now. Raise the error of the last checkpoint if it failed."""
        if self._pending is not None:
            if not self._pending.done():
                return False
            pending, self._pending = self._pending, None
            pending.result()
        now_s = self._services.clock.monotonic_s()
        if now_s < self._soonest_s:
            return False
        return now_s >= self._due_s or sequence - self._sequence >= self._pace.envelopes

    def store(self, sequence: int, targets: int, refused: int, digest: str) -> None:
        """Store a checkpoint as soon as all envelopes below `sequence` are confirmed. Returns at once."""
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        now_s = self._services.clock.monotonic_s()
        self._sequence = sequence
        self._soonest_s = now_s + self._pace.shortest_s
        self._due_s = now_s + self._pace.longest_s
        record = Checkpoint(
            format=FORMAT,
            task=self._task,
            writer=MAIN_WRITER,
            sequence=sequence,
            targets=targets,
            refused=refused,
            consumed=targets + refused,
            digest=digest,
        )
        self._pending = self._pool.submit(self._store, record)

    def finish(self) -> None:
        """Wait for the checkpoint in progress if all envelopes are confirmed; abandon it otherwise."""
        self._closing.set()
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    def _store(self, record: Checkpoint) -> None:
        while self._writer.confirmed() < record.sequence - self._base:
            if self._closing.wait(_POLL_S):
                return
        position = self._services.control.append(record)
        try:
            self._services.registry.control.apply(position, record)
            submission = self._services.known.submission(self._task)
        except Unreachable:
            return  # only the view: workers update it from the control topic
        self.stopped = submission.stopped if submission is not None else ""
