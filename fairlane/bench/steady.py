"""A steady load on existing lanes: from the publishing of an envelope to the sending of its targets."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dispatcher.task import PushTask
from dispatcher.tier import TIERS, Tier
from dispatcher.view import TierStats
from fairlane.bench.stage import Stage, stage, wait_for
from fairlane.screen.waits import merged, quantile_ms
from fairlane.settings import Settings
from producers.cutter import Slab

WARM_S, MEASURED_S = 5.0, 10.0
TICK_S = 0.01
TARGETS = 50_000
_BEAT_S = 1.0
"""How old the figures of a worker may be."""


@dataclass(frozen=True)
class SteadyLoad:
    """rate: targets/s of all tasks together; chunk: targets per envelope."""

    rate: int
    chunk: int


class Paced:
    """An audience that comes at `rate` targets per second until `stop` is set. It hands out ready slabs, since the load
    generator shares the machine with what is measured."""

    def __init__(self, rate: float, stop: threading.Event) -> None:
        self._rate = rate
        self._stop = stop
        self._targets: list[object] = [f"{number:064x}" for number in range(TARGETS)]

    def slabs(self, unit: int) -> Iterator[Slab]:
        """A slab each tick, of whole envelopes."""
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
    """Waits of all envelopes so far, one count a bucket; and the targets sent."""
    beats = scene.client.workers()
    counts = [merged(beats, tier) for tier in TIERS]
    sent = sum(beat.tiers.get(tier, TierStats()).sent for beat in beats for tier in TIERS)
    return [sum(column) for column in zip(*counts, strict=True)], sent


def measure(scene: Stage) -> dict[str, float]:
    """The waits of what is sent within the measured time."""
    wait_for("the first targets", lambda: figures(scene)[1] > 0, 60)
    time.sleep(WARM_S)
    before, sent_before = figures(scene)
    time.sleep(MEASURED_S + _BEAT_S)
    after, sent_after = figures(scene)
    waits = [now - then for now, then in zip(after, before, strict=True)]
    rate = (sent_after - sent_before) / (MEASURED_S + _BEAT_S)
    return {"sent_targets_s": rate, "p50_ms": quantile_ms(waits, 0.5) or 0.0, "p99_ms": quantile_ms(waits, 0.99) or 0.0}


def run(settings: Settings, load: SteadyLoad, say: Callable[[str], None]) -> dict[str, float]:
    """One run: a task a tier, published at a third of the rate each while two workers send."""
    stop = threading.Event()
    with stage(settings, say) as scene:
        for number in range(2):
            scene.crew.join(f"worker-{number}")
        wait_for("both workers", lambda: sum(w.state == "serving" for w in scene.client.workers()) == 2, 60)
        threads = [threading.Thread(target=publish, args=(scene, load, tier, stop)) for tier in TIERS]
        for thread in threads:
            thread.start()
        try:
            return measure(scene)
        finally:
            stop.set()
            for thread in threads:
                thread.join(30)
