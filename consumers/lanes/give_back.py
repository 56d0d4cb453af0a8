"""Give messages that this worker cannot handle back to the broker, which delivers them again, to any worker."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from consumers.lanes.background import Background
from consumers.lanes.opening import ignore
from dispatcher.model.errors import FairlaneError
from dispatcher.ports import Done
from dispatcher.wire.envelope import Envelope

_log = logging.getLogger(__name__)
MAX_MOVING = 1_000
"""Maximum envelopes of a worker that are on their way to a side lane."""


@dataclass(frozen=True)
class GiveBackSettings:
    """An envelope whose channel this worker lacks is held for first_s, and for twice as long each time it comes again.

    Two kinds leave a lane of many for the side lane of their app and channel, which workers with the channel hold.
    Those that came tries times while a live worker has the channel: where few have it, another try would mostly be
    another worker that lacks it. And those beyond max_waiting, or others would wait behind them. max_waiting: of one
    consumer, a tenth of the 50,000 unacknowledged messages at which the broker stops it.
    """

    first_s: float = 1.0
    longest_s: float = 60.0
    tries: int = 3
    max_waiting: int = 5_000

    def delay_s(self, deliveries: int) -> float:
        """Return how long to hold a message that was delivered so often before."""
        return min(self.longest_s, self.first_s * 2.0 ** min(deliveries, 30))


@dataclass(frozen=True)
class MissingChannels:
    """What a worker needs to know of envelopes whose channel it may lack. By default it has every channel."""

    channels: frozenset[str] | None = None
    """The channels that it has; None: every one."""
    ended: Callable[[Sequence[str]], Mapping[str, bool]] = lambda _tasks: {}
    """Returns whether each known task has ended. Raises FairlaneError."""
    move: Callable[[Envelope, Done], None] | None = None
    """Publishes an envelope to the side lane of its app and channel."""
    elsewhere: Callable[[str], bool] = lambda _channel: False
    """Returns whether another live worker says that it has the channel."""
    settings: GiveBackSettings = field(default_factory=GiveBackSettings)
    _noted: set[str] = field(default_factory=set)

    def lacks(self, channel: str) -> bool:
        """Return whether the worker lacks the channel."""
        return self.channels is not None and channel not in self.channels

    def tried(self, message: Any, channel: str) -> bool:
        """Return whether the message came often enough, and a worker that has the channel is there."""
        return bool(message.redelivery_count() >= self.settings.tries) and self.elsewhere(channel)

    def note(self, channel: str, lane: str) -> None:
        """Log once that envelopes of a channel are left to others."""
        if channel not in self._noted and len(self._noted) < MAX_MOVING:
            self._noted.add(channel)
            _log.info("This worker has no channel %s: it leaves such envelopes (first in %s) to others", channel, lane)


class ReturnedMessages:
    """The messages of one consumer that wait to be given back. `put` and `start` belong to the engine's thread."""

    def __init__(self, consumer: Any, returner: Background, missing: MissingChannels, room: Callable[[], None]) -> None:
        """room: called when messages have been given back, from the returner's thread."""
        self._consumer = consumer
        self._returner = returner
        self._missing = missing
        self._room = room
        self._put = self._gone = 0
        self._new: dict[float, list[tuple[Any, str]]] = {}

    @property
    def waiting(self) -> int:
        """The number of messages held."""
        return self._put - self._gone

    @property
    def full(self) -> bool:
        return self.waiting >= self._missing.settings.max_waiting

    def put(self, message: Any, envelope: Envelope | None = None, after_s: float | None = None) -> None:
        """Hold a message for after_s, or by how often it was delivered. It is given back once `start` was called. Its
        body is not kept."""
        delay_s = self._missing.settings.delay_s(message.redelivery_count()) if after_s is None else after_s
        self._new.setdefault(delay_s, []).append((message.message_id(), envelope.task if envelope else ""))
        self._put += 1

    def start(self) -> None:
        """Begin the delays of what was put since the last time."""
        settings = self._missing.settings
        new, self._new = self._new, {}
        for delay_s, held in new.items():
            ask = delay_s >= settings.delay_s(settings.tries)
            self._returner.do(partial(self._give_back, held, ask), delay_s)

    def _give_back(self, held: Sequence[tuple[Any, str]], ask: bool) -> None:
        """ask: nobody took them for long, so their tasks may have ended: then nobody will, and they are done with."""
        ended = self._ended({task for _, task in held}) if ask else frozenset()
        try:
            for message_id, task in held:
                if task in ended:
                    self._consumer.acknowledge_async(message_id, ignore)
                else:
                    self._consumer.negative_acknowledge(message_id)
        finally:
            self._gone += len(held)
            self._room()

    def _ended(self, tasks: set[str]) -> frozenset[str]:
        """Return those that are known to have ended; none if the registry does not answer."""
        try:
            return frozenset(task for task, ended in self._missing.ended(sorted(tasks)).items() if ended)
        except FairlaneError as error:
            _log.debug("Whether tasks have ended is not known: %s", error)
            return frozenset()
