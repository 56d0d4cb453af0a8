"""Latency of a new high task among a large backlog: from the call of submit to the delivery of its last target."""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence

from benchmarks.deliveries import Delivery, DeliveryLog
from benchmarks.stage import Stage, stage, targets, wait_for
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from fairlane.settings import Settings

CAPACITY = 2_000
BACKLOG = {Tier.LOW: 200_000, Tier.MEDIUM: 50_000}
PROBES, PROBE_TARGETS, PROBE_EVERY_S = 40, 10, 0.25


def fill(scene: Stage, seed: int) -> None:
    for tier, count in BACKLOG.items():
        task = PushTask(app="bench", tier=tier, channel="null", message={"body": "backlog"}, expected_targets=count)
        scene.client.submit(task, targets=targets(count, seed))


def delivered(deliveries: Iterable[Delivery]) -> dict[str, float]:
    """Return the wall time at which each finished probe's last target was delivered."""
    left: dict[str, int] = {}
    ends: dict[str, float] = {}
    for delivery in deliveries:
        left[delivery.task] = left.get(delivery.task, PROBE_TARGETS) - delivery.targets
        ends[delivery.task] = max(ends.get(delivery.task, 0.0), delivery.at_us / 1e6)
    return {task: at for task, at in ends.items() if left[task] <= 0}


def probe(scene: Stage, number: int) -> tuple[str, float]:
    """Submit one small high task; return its id and the wall time of the call."""
    task = PushTask(
        app="bench", tier=Tier.HIGH, channel="log", message={"body": "probe"}, expected_targets=PROBE_TARGETS
    )
    called = time.time()
    handle = scene.client.submit(task, targets=targets(PROBE_TARGETS, 10_000 + number))
    return handle.id, called


def run(settings: Settings, seed: int, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run of 40 probes; return p50 and p95 in milliseconds."""
    with stage(settings, say) as scene:
        scene.client.set_capacity(CAPACITY)
        fill(scene, seed)
        for number in range(2):
            scene.crew.join(f"worker-{number}")
        wait_for("workers to send", lambda: sum(w.rate for w in scene.client.workers()) > CAPACITY * 0.8, 60)
        waits = waits_of_probes(scene)
    return {**quantiles_ms(waits), "max_ms": waits[-1]}


def waits_of_probes(scene: Stage) -> list[float]:
    """Return the waits of 40 probes made one after the other, ascending.

    Milliseconds from the call of submit to the last delivery.
    """
    called = {}
    for number in range(PROBES):
        task, at = probe(scene, number)
        called[task] = at
        time.sleep(PROBE_EVERY_S)
    log, deliveries = DeliveryLog(scene.log), list[Delivery]()

    def through() -> bool:
        deliveries.extend(log.new())
        return called.keys() <= delivered(deliveries).keys()

    wait_for("the probes", through, 30)
    ended = delivered(deliveries)
    return sorted((ended[task] - at) * 1000 for task, at in called.items())


def quantiles_ms(waits: Sequence[float], prefix: str = "") -> dict[str, float]:
    """Return quantiles of the waits, which must be ascending."""
    return {f"{prefix}p50_ms": statistics.median(waits), f"{prefix}p95_ms": waits[int(len(waits) * 0.95) - 1]}
