"""Probes of nodes, each in a thread of its own: one that hangs costs the others nothing."""

import threading
from collections.abc import Callable, Mapping
from math import ceil
from random import uniform
from typing import Protocol

from dispatcher.analysis.histogram import Histogram
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Unreachable
from estate.facts.node_probes import PROBE_LIMIT_S
from estate.rules.node_life import NodeKind
from estate.rules.node_looks import ProbeLook

_BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)


class NodeProbe(Protocol):
    """Checks once whether one broker or bookie works, and how long that takes."""

    def once(self) -> float:
        """Return the seconds that it took. Raises FairlaneError."""
        ...

    def close(self) -> None: ...


class ProbeFigures:
    """Figures of the brokers' probes, by host:port of the broker."""

    def __init__(self) -> None:
        self.times: dict[str, Histogram] = {}
        self.failures: dict[str, float] = {}

    def took(self, key: str, seconds: float) -> None:
        if broker := _broker_of(key):
            self._probed(broker)
            self.times[broker].add(seconds)

    def failed(self, key: str) -> None:
        if broker := _broker_of(key):
            self._probed(broker)
            self.failures[broker] += 1

    def _probed(self, broker: str) -> None:
        """Begin both figures of a broker at zero: Prometheus sees no increase in the first value of a series."""
        self.times.setdefault(broker, Histogram(_BOUNDS))
        self.failures.setdefault(broker, 0.0)


def _broker_of(key: str) -> str:
    kind, _, name = key.partition("/")
    return name if kind == NodeKind.BROKER else ""


class ProbeThread:
    """Probes one node again and again."""

    def __init__(
        self, key: str, make: Callable[[], NodeProbe], every_s: float, record: ProbeFigures, clock: Clock
    ) -> None:
        self._key, self._make, self._every_s, self._record, self._clock = key, make, every_s, record, clock
        self._lock = threading.Lock()
        self._began_s: float | None = None
        self._times_s: list[float] = []
        self._failure = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"probe {key}", daemon=True)
        self._thread.start()

    def take(self) -> ProbeLook:
        """Return the probes since the last call."""
        with self._lock:
            times_s, self._times_s = self._times_s, []
            waiting_s = 0.0 if self._began_s is None else self._took_s(self._began_s)
            if waiting_s > max([self._every_s, *times_s]):  # else it has just begun, and says nothing yet
                times_s = [*times_s, waiting_s]
            return ProbeLook(_p90_ms(times_s), self._failure)

    def stop(self) -> None:
        """End after the probe that is under way; nothing waits for it."""
        self._ended.set()

    def join(self, deadline_s: float) -> None:
        self._thread.join(max(0.0, deadline_s - self._clock.monotonic_s()))

    def _run(self) -> None:
        probe: NodeProbe | None = None
        while not self._ended.is_set():
            began_s = self._clock.monotonic_s()
            with self._lock:
                self._began_s = began_s
            try:
                probe = self._make() if probe is None else probe
                took_s = probe.once()
                self._done(took_s, "")
                self._record.took(self._key, took_s)
            except FairlaneError as error:
                # A node that refuses connections is as slow as one that hangs. A right that is missing says nothing.
                failed_s = max(PROBE_LIMIT_S, self._took_s(began_s)) if isinstance(error, Unreachable) else None
                self._done(failed_s, error.cause)
                self._record.failed(self._key)
            # At random, so that probes do not keep step with what they look for.
            self._ended.wait(max(0.0, began_s + self._every_s * uniform(0.5, 1.5) - self._clock.monotonic_s()))
        if probe is not None:
            probe.close()

    def _took_s(self, began_s: float) -> float:
        return self._clock.monotonic_s() - began_s

    def _done(self, took_s: float | None, failure: str) -> None:
        with self._lock:
            self._began_s, self._failure = None, failure
            if took_s is not None:
                self._times_s.append(took_s)


def _p90_ms(times_s: list[float]) -> float | None:
    """Return the 90th percentile in ms: a pause of a garbage collector is no slow node. None without any time."""
    return sorted(times_s)[ceil(0.9 * len(times_s)) - 1] * 1000 if times_s else None


class Probes:
    """The probes of all nodes that are followed."""

    def __init__(self, record: ProbeFigures, clock: Clock) -> None:
        self._record, self._clock = record, clock
        self._threads: dict[str, ProbeThread] = {}

    def follow_only(self, wanted: Mapping[str, tuple[Callable[[], NodeProbe], float]]) -> None:
        """Probe these nodes, and no others. wanted: by key, how a probe is made and the seconds between two."""
        for key in self._threads.keys() - wanted.keys():
            self._threads.pop(key).stop()
        for key, (make, every_s) in wanted.items():
            if key not in self._threads:
                self._threads[key] = ProbeThread(key, make, every_s, self._record, self._clock)

    def take(self) -> dict[str, ProbeLook]:
        """Return the probes of each node since the last call."""
        return {key: thread.take() for key, thread in self._threads.items()}

    def close(self) -> None:
        """End all probes. Those under way get their time: the client aborts a process that ends during a call."""
        threads, deadline_s = list(self._threads.values()), self._clock.monotonic_s() + PROBE_LIMIT_S
        self.follow_only({})
        for thread in threads:
            thread.join(deadline_s)
