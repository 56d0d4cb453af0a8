"""Contents of the live view and of the demo's report: shares, rates, waits, and whether all targets have an outcome."""

from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.console import Console

from dispatcher.channels.fcm import FcmSpec
from dispatcher.model.view import WAIT_BUCKETS_MS, Globals, TargetCounts, TaskView, TierStats, WorkerBeat
from fairlane.cli.handlers.service import waits_of
from fairlane.figures.signals import wanted_shares
from fairlane.screen.render import line, screen
from fairlane.screen.sample import Sample, sample_of
from lab.demo.report import DemoResult, ShareMeter, closing_report, merged, quantile_ms
from lab.demo.start import THROUGH_FCM, read_jobs, through_fcm
from tests import records
from tests.unit.tasks import task_view
from tests.virtual_clock import VirtualClock

WEIGHTS = {"high": 6, "medium": 3, "low": 1}


def task(name: str = "t", tier: str = "high", sent: int = 0, total: int = 10, **fields: Any) -> TaskView:
    counts = TargetCounts(total=total, sent=sent, pending=total - sent)
    return task_view(name, tier=tier, targets=counts, **fields)


def beat(name: str, waits: list[int] | None = None, **sent: int) -> WorkerBeat:
    tiers = {tier: TierStats(sent=count, wait_counts=waits or []) for tier, count in sent.items()}
    return records.beat(name, tiers=tiers)


@dataclass
class Service:
    beats: list[WorkerBeat] = field(default_factory=list)
    tasks: list[TaskView] = field(default_factory=list)
    paused_channels: frozenset[str] = frozenset()

    def globals(self) -> Globals:
        return Globals(capacity=100, tier_weights=dict(WEIGHTS), paused_channels=self.paused_channels)

    def workers(self) -> list[WorkerBeat]:
        return self.beats

    def live_tasks(self) -> list[TaskView]:
        return self.tasks


