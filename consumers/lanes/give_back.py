"""Give messages that this worker cannot handle back to the broker, which delivers them again, to any worker."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from backends.pulsar.client import ignore
from consumers.lanes.background import Background
from dispatcher.model.errors import FairlaneError
from dispatcher.ports import Done
from dispatcher.retry import Backoff
from dispatcher.wire.envelope import Envelope

_log = logging.getLogger(__name__)
MAX_MOVING = 1_000
"""Maximum envelopes of a worker that are on their way to a side lane."""


@dataclass(frozen=True)
class GiveBackSettings:
    """How long to hold an envelope whose channel this worker lacks, and when to move it to a side lane.

    It is held for a time that doubles each time it is delivered again. Two kinds of envelopes move from a shared lane
    to the side lane of their app and channel, to which workers with the channel attach. First, those delivered `tries`
    times while a live worker has the channel: if few workers have it, another try would mostly reach another worker
    that lacks it. Second, those above max_waiting, because others would wait behind them.
    """

    hold: Backoff = Backoff(1.0, 60.0)
    tries: int = 3
    max_waiting: int = 5_000
    """Limit per consumer: a tenth of the 50,000 unacknowledged messages at which the broker stops it."""

    def delay_s(self, deliveries: int) -> float:
        """Return how long to hold a message that was delivered this often before."""
        return self.hold.nth(deliveries)


@dataclass(frozen=True, kw_only=True)
class MissingChannels:
    """Which channels this worker lacks, and how to pass their envelopes on to workers that have them. By default the
    worker has every channel."""

    channels: frozenset[str] | None = None
    """The channels of the worker; None: every one."""
    ended: Callable[[Sequence[str]], Mapping[str, bool]] = lambda _tasks: {}
    """Returns whether each known task has ended. Raises FairlaneError."""
    move: Callable[[Envelope, Done], None] | None = None
    """Publishes an envelope to the side lane of its app and channel."""
    elsewhere: Callable[[str], bool] = lambda _channel: False
    """Returns whether another live worker reports the channel."""
    settings: GiveBackSettings = field(default_factory=GiveBackSettings)
    _noted: set[str] = field(default_factory=set)

    def lacks(self, channel: str) -> bool:
        """Return whether the worker lacks the channel."""
        return self.channels is not None and channel not in self.channels

    def tried(self, message: Any, channel: str) -> bool:
        """Return whether the message came often enough and another worker has the channel."""
        return bool(message.redelivery_count() >= self.settings.tries) and self.elsewhere(channel)

    def note(self, channel: str, lane: str) -> None:
        """Log, once per channel, that its envelopes are left to other workers."""
        if channel not in self._noted and len(self._noted) < MAX_MOVING:
            self._noted.add(channel)
            _log.info("This worker has no channel %s: it leaves such envelopes (first in %s) to others", channel, lane)


class ReturnedMessages:
    """The messages of one consumer that are held before they are given back. The engine's thread calls `put` and
    `start`."""

    def __init__(self, consumer: Any, returner: Background, missing: MissingChannels, room: Callable[[], None]) -> None:
        """`room` is called when messages have been given back, from the returner's thread."""
        self._consumer = consumer
        self._returner = returner
        self._missing = missing
        self._room = room
        self._put = self._gone = 0
        self._new: dict[float, list[tuple[Any, str]]] = {}

    @property
    def waiting(self) -> int:
        """Messages held."""
        return self._put - self._gone

    @property
    def full(self) -> bool:
        return self.waiting >= self._missing.settings.max_waiting

    def put(self, message: Any, envelope: Envelope | None = None, after_s: float | None = None) -> None:
        """Hold a message for after_s, or for a time that depends on how often it was delivered.

        That time begins when `start` is called. The message's body is not kept.
        """
        delay_s = self._missing.settings.delay_s(message.redelivery_count()) if after_s is None else after_s
        self._new.setdefault(delay_s, []).append((message.message_id(), envelope.task if envelope else ""))
        self._put += 1

    def start(self) -> None:
        """Start the delays of the messages put since the last call. Call this after each drain."""
        settings = self._missing.settings
        new, self._new = self._new, {}
        for delay_s, messages in new.items():
            ask = delay_s >= settings.delay_s(settings.tries)
            self._returner.do(partial(self._give_back, messages, ask=ask), delay_s)

    def _give_back(self, messages: Sequence[tuple[Any, str]], *, ask: bool) -> None:
        """Give messages back. Acknowledge those of ended tasks instead, since nobody will take them.

        `ask`: check which tasks have ended, because no worker has taken these messages for a long time.
        """
        ended = self._ended({task for _, task in messages}) if ask else frozenset()
        try:
            for message_id, task in messages:
                if task in ended:
                    self._consumer.acknowledge_async(message_id, ignore)
                else:
                    self._consumer.negative_acknowledge(message_id)
        finally:
            self._gone += len(messages)
            self._room()

    def _ended(self, tasks: set[str]) -> frozenset[str]:
        """Return the tasks known to have ended; none if the registry does not answer."""
        try:
            return frozenset(task for task, ended in self._missing.ended(sorted(tasks)).items() if ended)
        except FairlaneError as error:
            _log.debug("Fairlane cannot check whether tasks have ended: %s", error)
            return frozenset()
