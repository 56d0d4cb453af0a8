"""The scheduler alone: picks (with their charges) per second on one thread."""

import gc
import random
import time

from dispatcher.model.tier import TIERS
from dispatcher.scheduling.scheduler import Scheduler

PICKS = 400_000
QUANTUM = 50
"""Targets per pick, as in the engine."""
SIZES = (1, 10, 37, 50)


def run(lanes: int, seed: int, *, mixed: bool) -> dict[str, float]:
    """Measure with lanes in all tiers, all with a backlog. `mixed`: random weights and sizes instead of equal ones."""
    chance = random.Random(seed)
    scheduler: Scheduler[int] = Scheduler()
    for number in range(lanes):
        weight = chance.randrange(1, 5_000) if mixed else 1_000
        scheduler.enter(scheduler.entry(number, TIERS[number % len(TIERS)], weight, "null"))
    sizes = [chance.choice(SIZES) if mixed else QUANTUM for _ in range(1_000)]
    gc.disable()
    try:
        _picks(scheduler, lanes, sizes)
        began_s = time.process_time()
        _picks(scheduler, PICKS, sizes)
        return {"picks_s": PICKS / (time.process_time() - began_s)}
    finally:
        gc.enable()


def _picks(scheduler: Scheduler[int], count: int, sizes: list[int]) -> None:
    for number in range(count):
        entry = scheduler.pick()
        assert entry is not None
        scheduler.charge(entry, sizes[number % len(sizes)])
