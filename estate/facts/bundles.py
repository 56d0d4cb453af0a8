"""Bundles and their current owners, and the calls that move them."""

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Self

from backends.pulsar.admin import PulsarAdmin, settings_at
from backends.pulsar.lane_stats import TopicStats, topics_by_bundle
from backends.settings import PulsarSettings
from dispatcher.model.errors import FairlaneError, NotFound

ANSWER_S = 5.0
"""How long one call of a move may take; it takes 0.2 s. A broker that hangs must not hold up the others."""
LOOK_S = 2.0
"""How long one answer to a question may take."""

_PARALLEL = 8
"""Number of parallel calls to one broker."""


@dataclass(frozen=True, kw_only=True)
class BrokerBundles:
    """The bundles of one broker. A broker that did not answer has a failure and none."""

    broker: str
    """host:port of its REST address."""
    failure: str = ""
    owned: tuple[str, ...] = ()
    """Bundles that it owns now, tenant/namespace/range."""
    topics: Mapping[str, Mapping[str, TopicStats]] = field(default_factory=dict)
    """Topics by bundle, as the broker last measured them: some may be of bundles that it had then."""
    cpu: tuple[float, float] | None = None
    """Used and limit, in per cent of a core."""


class BundleAdmin:
    """Reads and moves the bundles of a cluster. Every method may raise Unreachable and Refused."""

    def __init__(self, settings: PulsarSettings) -> None:
        """Raises NotConfigured; Unreachable if the local stack's Pulsar has ended."""
        self._reading = settings.model_copy(update={"operation_timeout_s": LOOK_S})
        self._moving = settings.model_copy(update={"operation_timeout_s": ANSWER_S})
        self._any = PulsarAdmin(self._moving)
        self._at: dict[str, PulsarAdmin] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for admin in (self._any, *self._at.values()):
            admin.close()

    def brokers(self) -> list[str]:
        """Return host:port of the REST addresses of all brokers."""
        return sorted(self._any.brokers())

    def read(self) -> list[BrokerBundles]:
        """Return the bundles of all brokers, asked at once."""
        names, cluster = self.brokers(), self._any.clusters()[0]
        with ThreadPoolExecutor(max(1, len(names)), "bundles") as pool:
            return list(pool.map(lambda name: self._read_one(name, cluster, alone=len(names) == 1), names))

    def owned(self, broker: str) -> list[str]:
        """Return the bundles that a broker owns now."""
        alone = len(self.brokers()) == 1
        with closing(PulsarAdmin(settings_at(self._reading, broker, alone=alone))) as admin:
            return admin.owned_bundles(self._any.clusters()[0], broker)

    def topics(self, namespaces: Iterable[str]) -> dict[str, list[str]]:
        """Return all topics of namespaces, each partition by itself. Unlike loads, they are current."""
        with ThreadPoolExecutor(_PARALLEL, "topics") as pool:
            names = list(namespaces)
            return dict(zip(names, pool.map(self._any.topics_and_partitions, names), strict=True))

    def _read_one(self, name: str, cluster: str, *, alone: bool) -> BrokerBundles:
        with closing(PulsarAdmin(settings_at(self._reading, name, alone=alone))) as admin:
            try:
                owned = admin.owned_bundles(cluster, name)
                topics = topics_by_bundle(admin.topic_statistics())
                return BrokerBundles(broker=name, owned=tuple(owned), topics=topics, cpu=_cpu(admin))
            except FairlaneError as error:
                return BrokerBundles(broker=name, failure=error.cause)

    def _asked(self, at: str | None) -> PulsarAdmin:
        if at is None:
            return self._any
        with self._lock:
            if at not in self._at:
                self._at[at] = PulsarAdmin(settings_at(self._moving, at, alone=False))
            return self._at[at]

    def move(self, bundle: str, target: str, at: str | None = None) -> None:
        """Ask for a bundle to be loaded by another broker. Raises Refused while no broker owns it.

        at: the broker to ask, best the owner; None: the one at the configured address, which may hang.
        """
        self._asked(at).unload_bundle(bundle, target)

    def let_go(self, bundle: str) -> None:
        """Unload a bundle; the next client that needs it has it loaded anywhere."""
        self._any.unload_bundle(bundle)

    def split(self, bundle: str, position: int) -> None:
        self._any.split_bundle(bundle, position)

    def unload_topic(self, topic: str) -> None:
        self._any.unload(topic)

    def owner_of(self, topics: Iterable[str], at: str | None = None) -> str | None:
        """Return the owner of the bundle of these topics: of the first that still exists. None if none does. at: see
        `move`."""
        for topic in topics:
            try:
                return self._asked(at).owner_of_topic(topic)
            except NotFound:
                continue
        return None


def _cpu(admin: PulsarAdmin) -> tuple[float, float] | None:
    """Return the broker's CPU; None if it has no report."""
    try:
        cpu: dict[str, Any] = admin.load_report().get("cpu") or {}
        return float(cpu["usage"]), float(cpu["limit"])
    except (FairlaneError, KeyError, TypeError, ValueError):
        return None
