"""Lanes for tests of the local pick."""

from hypothesis import strategies as st

from dispatcher.model.tier import TIERS, Tier
from dispatcher.scheduling.scheduler import QueueEntry, Scheduler
from dispatcher.scheduling.sharing import Work

HIGH, MEDIUM, LOW = TIERS
Lane = QueueEntry[str]

tier_weights = st.fixed_dictionaries({tier: st.integers(1, 20).map(lambda w: w * 500) for tier in TIERS})
sizes = st.integers(1, 500)
chunks = st.sampled_from([7, 10, 33, 100, 250, 499, 500])
lane_weights = st.integers(1, 50).map(lambda w: w * 200)


def backlogged(scheduler: Scheduler[str], lanes: dict[str, tuple[Tier, int]]) -> dict[str, Lane]:
    """Lanes that always have something to send."""
    entries = {name: scheduler.entry(name, tier, weight) for name, (tier, weight) in lanes.items()}
    for entry in entries.values():
        scheduler.enter(entry)
    return entries


def retrying(scheduler: Scheduler[str], lanes: int, tier: Tier = HIGH) -> list[Lane]:
    """Retry lanes that always have something to send."""
    entries = [scheduler.entry(f"retry{number}", tier, 1_000, work=Work.RETRIES) for number in range(lanes)]
    for entry in entries:
        scheduler.enter(entry)
    return entries


def send(scheduler: Scheduler[str], size: int) -> str:
    entry = scheduler.pick()
    assert entry is not None
    scheduler.charge(entry, size)
    return entry.item


def send_targets(scheduler: Scheduler[str], targets: int, size: dict[str, int]) -> list[tuple[str, int]]:
    """Send this number of targets; return what was sent, in order."""
    sent = []
    while targets > 0:
        entry = scheduler.pick()
        assert entry is not None
        scheduler.charge(entry, size[entry.item])
        sent.append((entry.item, size[entry.item]))
        targets -= size[entry.item]
    return sent