@pytest.mark.parametrize(("rate", "says"), [(3_000, ""), (2_500, ""), (1_143, "--capacity 570"), (0, "--capacity 10")])
def test_the_demo_says_when_the_machine_is_too_slow_for_its_shares(rate: int, says: str) -> None:
    meter, backlog = ShareMeter(), [task(tier, tier, total=10**6) for tier in WEIGHTS]
    for second in range(12):
        sent = max(1, rate * second // 3)
        sample = sample_of(Service([beat("w", high=sent, medium=sent, low=sent)], backlog), VirtualClock())
        meter.add(replace(sample, at_s=float(second)))
    assert says in meter.slowness(3_000)
    assert bool(meter.slowness(3_000)) == bool(says)


def test_only_backlogged_tiers_are_due_a_share() -> None:
    assert wanted_shares(WEIGHTS, {"high": 0, "medium": 5, "low": 7}) == {"high": None, "medium": 0.75, "low": 0.25}
    assert wanted_shares(WEIGHTS, dict.fromkeys(WEIGHTS, 0)) == dict.fromkeys(WEIGHTS)


def test_what_may_not_be_sent_is_no_backlog_and_due_no_share() -> None:
    """As in `fairlane signals`."""
    tasks = [
        task("held", hold_until_sealed=True, sealed=False),
        task("stopped", channel="off"),
        task("paused", state="paused"),
        task("later", state="scheduled", start_ms=10**15),
        task("unserved", channel="sms"),
        task("open", "low", total=7),
    ]
    worker = structs.replace(beat("a"), extra={"channels": ["null", "off"]})
    sample = sample_of(Service([worker], tasks, frozenset({"off"})), VirtualClock())
    assert [tier.backlog for tier in sample.tiers] == [0, 0, 7]
    assert [tier.wanted for tier in sample.tiers] == [None, None, 1.0]
    assert [tier.drain_s for tier in sample.tiers] == [0.0, 0.0, None]
    assert [view.id for view in sample.sending] == ["open"]
    assert waits_of(sample)["high"].sends == 1


def test_nothing_is_said_of_the_longest_wait_without_a_worker() -> None:
    sample = sample_of(Service([], [task("open")]), VirtualClock())
    assert {wait.seconds for wait in waits_of(sample).values()} == {None}
    sample = sample_of(Service([beat("a")], [task("open")]), VirtualClock())
    assert None not in {wait.seconds for wait in waits_of(sample).values()}


def test_the_rates_are_those_that_live_workers_report() -> None:
    rates = {"high": TierStats(rate=60.0), "low": TierStats(rate=20.0)}
    gone = [records.beat(state, state, tiers={"high": TierStats(rate=9.0)}) for state in ("suspect", "stopped")]
    live = [("a", rates), ("b", {"high": TierStats(rate=20.0)})]
    workers = [*(records.beat(name, seen_ms=10_000, tiers=tiers) for name, tiers in live), *gone]
    sample = sample_of(Service(workers), VirtualClock())
    assert [tier.rate for tier in sample.tiers] == [80, 0, 20]
    assert [tier.actual for tier in sample.tiers] == [0.8, 0, 0.2]


def test_what_a_worker_sent_until_it_stopped_counts_until_the_others_have_its_lanes() -> None:
    def rate(*others: WorkerBeat) -> float:
        last = records.beat("left", "stopped", seen_ms=8_500, tiers={"low": TierStats(rate=90.0)})
        return sample_of(Service([last, *others]), VirtualClock()).rate

    assert [rate(records.beat("a", seen_ms=ms)) for ms in (8_500, 9_500, 11_500)] == pytest.approx([90, 60, 0])
    assert rate() == 0


@given(st.lists(st.integers(0, 50), min_size=len(WAIT_BUCKETS_MS) + 1, max_size=len(WAIT_BUCKETS_MS) + 1))
def test_quantiles_grow_and_stay_within_the_buckets(counts: list[int]) -> None:
    found = [quantile_ms(counts, part) for part in (0.01, 0.5, 0.99)]
    if not any(counts):
        assert found == [None, None, None]
        return
    values = [value for value in found if value is not None]
    assert len(values) == 3
    assert values == sorted(values)
    assert values[0] >= 0
    assert values[-1] <= WAIT_BUCKETS_MS[-1]


def test_waits_of_all_workers_count() -> None:
    bucket = WAIT_BUCKETS_MS.index(100)
    waits = [0] * (len(WAIT_BUCKETS_MS) + 1)
    waits[bucket] = 4
    total = merged([beat("a", waits=waits, high=4), beat("b", waits=waits, high=4)], "high")
    assert total[bucket] == 8
    assert quantile_ms(total, 0.5) == pytest.approx((WAIT_BUCKETS_MS[bucket - 1] + 100) / 2)


def sample_at(at_s: float, *workers: WorkerBeat, pending: int = 5) -> Sample:
    service = Service(list(workers), [task(tier, tier, total=pending) for tier in WEIGHTS] if pending else [])
    return replace(sample_of(service, VirtualClock()), at_s=at_s)


def test_shares_count_only_while_all_tiers_have_a_backlog() -> None:
    meter = ShareMeter()
    meter.add(sample_at(0, beat("gone", high=500), beat("a")))
    meter.add(sample_at(2, beat("a", high=50, medium=30, low=10), beat("b", high=10)))
    meter.add(sample_at(4, beat("a", high=50, medium=30, low=999), beat("b", high=10), pending=0))
    assert meter.seconds == 2
    assert [meter.share(tier) for tier in WEIGHTS] == [0.6, 0.3, 0.1]


def closing(*tasks: TaskView, accepted: dict[str, int]) -> DemoResult:
    return DemoResult(list(tasks), accepted, [], ShareMeter(), 12.0)


def test_the_demo_is_well_only_if_every_target_has_its_outcome() -> None:
    done = task("done", sent=10, state="completed", finished_ms=5)
    assert closing(done, accepted={"done": 10}).failures() == []
    assert closing(done, accepted={"done": 11}).failures() == ["done has 10 outcomes for 11 targets"]
    assert closing(accepted={"gone": 1}).failures() == ["gone is missing"]
    assert closing(task("open", sent=4), accepted={"open": 10}).failures() == ["open is running with 6 targets pending"]


def test_the_demo_is_well_only_if_the_fake_accepted_each_message_once() -> None:
    done = task("done", sent=10, state="completed", finished_ms=5, channel="fcm")
    result = closing(done, accepted={"done": 10})
    assert replace(result, fcm={"accepted": 10, "messages_repeated": 0}).failures() == []
    for accepted, repeated in ((9, 0), (11, 1)):
        [failure] = replace(result, fcm={"accepted": accepted, "messages_repeated": repeated}).failures()
        assert failure.startswith(f"FCM accepted {accepted} messages, {repeated} repeated")


def test_a_third_of_the_demo_goes_through_fcm() -> None:
    expected = {job.task.id: job.task.expected_targets or 0 for job in read_jobs(None)}
    assert 0.3 < sum(expected[name] for name in THROUGH_FCM) / sum(expected.values()) < 0.36
    for task in (through_fcm(job).task for job in read_jobs(None)):
        assert FcmSpec().check_message(task.message) == []


def test_the_screen_and_the_line_show_every_tier_and_task() -> None:
    service = Service([beat("worker-1", high=5)], [task("news", sent=4), task("shop", "low")])
    sample = sample_of(service, VirtualClock())
    console = Console(file=StringIO(), width=140)
    console.print(screen(sample, "Fairlane", ["worker-2 joins"]), closing_report(closing(accepted={})))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for text in ("high", "medium", "low", "news", "shop", "worker-1", "worker-2 joins", "85.7%"):
        assert text in shown
    assert "2 tasks, 16 targets pending" in line(sample)
