"""Backlog and rates of all lanes, read with one request to each broker, however many topics it serves."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

import msgspec

from backends.pulsar.admin import PulsarAdmin
from backends.settings import PulsarSettings
from dispatcher.model.errors import FairlaneError, Malformed, Refused
from dispatcher.wire.topics import SUBSCRIPTION, Topics

MEASURED_EVERY = "statsUpdateFrequencyInSecs"
_PARTITION = "-partition-"


class LaneStats(NamedTuple):
    """A lane, or one partition of it, as its broker last measured it."""

    topic: str
    partition: int
    """Number of the partition; -1 for a lane without partitions."""
    backlog: int
    """Entries (producer batches, not messages) that are not fully acknowledged."""
    unacked: int
    """Messages that consumers hold."""
    consumers: int
    producers: int
    rate_in: float
    """Messages per second."""
    rate_out: float
    """Messages per second."""
    storage_bytes: int
    blocked: bool
    """Whether the broker delivers nothing until some of the held messages are acknowledged."""


class BrokerAnswer(NamedTuple):
    """The answer of one broker."""

    broker: str
    lanes: list[LaneStats] | None
    """None if the broker did not answer."""
    failure: str = ""
    """Why it did not answer."""


class _Subscription(msgspec.Struct):
    consumers: list[msgspec.Raw] = []
    msgBacklog: int = 0  # noqa: N815  # Pulsar's name, as those below
    unackedMessages: int = 0  # noqa: N815
    blockedSubscriptionOnUnackedMsgs: bool = False  # noqa: N815


class _Topic(msgspec.Struct):
    subscriptions: dict[str, _Subscription] = {}
    producerCount: int = 0  # noqa: N815
    msgRateIn: float = 0.0  # noqa: N815
    msgRateOut: float = 0.0  # noqa: N815
    storageSize: int = 0  # noqa: N815


_decode = msgspec.json.Decoder(dict[str, dict[str, dict[str, dict[str, _Topic]]]]).decode
"""namespace -> bundle -> persistent or not -> topic."""


def lanes_of(statistics: bytes, namespaces: Iterable[str]) -> list[LaneStats]:
    """Return the lanes among a broker's topics. Raises Malformed."""
    try:
        decoded = _decode(statistics)
    except msgspec.MsgspecError as error:
        raise Malformed(
            f"The broker's statistics are not readable ({error}).", "Check that Pulsar is 3.0 or newer."
        ) from error
    bundles = (bundle for namespace in namespaces for bundle in decoded.get(namespace, {}).values())
    topics = (topic for bundle in bundles for topic in bundle.get("persistent", {}).items())
    return [_lane(name, stats) for name, stats in topics]


def _lane(name: str, topic: _Topic) -> LaneStats:
    lane, _, number = name.rpartition(_PARTITION)
    dispatch = topic.subscriptions.get(SUBSCRIPTION, _Subscription())
    return LaneStats(
        topic=lane if number.isdecimal() and lane else name,
        partition=int(number) if number.isdecimal() and lane else -1,
        backlog=dispatch.msgBacklog,
        unacked=dispatch.unackedMessages,
        consumers=len(dispatch.consumers),
        producers=topic.producerCount,
        rate_in=topic.msgRateIn,
        rate_out=topic.msgRateOut,
        storage_bytes=topic.storageSize,
        blocked=dispatch.blockedSubscriptionOnUnackedMsgs,
    )


@dataclass(frozen=True)
class Broker:
    """One broker, at the address where it answers."""

    name: str
    admin: PulsarAdmin


class BrokerLanes:
    """Queries every broker of the cluster in parallel."""

    def __init__(self, settings: PulsarSettings, names: Topics) -> None:
        self._settings = settings
        self._namespaces = [*names.task_namespaces(), names.shared_namespace]
        self._brokers: list[Broker] = []
        self.measured_every_s: int | None = None

    def find(self) -> list[str]:
        """Find the cluster's brokers, keep them for `look`, and return their names. Takes two requests. Raises
        Unreachable, Refused."""
        admin = PulsarAdmin(self._settings)
        try:
            names, conf = admin.brokers(), admin.runtime_configuration()
        finally:
            admin.close()
        self.close()
        self.measured_every_s = int(conf.get(MEASURED_EVERY, 0)) or None
        self._brokers = [Broker(name, PulsarAdmin(self._at(name, alone=len(names) == 1))) for name in names]
        return names

    def read(self) -> list[BrokerAnswer]:
        """Return the answer of each broker, with one request to each. Raises Refused if the role may not ask."""
        if not self._brokers:
            self.find()
        with ThreadPoolExecutor(len(self._brokers) or 1) as threads:
            return list(threads.map(self._ask, self._brokers))

    def close(self) -> None:
        for broker in self._brokers:
            broker.admin.close()
        self._brokers = []

    def _at(self, broker: str, *, alone: bool) -> PulsarSettings:
        """Return the settings for one broker. A single broker is reached at the configured address: the name it has for
        itself may not resolve here."""
        if alone:
            return self._settings
        address = urlsplit(self._settings.admin_address)
        return self._settings.model_copy(update={"admin_url": urlunsplit(address._replace(netloc=broker))})

    def _ask(self, broker: Broker) -> BrokerAnswer:
        try:
            return BrokerAnswer(broker.name, lanes_of(broker.admin.topic_statistics(), self._namespaces))
        except Refused:
            raise
        except FairlaneError as error:
            return BrokerAnswer(broker.name, None, error.cause)


def answered_lanes(answers: Iterable[BrokerAnswer]) -> Iterator[tuple[str, LaneStats]]:
    """Return (broker, lane) for every lane of the brokers that answered."""
    return ((answer.broker, lane) for answer in answers for lane in answer.lanes or ())
