"""The rules by which Pulsar 4.0 sheds load, as pure code: ThresholdShedder (its default), OverloadShedder, AvgShedder.

They follow the classes of the same names in `org.apache.pulsar.broker.loadbalance.impl` of release 4.0.8, and
LeastLongTermMessageRate, which places what the first two unload.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev

from estate.plans.balance import Move

MIB = 1024 * 1024
GRACE_MINUTES = 30
"""A bundle that was unloaded is not unloaded again within this time (loadBalancerSheddingGracePeriodMinutes)."""
MARGIN = 5.0
"""Points that ThresholdShedder and OverloadShedder shed beyond their threshold."""
WEIGHTS: Mapping[str, float] = {"cpu": 1.0, "bandwidth-in": 1.0, "bandwidth-out": 1.0, "direct-memory": 0.0}
"""Pulsar's weight of each resource of a broker (loadBalancerCPUResourceWeight and so on)."""


@dataclass(frozen=True, kw_only=True)
class ShedderSettings:
    """Settings of a broker that the shedders read."""

    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    """By resource. The usage of a broker is the largest of its weighted ones."""
    threshold: float = 10.0
    """Points above the mean at which ThresholdShedder sheds (loadBalancerBrokerThresholdShedderPercentage)."""
    history: float = 0.9
    """Weight of the past in ThresholdShedder's usages (loadBalancerHistoryResourcePercentage)."""
    overloaded: float = 85.0
    """Usage at which OverloadShedder sheds, and above which no bundle is placed on a broker
    (loadBalancerBrokerOverloadedThresholdPercentage)."""


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """The load of one bundle, in and out together."""

    name: str
    bytes: float
    """Bytes per second."""
    messages: float = 0.0
    """Messages per second."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Points of its broker's usage that it causes, by resource."""


@dataclass
class Loads:
    """Bundles by broker, as a play changes them. The usage of a broker is that of its bundles."""

    bundles: dict[str, list[Bundle]]
    settings: ShedderSettings = field(default_factory=ShedderSettings)

    def usage(self, broker: str) -> float:
        """Return the largest of a broker's weighted resource usages, in per cent (LocalBrokerData)."""
        return max(
            weight * sum(bundle.usage.get(resource, 0.0) for bundle in self.bundles[broker])
            for resource, weight in self.settings.weights.items()
        )

    def bytes(self, broker: str) -> float:
        return sum(bundle.bytes for bundle in self.bundles[broker])

    def messages(self, broker: str) -> float:
        return sum(bundle.messages for bundle in self.bundles[broker])

    def move(self, shed: Move) -> None:
        bundle = next(each for each in self.bundles[shed.source] if each.name == shed.bundle)
        self.bundles[shed.source].remove(bundle)
        self.bundles[shed.target].append(bundle)

    @property
    def unevenness(self) -> float:
        """Return the standard deviation of the brokers' usage as a part of its mean."""
        usages = [self.usage(broker) for broker in self.bundles]
        return pstdev(usages) / fmean(usages) if usages and any(usages) else 0.0


# ---------------------------------------------------------------- by a threshold
THRESHOLD_MIN_BYTES = 10 * MIB
"""Least throughput worth a move (loadBalancerBundleUnloadMinThroughputThreshold)."""


class ThresholdShedder:
    """Sheds from each broker that is a threshold above the mean, whatever the others carry.

    Without `lowerBoundarySheddingEnabled`, which is off by default.
    """

    def __init__(self) -> None:
        self._usages: dict[str, float] = {}

    def shed(self, loads: Loads, resting: frozenset[str]) -> list[Move]:
        """Return what is unloaded in this minute. resting: bundles that were unloaded a short while ago."""
        for broker in loads.bundles:
            usage, past = loads.usage(broker), loads.settings.history
            self._usages[broker] = past * self._usages.get(broker, usage) + (1 - past) * usage
        allowed = fmean(self._usages[broker] for broker in loads.bundles) + loads.settings.threshold
        chosen = []
        for broker in loads.bundles:
            wanted = _bytes_above(loads, broker, self._usages[broker] - allowed)
            if wanted >= THRESHOLD_MIN_BYTES:
                chosen += _largest(loads, broker, wanted, resting)
        return _placed(loads, chosen)


class OverloadShedder:
    """Sheds from each broker whose usage is above a fixed threshold, whatever the others carry."""

    @staticmethod
    def shed(loads: Loads, resting: frozenset[str]) -> list[Move]:
        """Return what is unloaded in this minute. resting: bundles that were unloaded a short while ago."""
        chosen = []
        for broker in loads.bundles:
            wanted = _bytes_above(loads, broker, loads.usage(broker) - loads.settings.overloaded)
            if wanted:
                chosen += _largest(loads, broker, wanted, resting)
        return _placed(loads, chosen)


def _bytes_above(loads: Loads, broker: str, above: float) -> float:
    """Return the throughput that brings a broker below its threshold; 0 if it is there, or has one bundle only."""
    sheds = above >= 0 and len(loads.bundles[broker]) > 1
    return loads.bytes(broker) * (above + MARGIN) / 100 if sheds else 0.0


def _largest(loads: Loads, broker: str, wanted: float, resting: frozenset[str]) -> list[tuple[str, Bundle]]:
    """Return the largest bundles that make up the wanted throughput, and at least one."""
    chosen: list[tuple[str, Bundle]] = []
    marked = 0.0
    for bundle in sorted(loads.bundles[broker], key=lambda bundle: -bundle.bytes):
        if bundle.name not in resting and (marked < wanted or not chosen):
            chosen.append((broker, bundle))
            marked += bundle.bytes
    return chosen


