"""The rules by which Pulsar 4.0 sheds load, as pure code: ThresholdShedder, its default, and AvgShedder.

They are played on loads that are given, to show what they would move and what they would leave as it is.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from dispatcher.model.errors import InvalidInput
from estate.balance import Move

MIB = 1024 * 1024
GRACE_MINUTES = 30
"""A bundle that was unloaded is not unloaded again within this time (loadBalancerSheddingGracePeriodMinutes)."""


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """The load of one bundle, in and out together."""

    name: str
    bytes: float
    """Bytes per second."""
    messages: float = 0.0
    """Messages per second."""
    usage: float = 0.0
    """Points of its broker's usage that it causes."""


@dataclass
class Loads:
    """Bundles by broker, as a play changes them. The usage of a broker is that of its bundles."""

    bundles: dict[str, list[Bundle]]

    def usage(self, broker: str) -> float:
        """Return the largest of a broker's weighted resource usages, in per cent."""
        return sum(bundle.usage for bundle in self.bundles[broker])

    def bytes(self, broker: str) -> float:
        return sum(bundle.bytes for bundle in self.bundles[broker])

    def messages(self, broker: str) -> float:
        return sum(bundle.messages for bundle in self.bundles[broker])

    def move(self, shed: Move) -> None:
        bundle = next(one for one in self.bundles[shed.source] if one.name == shed.bundle)
        self.bundles[shed.source].remove(bundle)
        self.bundles[shed.target].append(bundle)

    @property
    def unevenness(self) -> float:
        """Return the standard deviation of the brokers' usage as a part of its mean."""
        usages = [self.usage(broker) for broker in self.bundles]
        return pstdev(usages) / fmean(usages) if usages and any(usages) else 0.0


THRESHOLD = 10.0
"""Points above the mean at which ThresholdShedder sheds (loadBalancerBrokerThresholdShedderPercentage)."""
HISTORY = 0.9
"""Weight of the past (loadBalancerHistoryResourcePercentage)."""
THRESHOLD_MIN_BYTES = 10 * MIB
"""Least throughput worth a move (loadBalancerBundleUnloadMinThroughputThreshold)."""


class ThresholdShedder:
    """Sheds from each broker that is a threshold above the mean, whatever the others carry.

    Its bundles go to the broker with the fewest messages, as LeastLongTermMessageRate places them.
    """

    def __init__(self) -> None:
        self._usages: dict[str, float] = {}

    def shed(self, loads: Loads, resting: frozenset[str]) -> list[Move]:
        """Return what is unloaded in this minute. resting: bundles that were unloaded a short while ago."""
        for broker in loads.bundles:
            usage = loads.usage(broker)
            before = self._usages.get(broker, usage)
            self._usages[broker] = HISTORY * before + (1 - HISTORY) * usage
        mean = fmean(self._usages[broker] for broker in loads.bundles)
        chosen = []
        for broker in loads.bundles:
            chosen += self._of_broker(loads, broker, self._usages[broker] - mean, resting)
        return _placed(loads, chosen)

    def _of_broker(self, loads: Loads, broker: str, above: float, resting: frozenset[str]) -> list[tuple[str, Bundle]]:
        if above < THRESHOLD or len(loads.bundles[broker]) < 2:
            return []
        wanted = loads.bytes(broker) * (above - THRESHOLD + 5.0) / 100  # 5 points more: Pulsar's margin
        if wanted < THRESHOLD_MIN_BYTES:
            return []
        chosen: list[tuple[str, Bundle]] = []
        marked = 0.0
        for bundle in sorted(loads.bundles[broker], key=lambda bundle: -bundle.bytes):
            if bundle.name not in resting and (marked < wanted or not chosen):
                chosen.append((broker, bundle))
                marked += bundle.bytes
        return chosen


def _placed(loads: Loads, chosen: Sequence[tuple[str, Bundle]]) -> list[Move]:
    """Place bundles one after the other, each where the fewest messages are, with those placed before."""
    messages = {broker: loads.messages(broker) for broker in loads.bundles}
    for broker, bundle in chosen:
        messages[broker] -= bundle.messages
    sheds = []
    for source, bundle in chosen:
        target = min(messages, key=lambda broker: (messages[broker], broker))
        messages[target] += bundle.messages
        if target != source:
            sheds.append(Move(bundle.name, source, target))
    return sheds


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


SHEDDERS: Mapping[str, Callable[[], ThresholdShedder | AvgShedder]] = {
    "threshold": ThresholdShedder,
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
    """Play a shedder on loads, which it changes, one look a minute. Raises InvalidInput."""
    if name not in SHEDDERS:
        raise InvalidInput(f"There is no shedder {name!r}.", f"Name one of {', '.join(SHEDDERS)}.")
    if not loads.bundles:
        raise InvalidInput("There is no broker to simulate.")
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
