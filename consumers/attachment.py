"""One consumer on one lane, from attaching to closing.

It is made of pulsar-client's raw consumer: its asynchronous calls need no thread each, and per message they cost half
of the public ones, which wrap every message and wait for every acknowledgement.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import _pulsar
import pulsar

from backends.pulsar_client import error_of
from consumers.background import Background
from dispatcher.clock import Clock
from dispatcher.envelope import decode_envelope
from dispatcher.errors import Malformed, NotFound
from dispatcher.ports import Delivery
from dispatcher.topics import SUBSCRIPTION

OK = pulsar.Result.Ok
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AttachSettings:
    """How attaching is tried again: the first and the longest wait, and for how long a lane whose topic (or its
    subscription) is missing is looked for: it may be about to be created, or deleted a moment ago."""

    first_wait_s: float = 0.02
    longest_wait_s: float = 5.0
    missing_s: float = 30.0


@dataclass(frozen=True)
class Surroundings:
    """What all attachments of a worker share. ready: told of a lane with something to drain, from any thread.
    undecodable: given the attachment, a message that is no envelope, and why not."""

    client: pulsar.Client
    background: Background
    clock: Clock
    ready: Callable[[str], None]
    undecodable: Callable[["Attachment", Any, Malformed], None]
    settings: AttachSettings = field(default_factory=AttachSettings)


class Attachment:
    """Opening, open or closed. `drain` and `ack` belong to the engine's thread, opening and closing to the
    background's; `_arrived` comes from a thread of the client's.

    An idle lane has exactly one receive outstanding ("armed"), whose message lands in `_arrived_messages`. Arming with
    a message in the client's queue hands it over at once, in the same call: that is also the cheapest way to take one
    (4 us; a receive with a timeout costs 100 us when there is nothing).
    """

    def __init__(self, lane: str, queue: int, around: Surroundings) -> None:
        """Starts to attach. queue: envelopes the client may hold ahead of time."""
        self.lane = lane
        self.queue = queue
        self.held = 0
        """Messages given out and not acked."""
        self.open = False
        self.closed = False
        self.given_up = False
        """The lane is not there."""
        self._around = around
        self._consumer: Any = None
        self._arrived_messages: deque[Any] = deque()
        self._armed = False
        self._arming = False
        self._attempts = 0
        self._started_s = around.clock.monotonic_s()
        around.background.do(self._subscribe)

    # ------------------------------------------------------------- the engine's thread
    def drain(self, max_targets: int) -> tuple[list[Delivery], bool]:
        """See Lanes.drain."""
        deliveries: list[Delivery] = []
        consumer = self._consumer
        if not self.open or self.closed or consumer is None:
            return deliveries, True
        receive, arrived, messages = consumer.receive_async, self._arrived, self._arrived_messages
        now_s = self._around.clock.monotonic_s()
        room = max_targets
        while room > 0:
            if not messages:
                if self._armed:
                    break
                self._armed = self._arming = True
                receive(arrived)
                self._arming = False
                if not messages:
                    break
            message = messages.popleft()
            self._armed = False
            try:
                envelope = decode_envelope(message.data())
            except Malformed as error:
                self._around.undecodable(self, message, error)
                continue
            deliveries.append(Delivery(envelope, message, now_s))
            room -= len(envelope.targets) or 1
        self.held += len(deliveries)
        return deliveries, room > 0

    def ack(self, messages: Sequence[Any]) -> None:
        """Acknowledgements are gathered by the client and sent within 0.1 s; one that is lost means a copy later."""
        consumer = self._consumer
        if self.closed or consumer is None:
            return
        acknowledge = consumer.acknowledge_async
        for message in messages:
            acknowledge(message, _ignore)
        self.held = max(0, self.held - len(messages))

    # ------------------------------------------------------------- a client's thread
    def _arrived(self, result: Any, message: Any) -> None:
        """The outstanding receive is over. It may neither raise nor arm again here: the client would not survive it.

        While `_arming`, the engine is inside `receive_async` and looks for itself right after it.
        """
        if result == OK:
            self._arrived_messages.append(message)
        elif not self.closed:
            self._around.background.do(self._lost)
        if not self._arming:
            self._around.ready(self.lane)

    # ------------------------------------------------------------- opening
    def _subscribe(self) -> None:
        if self.closed:
            return
        self._attempts += 1
        opened = lambda result, consumer: self._around.background.do(partial(self._opened, result, consumer))  # noqa: E731
        self._around.client._client.subscribe_async(self.lane, SUBSCRIPTION, _configuration(self.queue), opened)

    def _opened(self, result: Any, consumer: Any) -> None:
        if result != OK:
            self._failed(result)
            return
        self._consumer = consumer
        if self.closed:
            consumer.close_async(_ignore)
            return
        self._arrived_messages.clear()
        self.held = 0
        self._armed = self.open = True
        consumer.receive_async(self._arrived)

    def _failed(self, result: Any) -> None:
        """Again later, unless the lane is missing for good (deleted since the registry told of it)."""
        if self.closed:
            return
        error = error_of(result.name, f"attach to the lane {self.lane}")
        settings = self._around.settings
        missing = isinstance(error, NotFound)
        if missing and self._around.clock.monotonic_s() - self._started_s > settings.missing_s:
            self.given_up = True
            _log.info("The lane %s is not there; given up", self.lane)
            return
        if not missing and self._attempts & (self._attempts - 1) == 0:
            _log.warning("%s Trying again (attempt %d failed).", error, self._attempts)
        wait_s = min(settings.longest_wait_s, settings.first_wait_s * 2 ** min(self._attempts - 1, 16))
        self._around.background.do(self._subscribe, wait_s)

    def _lost(self) -> None:
        """The client gave the consumer up (it heals lost connections by itself): attach anew."""
        if self._consumer is not None and not self.closed:
            _log.warning("The consumer of the lane %s was lost; attaching again", self.lane)
            self._close(None)
            self._attempts, self._started_s = 0, self._around.clock.monotonic_s()
            self._around.background.do(self._subscribe, self._around.settings.first_wait_s)

    # ------------------------------------------------------------- closing
    def close(self, closed: Callable[[], None] | None = None) -> None:
        """Lets go, in the background; what is not acked goes to others. closed: called when that is done."""
        self.closed = True
        self._around.background.do(partial(self._close, closed))

    def _close(self, closed: Callable[[], None] | None) -> None:
        done = _ignore if closed is None else lambda _result: closed()
        consumer, self._consumer = self._consumer, None
        self.open = False
        if consumer is None:
            done(OK)
        else:
            consumer.close_async(done)


def _ignore(_result: Any) -> None:
    """For what cannot fail, or whose failure means a copy later."""


def _configuration(queue: int) -> Any:
    configuration = _pulsar.ConsumerConfiguration()
    configuration.consumer_type(pulsar.ConsumerType.Shared)
    configuration.subscription_initial_position(pulsar.InitialPosition.Earliest)
    configuration.receiver_queue_size(queue)
    configuration.batch_index_ack_enabled(True)
    return configuration
