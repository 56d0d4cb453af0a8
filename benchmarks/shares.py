"""Shares of the tiers with all of them backlogged, window by window, from the folded outcomes."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.stage import Stage, stage, targets, wait_for
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from fairlane.settings import Settings
from producers.handle import TaskHandle

CAPACITY = 2_000
WINDOW_S = 5.0
TASKS_A_TIER = 2
WANTED = {Tier.HIGH: 0.6, Tier.MEDIUM: 0.3, Tier.LOW: 0.1}


@dataclass(frozen=True)
class Load:
    """The load of the run."""

    channel: str = "null"
    rate: float = CAPACITY
    """Targets/s in all."""
    chunk: int | None = None
    """Targets per envelope. None: by tier and size of the task."""


def fill(scene: Stage, seconds: float, seed: int, load: Load) -> dict[Tier, list[TaskHandle]]:
    """Submit two tasks a tier, each large enough to keep a backlog for that long."""
    handles: dict[Tier, list[TaskHandle]] = {}
    for tier, share in WANTED.items():
        count = max(int(load.rate * share * seconds), 6_000)
        handles[tier] = [
            scene.client.submit(
                PushTask(
                    app="bench",
                    tier=tier,
                    channel=load.channel,
                    message={"body": "shares"},
                    expected_targets=count,
                    chunk=load.chunk,
                ),
                targets=targets(count, seed + number),
            )
            for number in range(TASKS_A_TIER)
        ]
    return handles


def sent(handles: dict[Tier, list[TaskHandle]]) -> dict[Tier, int]:
    return {tier: sum(h.progress().targets.sent for h in of_tier) for tier, of_tier in handles.items()}


def windows(handles: dict[Tier, list[TaskHandle]], count: int) -> list[dict[Tier, float]]:
    """Return the shares in each of `count` windows after the first."""
    wait_for("the first targets", lambda: sum(sent(handles).values()) > 0, 60)
    time.sleep(WINDOW_S)
    before, shares = sent(handles), []
    for _ in range(count):
        time.sleep(WINDOW_S)
        after = sent(handles)
        total = sum(after.values()) - sum(before.values())
        shares.append({tier: (after[tier] - before[tier]) / total for tier in after})
        before = after
    return shares


def run(settings: Settings, seed: int, say: Callable[[str], None], *, one_holds_low_only: bool) -> dict[str, float]:
    """Do one run: the largest deviation from 60:30:10 in any window, in points, and the capacity used."""
    count = 4
    with stage(settings, say) as scene:
        scene.client.set_capacity(CAPACITY)
        handles = fill(scene, WINDOW_S * (count + 3), seed, Load())
        scene.crew.join("worker-0")
        scene.crew.join("worker-1", *(("--tiers", "low") if one_holds_low_only else ()))
        wait_for("both workers", lambda: len(scene.client.workers()) == 2, 60)
        began, before = time.monotonic(), sum(sent(handles).values())
        shares = windows(handles, count)
        used = (sum(sent(handles).values()) - before) / (time.monotonic() - began) / CAPACITY
    worst = max(abs(share - WANTED[tier]) for window in shares for tier, share in window.items())
    return {"worst_deviation_points": worst * 100, "capacity_used": used}
