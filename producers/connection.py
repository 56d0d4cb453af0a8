"""Puts a client together: Pulsar, Redis, and what a submission needs of them."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pulsar

from backends import pulsar_client, redis_view
from backends.control_topic import ControlTopic
from backends.dead_letter_topic import read_dead_letters
from backends.epochs import Epochs
from backends.publisher import LaneProducer
from backends.pulsar_admin import PulsarAdmin
from backends.registry import Registry
from backends.settings import PulsarSettings, RedisSettings
from backends.system_clock import SystemClock
from backends.workers import Workers
from dispatcher.ports import DeadLetter
from producers.history import KnownSubmissions
from producers.ids import id_maker
from producers.ports import LaneWriter, Services

_FLUSH_S = 60.0


class ConnectionSettings(Protocol):
    """Settings of the servers."""

    @property
    def pulsar(self) -> PulsarSettings: ...

    @property
    def redis(self) -> RedisSettings: ...


@dataclass(frozen=True, slots=True)
class Connection:
    """What a client works with. letters: task id -> its dead letters so far."""

    services: Services
    registry: Registry
    workers: Workers
    letters: Callable[[str], Iterator[DeadLetter]]
    close: Callable[[], None]


def connect(settings: ConnectionSettings) -> Connection:
    """Raises Unreachable if Pulsar does not answer, NotFound if it is not provisioned; Redis is met when first used."""
    topics, clock = pulsar_client.topics(settings.pulsar), SystemClock()
    with ExitStack() as opened:
        client = pulsar_client.connect(settings.pulsar)
        opened.callback(_close, client)
        control = opened.enter_context(closing(ControlTopic(client, topics)))
        admin = opened.enter_context(closing(PulsarAdmin(settings.pulsar)))
        view = opened.enter_context(closing(redis_view.open_view(settings.redis)))
        registry = Registry(view)
        services = Services(
            control=control,
            registry=KnownSubmissions(registry, Epochs(view), control.reader),
            lanes=PulsarLanes(client, admin),
            topics=topics,
            clock=clock,
            new_id=id_maker(clock),
        )
        letters = partial(read_dead_letters, client, topics)
        return Connection(services, registry, Workers(view), letters, opened.pop_all().close)


def _close(client: pulsar.Client) -> None:
    with suppress(pulsar.PulsarException):  # it complains of producers that are still letting go
        client.close()


class PulsarLanes:
    """Implements LaneOpener."""

    def __init__(self, client: pulsar.Client, admin: PulsarAdmin) -> None:
        self._client = client
        self._admin = admin

    def create(self, topic: str) -> None:
        self._admin.create_lane(topic)

    def open(self, topic: str) -> LaneWriter:
        return _Writer(LaneProducer(self._client, topic))


class _Writer:
    """Counts what is confirmed: receipts of a lane come in the order of sending, and after a failure there are none."""

    def __init__(self, producer: LaneProducer) -> None:
        self._producer = producer
        self._lock = threading.Lock()
        self._confirmed = 0

    def send_many(self, bodies: Sequence[bytes]) -> None:
        self._producer.send(bodies, partial(self._stored, len(bodies)))

    def confirmed(self) -> int:
        return self._confirmed

    def flush(self) -> None:
        self._producer.flush(_FLUSH_S)

    def close(self) -> None:
        self._producer.close()

    def _stored(self, count: int, error: Exception | None) -> None:
        if error is None:
            with self._lock:
                self._confirmed += count
