"""Statistics of lanes, parsed from what a broker says about all its topics. No I/O."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from dispatcher.model.errors import Malformed
from dispatcher.wire.topics import SUBSCRIPTION

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
