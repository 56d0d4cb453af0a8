"""Facts for plans of moves: the bundles of each broker with their loads, and the topics to look them up by."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from backends.pulsar.lane_stats import TopicStats
from estate.facts.bundles import BrokerBundles
from estate.plans.balance import Goal, WeightedBundle
from estate.plans.placement import hash_of, parse_range


@dataclass(frozen=True)
class MoveFacts:
    """One look at bundles and their owners."""

    answers: Sequence[BrokerBundles]
    """Those of all brokers, without the bundles that each must keep."""
    topics: Mapping[str, Mapping[str, TopicStats]]
    """Topics by bundle. A bundle that no broker owns has none, unless they were asked for."""

    @property
    def failures(self) -> list[str]:
        return [f"{answer.broker}: {answer.failure}" for answer in self.answers if answer.failure]

    def brokers(self) -> list[str]:
        """Return the brokers that answered."""
        return [answer.broker for answer in self.answers if not answer.failure]

    def empty(self, broker: str) -> list[str]:
        """Return the bundles of a broker without a topic."""
        owned = [bundle for answer in self.answers if answer.broker == broker for bundle in answer.owned]
        return [bundle for bundle in owned if bundle not in self.topics]

    def bundles(self, goal: Goal) -> list[WeightedBundle]:
        """Return the bundles with topics and their weights.

        Bundles that no broker owns are not among them: they are loaded at the first use, wherever Pulsar likes.
        """
        return [
            WeightedBundle(name, answer.broker, weight)
            for answer in self.answers
            for name, weight in self._weights(answer, goal).items()
        ]

    def _weights(self, answer: BrokerBundles, goal: Goal) -> dict[str, float]:
        topics = {name: self.topics[name].values() for name in sorted(answer.owned) if name in self.topics}
        if goal is Goal.LANES:
            return {name: float(len(loads)) for name, loads in topics.items()}
        if goal is Goal.BYTES:
            return {
                name: sum(load.msg_throughput_in + load.msg_throughput_out for load in loads)
                for name, loads in topics.items()
            }
        messages = {name: sum(load.msg_rate_in + load.msg_rate_out for load in loads) for name, loads in topics.items()}
        used, total = answer.cpu[0] if answer.cpu else 0.0, sum(messages.values())
        return {name: used * rate / total if total else 0.0 for name, rate in messages.items()}


def facts_of(
    answers: Sequence[BrokerBundles], listed: Mapping[str, Sequence[str]], wanted: Collection[str] = ()
) -> MoveFacts:
    """Return the facts of all brokers' answers. Owners are current; loads are the last that any broker measured.

    listed: the topics of namespaces, for bundles whose topics are too new to be measured. wanted: bundles whose topics
    are returned even if no broker owns them.
    """
    answers = [replace(each, owned=tuple(name for name in each.owned if not is_heartbeat(name))) for each in answers]
    measured = _measured(answers)
    asked = {bundle for answer in answers for bundle in answer.owned} | set(wanted)
    measured |= dict(_unmeasured(asked - measured.keys(), listed))
    return MoveFacts(answers, {name: measured[name] for name in asked & measured.keys()})


def unmeasured_namespaces(answers: Sequence[BrokerBundles], wanted: Collection[str] = ()) -> list[str]:
    """Return the namespaces with bundles, owned or wanted, of which no topic was measured."""
    measured = _measured(answers)
    owned = {bundle for answer in answers for bundle in answer.owned if not is_heartbeat(bundle)}
    return sorted({bundle.rpartition("/")[0] for bundle in (owned | set(wanted)) - measured.keys()})


def _unmeasured(
    bundles: Iterable[str], listed: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, dict[str, TopicStats]]]:
    for bundle in bundles:
        namespace, _, bounds = bundle.rpartition("/")
        hashes = parse_range(bounds)
        topics = [topic for topic in listed.get(namespace, ()) if hashes.holds(hash_of(topic))]
        if topics:
            yield bundle, dict.fromkeys(topics, TopicStats())


def _measured(answers: Iterable[BrokerBundles]) -> dict[str, dict[str, TopicStats]]:
    """Return the topics by bundle; what its owner measured comes before what another broker did in the past."""
    found: dict[str, dict[str, TopicStats]] = {}
    for answer in answers:
        for bundle, topics in answer.topics.items():
            kept = found.setdefault(bundle, {})
            found[bundle] = {**kept, **topics} if bundle in answer.owned else {**topics, **kept}
    return {bundle: topics for bundle, topics in found.items() if topics}


def is_heartbeat(bundle: str) -> bool:
    """Return whether a bundle is one of a broker's own, which it must keep.

    These are pulsar/HOST:PORT/…, pulsar/CLUSTER/… and, with the extensible load manager, sla-monitor/CLUSTER/….
    """
    tenant, _, rest = bundle.partition("/")
    return tenant == "sla-monitor" or (tenant == "pulsar" and not rest.startswith("system/"))
