"""A steady load on existing lanes: the time from publishing an envelope to sending its targets."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from benchmarks.stage import SEE_LOGS, Stage, stage, wait_for
from dispatcher.model.errors import FairlaneError
from dispatcher.model.task import PushTask
from dispatcher.model.tier import TIERS, Tier
from dispatcher.model.view import TierStats
from fairlane.settings import Settings
from lab.demo.report import merged, quantile_ms
from producers.submit.cutter import Slab

WARM_S, MEASURED_S = 5.0, 10.0
TICK_S = 0.01
TARGETS = 50_000
_BEAT_S = 1.0
"""Maximum age of a worker's figures."""


@dataclass(frozen=True)
class SteadyLoad:
    """Rate and size of the load."""

    rate: int
    """Targets/s of all tasks together."""
    chunk: int
    """Targets per envelope."""


class Paced:
    """An audience that arrives at `rate` targets per second until `stop` is set.

    It returns prepared slabs, since the load generator shares the machine with what is measured.
    """

    def __init__(self, rate: float, stop: threading.Event) -> None:
        self._rate = rate
        self._stop = stop
        self._targets: list[object] = [f"{number:064x}" for number in range(TARGETS)]

    def slabs(self, unit: int) -> Iterator[Slab]:
        """Yield a slab of whole envelopes each tick."""
        began_s, given = time.monotonic(), 0
        while not self._stop.wait(TICK_S):
            due = int((time.monotonic() - began_s) * self._rate) // unit * unit
            while given < due:
                size = min(due - given, TARGETS)
                yield Slab(self._targets[:size], given + 1)
                given += size


def publish(scene: Stage, load: SteadyLoad, tier: Tier, stop: threading.Event) -> None:
    task = PushTask(
        app="bench", tier=tier, channel="null", message={"title": "Benchmark", "body": "x" * 200},
        expected_targets=10_000_000, chunk=load.chunk,
    )  # fmt: skip
    scene.client.submit(task, targets=Paced(load.rate / len(TIERS), stop))


def figures(scene: Stage) -> tuple[list[int], int]:
    """Return the waits of all envelopes so far, one count per bucket, and the number of targets sent."""
    beats = scene.client.workers()
    counts = [merged(beats, tier) for tier in TIERS]
    sent = sum(beat.tiers.get(tier, TierStats()).sent for beat in beats for tier in TIERS)
    return [sum(column) for column in zip(*counts, strict=True)], sent


def measure(scene: Stage) -> dict[str, float]:
    """Return the waits of the envelopes sent within the measured time."""
    wait_for("the first targets", lambda: figures(scene)[1] > 0, 60)
    time.sleep(WARM_S)
    before, sent_before = figures(scene)
    time.sleep(MEASURED_S + _BEAT_S)
    after, sent_after = figures(scene)
    waits = [now - then for now, then in zip(after, before, strict=True)]
    p50_ms, p99_ms = quantile_ms(waits, 0.5), quantile_ms(waits, 0.99)
    if p50_ms is None or p99_ms is None:
        raise FairlaneError("Nothing was sent while the benchmark measured.", SEE_LOGS)
    return {"sent_targets_s": (sent_after - sent_before) / (MEASURED_S + _BEAT_S), "p50_ms": p50_ms, "p99_ms": p99_ms}


def run(settings: Settings, load: SteadyLoad, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run: a task a tier, published at a third of the rate each while two workers send."""
    stop = threading.Event()
    with stage(settings, say) as scene, ThreadPoolExecutor(len(TIERS)) as pool:
        scene.start_workers(2)
        published = [pool.submit(publish, scene, load, tier, stop) for tier in TIERS]
        try:
            figures = measure(scene)
        finally:
            stop.set()
        for each in published:
            each.result()  # a load that stopped early would make the waits look better
        return figures
