"""Facts for plans of moves: the bundles of each broker with their loads, and the topics to look them up by."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from backends.pulsar.lane_stats import TopicStats
from estate.facts.bundles import BrokerBundles
from estate.plans.balance import Goal, loads_of, weighted_bundles
from estate.plans.placement import hash_of, parse_range
from estate.rules.cluster import BrokerLoad, BundleLoad, Estate, Usage


@dataclass(frozen=True)
class MoveFacts:
    """One look at bundles and their owners."""

    estate: Estate
    topics: Mapping[str, Mapping[str, TopicStats]]
    """Topics by bundle. A bundle that no broker owns has none, unless they were asked for."""
    empty: Mapping[str, tuple[str, ...]]
    """Bundles without a topic, by the broker that owns them."""

    @property
    def failures(self) -> list[str]:
        return [f"{broker.name}: {broker.failure}" for broker in self.estate.brokers if broker.failure]

    def brokers(self) -> list[str]:
        """Return the brokers that answered."""
        return [broker.name for broker in self.estate.brokers if broker.answered]

    def fixed(self, goal: Goal, tenant: str) -> dict[str, float]:
        """Return the load of each broker by other tenants, which is not moved."""
        others = [bundle for bundle in weighted_bundles(self.estate, goal) if bundle.name.partition("/")[0] != tenant]
        return loads_of(others, self.brokers())


def facts_of(
    answers: Sequence[BrokerBundles], listed: Mapping[str, Sequence[str]], wanted: Collection[str] = ()
) -> MoveFacts:
    """Return the facts of all brokers' answers. Owners are current; loads are the last that any broker measured.

    listed: the topics of namespaces, for bundles whose topics are too new to be measured. wanted: bundles whose topics
    are returned even if no broker owns them.
    """
    measured = _measured(answers)
    owned = {bundle for answer in answers for bundle in answer.owned}
    measured |= dict(_unmeasured((owned | set(wanted)) - measured.keys(), listed))
    brokers = tuple(_broker(answer, measured) for answer in answers)
    empty = {
        answer.broker: tuple(bundle for bundle in answer.owned if bundle not in measured and not is_heartbeat(bundle))
        for answer in answers
    }
    topics = {key: measured[key] for key in (owned | set(wanted)) & measured.keys()}
    return MoveFacts(Estate(brokers=brokers), topics, empty)


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


def _broker(answer: BrokerBundles, measured: Mapping[str, Mapping[str, TopicStats]]) -> BrokerLoad:
    bundles = [
        _bundle(bundle, answer.broker, measured[bundle])
        for bundle in answer.owned
        if bundle in measured and not is_heartbeat(bundle)
    ]
    cpu = None if answer.cpu is None else Usage(*answer.cpu)
    return BrokerLoad(
        name=answer.broker,
        failure=answer.failure,
        cpu=cpu,
        bundles=tuple(sorted(bundles, key=lambda bundle: bundle.name)),
        lanes=sum(bundle.topics for bundle in bundles),
    )


def _bundle(name: str, broker: str, topics: Mapping[str, TopicStats]) -> BundleLoad:
    namespace, _, bounds = name.rpartition("/")
    loads = topics.values()
    return BundleLoad(
        namespace=namespace,
        range=bounds,
        broker=broker,
        topics=len(topics),
        bytes_in=sum(topic.msg_throughput_in for topic in loads),
        bytes_out=sum(topic.msg_throughput_out for topic in loads),
        messages_in=sum(topic.msg_rate_in for topic in loads),
        messages_out=sum(topic.msg_rate_out for topic in loads),
    )