def _placed(loads: Loads, chosen: Sequence[tuple[str, Bundle]]) -> list[Move]:
    """Place bundles one after the other, each where the fewest messages are (LeastLongTermMessageRate).

    A broker that is overloaded gets none, unless all are.
    """
    messages = {broker: loads.messages(broker) for broker in loads.bundles}
    for broker, bundle in chosen:
        messages[broker] -= bundle.messages
    takers = [broker for broker in messages if loads.usage(broker) <= loads.settings.overloaded] or list(messages)
    sheds = []
    for source, bundle in chosen:
        target = min(takers, key=lambda broker: (messages[broker], broker))
        messages[target] += bundle.messages
        if target != source:
            sheds.append(Move(bundle.name, source, target))
    return sheds


# ---------------------------------------------------------------- by pairs
AVG_LOW, AVG_HIGH = 15.0, 40.0
"""Points between a pair of brokers that count as a hit, and as a severe one (loadBalancerAvgShedderLowThreshold,
-HighThreshold of PIP-364)."""
LOW_HITS, HIGH_HITS = 8, 2
"""Hits in a row, and severe ones, after which a pair sheds."""
MOVED_PART = 0.2
"""Part of the gap that is moved (maxUnloadPercentage)."""
AVG_MIN_BYTES, AVG_MIN_MESSAGES = 1 * MIB, 1_000.0
"""Least gap in throughput, and in messages, worth a move (minUnloadMessageThroughput, minUnloadMessage)."""


class AvgShedder:
    """Sheds from the most to the least loaded broker, from the second most to the second least, and so on."""

    def __init__(self) -> None:
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}

    def shed(self, loads: Loads, resting: frozenset[str]) -> list[Move]:
        """Return what is unloaded in this minute. resting: bundles that were unloaded a short while ago."""
        brokers = sorted(loads.bundles, key=loads.usage)
        sheds = []
        for low, high in zip(brokers[: (len(brokers) + 1) // 2], reversed(brokers), strict=False):
            if self._hit(low, high, loads.usage(high) - loads.usage(low)):
                sheds += self._of_pair(loads, low, high, resting)
        return sheds

    def _hit(self, low: str, high: str, gap: float) -> bool:
        """Count a look at a pair; return whether it sheds now, which clears its counts."""
        for broker in {low, high}:
            self._low[broker] = self._low.get(broker, 0) + 1 if gap >= AVG_LOW else 0
            self._high[broker] = self._high.get(broker, 0) + 1 if gap >= AVG_HIGH else 0
        sheds = any(self._low[broker] >= LOW_HITS or self._high[broker] >= HIGH_HITS for broker in (low, high))
        if sheds:
            for broker in (low, high):
                self._low[broker] = self._high[broker] = 0
        return sheds

    def _of_pair(self, loads: Loads, low: str, high: str, resting: frozenset[str]) -> list[Move]:
        messages = (loads.messages(high) - loads.messages(low)) * MOVED_PART
        size = (loads.bytes(high) - loads.bytes(low)) * MOVED_PART
        if messages > AVG_MIN_MESSAGES:
            return _fitting(loads, low, high, resting, messages, lambda bundle: bundle.messages)
        if size > AVG_MIN_BYTES:
            return _fitting(loads, low, high, resting, size, lambda bundle: bundle.bytes)
        return []


def _fitting(
    loads: Loads, low: str, high: str, resting: frozenset[str], room: float, traffic: Callable[[Bundle], float]
) -> list[Move]:
    """Return the largest bundles that fit into what is to be moved."""
    sheds = []
    for bundle in sorted(loads.bundles[high], key=traffic, reverse=True):
        if bundle.name not in resting and 0 < traffic(bundle) <= room:
            sheds.append(Move(bundle.name, high, low))
            room -= traffic(bundle)
    return sheds


# ---------------------------------------------------------------- plays
SHEDDERS: Mapping[str, Callable[[], ThresholdShedder | OverloadShedder | AvgShedder]] = {
    "threshold": ThresholdShedder,
    "overload": OverloadShedder,
    "avg": AvgShedder,
}
"""Shedders by the names that commands have for them."""


@dataclass(frozen=True)
class Play:
    """The result of playing a shedder for some time."""

    moves: int
    moved_twice: int
    """Bundles that were moved more than once."""
    uneven_before: float
    uneven_after: float
    minutes_of_moves: tuple[int, ...]
    """Minutes in which bundles were moved."""
    usages: Mapping[str, float]
    """Usage of each broker at the end, in per cent."""


def play(name: str, loads: Loads, minutes: int) -> Play:
    """Play a shedder on the loads of one or more brokers, which it changes, one look a minute."""
    shedder, before = SHEDDERS[name](), loads.unevenness
    last: dict[str, int] = {}
    times: list[tuple[int, str]] = []
    for minute in range(minutes):
        resting = frozenset(bundle for bundle, at in last.items() if minute - at < GRACE_MINUTES)
        for shed in shedder.shed(loads, resting):
            loads.move(shed)
            last[shed.bundle] = minute
            times.append((minute, shed.bundle))
    return Play(
        moves=len(times),
        moved_twice=sum(count > 1 for count in Counter(bundle for _, bundle in times).values()),
        uneven_before=before,
        uneven_after=loads.unevenness,
        minutes_of_moves=tuple(sorted({minute for minute, _ in times})),
        usages={broker: loads.usage(broker) for broker in loads.bundles},
    )
