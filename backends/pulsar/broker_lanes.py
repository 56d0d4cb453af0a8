"""Backlog and rates of all lanes, read with one request to each broker, however many topics it serves."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple

from backends.pulsar.admin import PulsarAdmin, settings_at
from backends.pulsar.lane_stats import LaneStats, lanes_of
from backends.settings import PulsarSettings
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Refused
from dispatcher.wire.topics import Topics

MEASURED_EVERY = "statsUpdateFrequencyInSecs"
FIND_EVERY_S = 300.0


class BrokerAnswer(NamedTuple):
    """The answer of one broker."""

    broker: str
    lanes: list[LaneStats] | None
    """None if the broker did not answer."""
    failure: str = ""
    """Why it did not answer."""


class BrokerLanes:
    """Queries every broker of the cluster in parallel.

    The list of brokers is requested at first, every five minutes, and after a broker did not answer.
    """

    def __init__(self, settings: PulsarSettings, names: Topics, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._find_at_s = 0.0
        self._namespaces = [*names.task_namespaces(), names.shared_namespace]
        self._brokers: dict[str, PulsarAdmin] = {}
        """Each broker, at the address where it answers."""
        self.measured_every_s: int | None = None

    def _find(self) -> None:
        """Find the cluster's brokers, and keep them. Takes two requests. Raises Unreachable, Refused."""
        with closing(PulsarAdmin(self._settings)) as admin:
            names, conf = admin.brokers(), admin.runtime_configuration()
        self.close()
        self.measured_every_s = int(conf.get(MEASURED_EVERY, 0)) or None
        alone = len(names) == 1
        self._brokers = {name: PulsarAdmin(settings_at(self._settings, name, alone=alone)) for name in names}
        self._find_at_s = self._clock.monotonic_s() + FIND_EVERY_S

    def read(self) -> list[BrokerAnswer]:
        """Return the answer of each broker, with one request to each. Raises Unreachable if the brokers cannot be
        listed, and Refused if the role may not ask."""
        if not self._brokers or self._clock.monotonic_s() >= self._find_at_s:
            self._find()
        with ThreadPoolExecutor(len(self._brokers) or 1) as threads:
            answers = list(threads.map(self._ask, self._brokers.keys(), self._brokers.values()))
        if any(answer.lanes is None for answer in answers):
            self.close()
        return answers

    def close(self) -> None:
        for admin in self._brokers.values():
            admin.close()
        self._brokers = {}

    def _ask(self, broker: str, admin: PulsarAdmin) -> BrokerAnswer:
        try:
            return BrokerAnswer(broker, lanes_of(admin.topic_statistics(), self._namespaces))
        except Refused:
            raise
        except FairlaneError as error:
            return BrokerAnswer(broker, None, error.cause)


def answered_lanes(answers: Iterable[BrokerAnswer]) -> Iterator[tuple[str, LaneStats]]:
    """Return (broker, lane) for every lane of the brokers that answered."""
    return ((answer.broker, lane) for answer in answers for lane in answer.lanes or ())
