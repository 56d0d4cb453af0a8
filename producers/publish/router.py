"""Send envelopes into the partitions of a lane, with a bound on what is in flight. Implements LaneWriter.

pulsar-client exposes neither its queues nor its memory use. Its own routing keeps filling a stalled partition until
that partition's queue holds all the memory. So there is a producer for each partition, and the counts are kept here.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from backends.settings import WhenFull
from dispatcher.model.errors import FairlaneError, InvalidInput, Unreachable
from dispatcher.ports import Done
from dispatcher.wire.envelope import MAX_ENVELOPE_BYTES
from producers.publish.in_flight import Confirmed
from producers.publish.rotation import PartitionRotation
from producers.publish.tuning import ProducerSettings

_STALLED = (
    "The submission of task %s got no receipt from Pulsar for %.0f s. `fairlane estate show` names a slow node; "
    "`fairlane estate capture --task %s` keeps the state of the estate."
)
_log = logging.getLogger(__name__)


class QueueFull(Unreachable):
    """No partition takes more now, and the caller chose not to wait.

    taken: how many of the call's messages are on their way; the others are not.
    """

    taken = 0


class Partition(Protocol):
    """Publishes to one partition, in order. Implemented by backends.pulsar.publisher.LaneProducer."""

    def send(self, bodies: Sequence[bytes], done: Done) -> None:
        """Send the messages; never wait within the router's bounds.

        `done` may run under a lock: it must not raise or send.
        """
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """Settings of a router."""

    when_full: WhenFull = "wait"
    late_s: float = 0.5
    """A partition that owes an answer for this long gets nothing new until it answers (see PartitionRotation)."""
    stall_s: float = 60.0
    """How long a sender waits while no partition answers anything."""
    note_stall_s: float = 30.0
    """How long no partition answers anything before that is logged."""
    task: str = ""
    """The task whose targets are sent, for the log."""


class Router:
    """Sends messages to partitions. Safe for threads; one thread sends at a time.

    After a failure every later call fails as well: continue from the confirmed messages with a new router.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        producer: ProducerSettings,
        settings: RouterSettings,
        clock_s: Callable[[], float],
    ) -> None:
        """clock_s: monotonic."""
        self._partitions = partitions
        self._settings = settings
        self._clock_s = clock_s
        self._sending = threading.Lock()
        self._room = threading.Condition()
        self._rotation = PartitionRotation(producer, settings.late_s, clock_s())
        self._confirmed = Confirmed()
        self._sent = 0
        self._noted = False
        """Whether the stall that lasts is logged."""
        self._error: FairlaneError | None = None

    # ------------------------------------------------------------ LaneWriter
    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Send all messages. Those that find no room are treated as `when_full` says.

        Raises InvalidInput for a body that is too big, before anything is sent; QueueFull, with the number of messages
        taken; Unreachable if Pulsar answers nothing for stall_s; an earlier failure.
        """
        if bodies and max(map(len, bodies)) > MAX_ENVELOPE_BYTES:
            raise InvalidInput(f"An envelope is larger than {MAX_ENVELOPE_BYTES} bytes.", "Choose a smaller chunk.")
        with self._sending:
            with self._room:
                self._note_stall(self._rotation.silent_s(self._clock_s()))
            start = 0
            while start < len(bodies):
                with self._room:
                    end, size = self._rotation.cut(bodies, start, self._clock_s())
                try:
                    self._send(bodies[start:end], size)
                except QueueFull as error:
                    error.taken = start
                    raise
                start = end

    def confirmed(self) -> int:
        return self._confirmed.upto

    def flush(self) -> None:
        """Return when all sent messages are stored. Raises as `send_many`."""
        with self._room:
            while self._confirmed.upto < self._sent:
                self._wait()
            self._check()

    def close(self) -> None:
        """Close the lane. Messages not stored by then fail."""
        for each in self._partitions:
            each.close()

    # ------------------------------------------------------------ sending
    def _send(self, piece: Sequence[bytes], size: int) -> None:
        """Hand the piece to a partition, however long that takes."""
        while True:
            with self._room:
                self._check()
                first = self._sent
                index = self._reserve(first, len(piece), size)
                if index is not None:
                    self._sent += len(piece)
            if index is not None:
                self._hand_over(index, first, piece, size)
                return
            if self._settings.when_full == "fail":
                raise QueueFull(self._full_words(), "Send it again in a moment, or slower.")
            with self._room:
                self._wait()

    def _reserve(self, first: int, messages: int, size: int) -> int | None:
        """Reserve room on a partition for these messages and return its index; None if none takes them now."""
        now_s = self._clock_s()
        index = self._rotation.choose(messages, size, now_s)
        if index is not None:
            self._rotation.add(index, first, messages, size, now_s)
        return index

    def _hand_over(self, index: int, first: int, piece: Sequence[bytes], size: int) -> None:
        """Send a reserved piece. This runs outside the lock, since answers arrive under locks of the client."""
        answered = partial(self._answered, index, first, len(piece), size)
        try:
            self._partitions[index].send(piece, answered)
        except FairlaneError as error:
            answered(error)
            raise

    def _answered(self, index: int, first: int, messages: int, size: int, error: Exception | None) -> None:
        """Handle the answer for a piece. Called from any thread."""
        with self._room:
            self._rotation.windows[index].answered(first, messages, size, self._clock_s())
            if error is None:
                self._confirmed.add(first, first + messages)
            elif self._error is None:
                self._error = error if isinstance(error, FairlaneError) else Unreachable(str(error))
            self._room.notify_all()

    # ------------------------------------------------------------ waiting (with the lock held)
    def _wait(self) -> None:
        """Wait briefly for an answer. Lateness depends on the time too, so the wait is short. Raise if answers stop
        coming."""
        self._check()
        silent_s = self._rotation.silent_s(self._clock_s())
        self._note_stall(silent_s)
        if silent_s >= self._settings.stall_s:
            raise Unreachable(
                f"Pulsar has confirmed nothing for {self._settings.stall_s:g} s ({self._full_words()})",
                "Check that it runs and its disk has room (`fairlane doctor`); then submit again to continue.",
            )
        self._room.wait(self._settings.late_s)

    def _note_stall(self, silent_s: float) -> None:
        """Log a stall, once while it lasts. A thread does it: a handler may block, and answers need the lock."""
        stalled = silent_s >= self._settings.note_stall_s
        if stalled and not self._noted:
            args = (_STALLED, self._settings.task, silent_s, self._settings.task)
            threading.Thread(target=_log.warning, args=args, name="note stall", daemon=True).start()
        self._noted = stalled

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _full_words(self) -> str:
        waiting = [f"{number}: {window.messages:,}" for number, window in enumerate(self._rotation.windows)]
        return f"Messages not confirmed, by partition: {', '.join(waiting)}."
