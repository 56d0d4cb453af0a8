"""Open consumers on lanes, a few at a time, with retries for as long as they are needed."""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import _pulsar
import pulsar

from backends.pulsar.client import error_of, ignore
from consumers.lanes.background import Background
from dispatcher.clock import Clock
from dispatcher.model.errors import NotFound
from dispatcher.retry import Backoff
from dispatcher.wire.topics import SUBSCRIPTION

OK = pulsar.Result.Ok
_MAX_BATCH = 100
_BATCH_WAIT_MS = 1
_NO_LIMIT = -1
_MAX_UNANSWERED = 5
"""Maximum attempts per lane that the client still works on. With `quick_s` the last begins after 0.45 s."""
_FEW_ATTEMPTS = 8
"""Up to this number, concurrent attempts do not slow each other down."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class OpenSettings:
    """Limits and delays for opening consumers."""

    at_once: int = 64
    """Maximum attempts in progress over all lanes."""
    wait: Backoff = Backoff(0.02, 5.0)
    """Before the next attempt after a failure."""
    patience_s: float = 0.15
    """How long an attempt may be unanswered before another one starts beside it; it doubles each time. The topic of a
    new task has no subscription for some milliseconds. The client answers an attempt made in that time only after its
    operation timeout of many seconds."""
    quick_s: float = 0.03
    """Used instead of patience_s while few attempts are in progress: the worker often learns of a new task from the
    control topic before its lane exists, and an attempt takes 5 ms then."""
    missing_s: float = 30.0
    """How long to look for a lane whose topic is missing: it may be about to be created, or deleted a moment ago."""
    batch_index_acks: bool = False
    """Tell the broker of acknowledgements within a producer's batch. Without this, a batch with some unacked messages
    is redelivered whole; the copies are dropped by their identity. It costs a third more per message (the client sends
    one acknowledgement per message instead of one per batch; 5.3 us instead of 3.9), and the broker miscounts the
    unacked messages (60 received, 40 acked: -160)."""


@dataclass(eq=False)
class Opening:
    """The process of opening one lane's consumer."""

    lane: str
    queue: int
    """Envelopes that the client may prefetch."""
    opened: Callable[[Any], None]
    """Called once with the raw consumer."""
    given_up: Callable[[], None]
    """Called if the lane does not exist."""
    over: bool = False
    """Whether the lane was opened, given up, or is no longer needed."""
    attempts: int = 0
    unanswered: int = 0
    since_s: float = 0.0


class Opener:
    """Opens consumers, in the background's thread. Any thread may call `open`."""

    def __init__(self, client: pulsar.Client, background: Background, clock: Clock, settings: OpenSettings) -> None:
        self._client = client
        self._background = background
        self._clock = clock
        self._settings = settings
        self._waiting: deque[Opening] = deque()
        self._under_way = 0

    def open(self, opening: Opening) -> None:
        """Start an opening. It ends with `opened` or `given_up` in the background's thread, unless `opening.over` is
        set first."""
        opening.since_s = self._clock.monotonic_s()
        self._background.do(partial(self._enqueue, opening))

    def _enqueue(self, opening: Opening) -> None:
        if not opening.over:
            self._waiting.append(opening)
            self._next()

    def _next(self) -> None:
        while self._waiting and self._under_way < self._settings.at_once:
            opening = self._waiting.popleft()
            if not opening.over:
                self._attempt(opening)

    def _attempt(self, opening: Opening) -> None:
        self._under_way += 1
        opening.attempts += 1
        opening.unanswered += 1
        attempt = _Attempt(opening, opening.attempts)
        do, answered = self._background.do, self._answered
        self._client._client.subscribe_async(
            opening.lane,
            SUBSCRIPTION,
            _configuration(opening.queue, self._settings),
            lambda result, consumer: do(partial(answered, attempt, result, consumer)),
        )
        patience_s = self._settings.quick_s if self._under_way <= _FEW_ATTEMPTS else self._settings.patience_s
        patience = self._settings.wait._replace(first_s=patience_s)
        self._background.do(partial(self._overdue, attempt), patience.nth(opening.attempts - 1))

    def _answered(self, attempt: "_Attempt", result: Any, consumer: Any) -> None:
        opening = attempt.opening
        opening.unanswered -= 1
        self._ended(attempt)
        if result == OK:
            self._opened(opening, consumer)
        elif not opening.over and (attempt.latest or not opening.unanswered):
            self._failed(opening, result)

    def _opened(self, opening: Opening, consumer: Any) -> None:
        if opening.over:
            consumer.close_async(ignore)
            return
        opening.over = True
        opening.opened(consumer)

    def _overdue(self, attempt: "_Attempt") -> None:
        """Stop counting an overdue attempt as in progress; it may still be answered."""
        if attempt.ended:
            return
        self._ended(attempt)
        opening = attempt.opening
        if not opening.over and opening.unanswered < _MAX_UNANSWERED:
            self._enqueue(opening)

    def _ended(self, attempt: "_Attempt") -> None:
        if not attempt.ended:
            attempt.ended = True
            self._under_way -= 1
            self._next()

    def _failed(self, opening: Opening, result: Any) -> None:
        error = error_of(result.name, f"attach to the lane {opening.lane}", self._client)
        missing = isinstance(error, NotFound)
        if missing and self._clock.monotonic_s() - opening.since_s > self._settings.missing_s:
            _log.info("The lane %s does not exist; no longer attaching to it", opening.lane)
            opening.over = True
            opening.given_up()
            return
        if not missing and opening.attempts & (opening.attempts - 1) == 0:
            _log.warning("%s Trying again (attempt %d failed).", error, opening.attempts)
        self._background.do(partial(self._enqueue, opening), self._settings.wait.nth(opening.attempts - 1))


@dataclass(eq=False)
class _Attempt:
    """One attempt to open a lane. An overdue attempt may still succeed."""

    opening: Opening
    number: int
    ended: bool = False
    """Whether it is answered or overdue."""

    @property
    def latest(self) -> bool:
        return self.number == self.opening.attempts


_GIVEN_BACK_MS = 100
"""The client's minimum. Longer delays are ours (consumers/lanes/give_back.py), since they differ by message."""


def _configuration(queue: int, settings: OpenSettings) -> Any:
    configuration = _pulsar.ConsumerConfiguration()
    configuration.consumer_type(pulsar.ConsumerType.Shared)
    configuration.subscription_initial_position(pulsar.InitialPosition.Earliest)
    configuration.receiver_queue_size(queue)
    configuration.negative_ack_redelivery_delay_ms(_GIVEN_BACK_MS)
    configuration.batch_index_ack_enabled(settings.batch_index_acks)
    configuration.batch_receive_policy(_pulsar.BatchReceivePolicy(batch_messages(queue), _NO_LIMIT, _BATCH_WAIT_MS))
    return configuration


def batch_messages(queue: int) -> int:
    """Return the maximum number of messages of one batch_receive. queue: the size of the client's receive queue.

    It is well below that, so that a full batch has usually been prefetched.
    """
    return max(1, min(_MAX_BATCH, queue // 4))
