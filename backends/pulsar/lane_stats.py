"""Statistics of topics and lanes, parsed from what a broker says about all its topics. No I/O."""

from collections.abc import Container
from typing import NamedTuple

import msgspec

from dispatcher.model.errors import Malformed
from dispatcher.wire.topics import SUBSCRIPTION, lane_of_topic


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


class _Subscription(msgspec.Struct, frozen=True, rename="camel"):
    consumers: list[msgspec.Raw] = []
    msg_backlog: int = 0
    unacked_messages: int = 0
    blocked_subscription_on_unacked_msgs: bool = False


class TopicStats(msgspec.Struct, frozen=True, rename="camel"):
    """One topic or partition, as its broker last measured it. Rates are a second."""

    subscriptions: dict[str, _Subscription] = {}
    producer_count: int = 0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    storage_size: int = 0


_decode = msgspec.json.Decoder(dict[str, dict[str, dict[str, dict[str, TopicStats]]]]).decode
"""namespace -> bundle -> persistent or not -> topic."""


def topics_by_bundle(statistics: bytes) -> dict[str, dict[str, TopicStats]]:
    """Return a broker's persistent topics, by bundle (tenant/namespace/range). Raises Malformed."""
    try:
        decoded = _decode(statistics)
    except msgspec.MsgspecError as error:
        raise Malformed(
            f"The broker's statistics are not readable ({error}).", "Check that Pulsar is 3.0 or newer."
        ) from error
    return {
        f"{namespace}/{bounds}": domains.get("persistent", {})
        for namespace, bundles in decoded.items()
        for bounds, domains in bundles.items()
    }


def lanes_of(statistics: bytes, namespaces: Container[str]) -> list[LaneStats]:
    """Return the lanes among a broker's topics. Raises Malformed."""
    bundles = topics_by_bundle(statistics).items()
    found = (topics for bundle, topics in bundles if bundle.rpartition("/")[0] in namespaces)
    return [_lane(name, stats) for topics in found for name, stats in topics.items()]


def _lane(name: str, topic: TopicStats) -> LaneStats:
    lane = lane_of_topic(name)
    dispatch = topic.subscriptions.get(SUBSCRIPTION, _Subscription())
    return LaneStats(
        topic=lane,
        partition=-1 if lane == name else int(name.rpartition("-")[2]),
        backlog=dispatch.msg_backlog,
        unacked=dispatch.unacked_messages,
        consumers=len(dispatch.consumers),
        producers=topic.producer_count,
        rate_in=topic.msg_rate_in,
        rate_out=topic.msg_rate_out,
        storage_bytes=topic.storage_size,
        blocked=dispatch.blocked_subscription_on_unacked_msgs,
    )
