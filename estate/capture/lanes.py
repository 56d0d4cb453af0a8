"""Which lanes a capture records: those an incident names, those that are stopped, those with the largest backlog."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from backends.pulsar.estate.lane_stats import LaneStats
from dispatcher.wire.topics import SUBSCRIPTION, topics_of_lane
from estate.reading import ENSEMBLES, mapping, number_of, whole

MAX_CANDIDATES = 48
"""Maximum number of topics that are asked a first time."""
MAX_LANES = 24
"""Maximum number of topics in an archive."""


def candidates(named: Iterable[str], lanes: Iterable[LaneStats]) -> list[str]:
    """Return the topics to look at: the named ones, then blocked ones, then by rate and by backlog in turn.

    Statistics are up to a minute old. A lane that has just stopped had a high rate by them.
    """
    known = list(lanes)
    blocked = [lane for lane in known if lane.blocked]
    by_rate = sorted((lane for lane in known if lane.rate_in), key=lambda lane: -lane.rate_in)
    by_backlog = sorted((lane for lane in known if lane.backlog), key=lambda lane: -lane.backlog)
    ranked = [*named, *map(topic_of, blocked)]
    for index in range(max(len(by_rate), len(by_backlog))):
        ranked += [topic_of(one[index]) for one in (by_rate, by_backlog) if index < len(one)]
    return list(dict.fromkeys(ranked))[:MAX_CANDIDATES]


def topic_of(lane: LaneStats) -> str:
    """Return the topic of a lane, or of the partition of it that was measured."""
    return lane.topic if lane.partition < 0 else topics_of_lane(lane.topic, lane.partition + 1)[-1]


@dataclass(frozen=True)
class LaneFacts:
    """One look at a topic."""

    topic: str
    added: int
    """Entries stored since its broker loaded it."""
    pending: int
    """Entries that wait for their bookies."""
    backlog: int
    """Entries that the dispatch subscription has not acknowledged."""
    blocked: bool
    """Whether the subscription gets nothing until messages are acknowledged."""
    bookies: tuple[str, ...]
    """Bookies of its newest ledger, also those that an ensemble change left behind."""


def facts_of(topic: str, stats: Any, internal: Any) -> LaneFacts:
    """Return what two documents of a topic say; what is missing counts as nothing."""
    subscription = mapping(mapping(mapping(stats).get("subscriptions")).get(SUBSCRIPTION))
    counters = mapping(internal)
    ledgers = counters.get("ledgers")
    metadata = str(mapping(ledgers[-1]).get("metadata", "")) if isinstance(ledgers, list) and ledgers else ""
    bookies = [name.strip() for ensemble in ENSEMBLES.findall(metadata) for name in ensemble.split(",")]
    return LaneFacts(
        topic=topic,
        added=whole(number_of(counters.get("entriesAddedCounter"))) or 0,
        pending=whole(number_of(counters.get("pendingAddEntriesCount"))) or 0,
        backlog=whole(number_of(subscription.get("msgBacklog"))) or 0,
        blocked=bool(subscription.get("blockedSubscriptionOnUnackedMsgs")),
        bookies=tuple(sorted(filter(None, set(bookies)))),
    )


def chosen(facts: Sequence[LaneFacts], named: Iterable[str], node: str) -> list[str]:
    """Return the topics to record, from a first look: named ones, also if they did not answer, and stopped ones first.

    node: of the incident; of stopped lanes, those on that bookie come first.
    """
    first = dict.fromkeys(named)
    silent = [topic for topic in first if topic not in {lane.topic for lane in facts}]

    def rank(lane: LaneFacts) -> tuple[bool, bool, bool, bool, int]:
        on_node = node in lane.bookies
        return (lane.topic not in first, not lane.pending, not lane.blocked, not on_node, -lane.backlog)

    return [*silent, *(lane.topic for lane in sorted(facts, key=rank))][:MAX_LANES]


def summary(before: LaneFacts | None, after: LaneFacts) -> dict[str, Any]:
    """Return what two looks at a lane say: whether it stored nothing between them though entries waited."""
    stopped = before is not None and before.pending > 0 and after.pending > 0 and before.added == after.added
    first = {} if before is None else {"added_before": before.added, "pending_before": before.pending}
    return {**asdict(after), **first, "stopped": stopped}
