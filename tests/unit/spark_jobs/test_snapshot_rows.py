"""A snapshot of the backlog as a row, and the pace of a series."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from backends.pulsar.broker_lanes import BrokerAnswer
from backends.redis.backlog import BacklogState, BacklogTask, ClaimedTargets
from dispatcher.model.errors import Refused, Unreachable
from dispatcher.model.view import TargetCounts, TierStats, WorkerBeat
from spark_jobs.backlog.snapshot_loop import SnapshotSeries
from spark_jobs.backlog.snapshot_row import SnapshotHeader, kind_of_lane, snapshot_row
from tests import records
from tests.actors import Waits
from tests.unit.tasks import task_view
from tests.virtual_clock import VirtualClock

NOW_MS = 1_700_000_000_000
SETTINGS = {"capacity": "100:50", "tiers": "6000:3000:1000", "cap:channel:push": "40", "app_weight:news": "2500"}
TAKEN = SnapshotHeader(10.0, 12, 60)


def task(name: str, tier: str, pending: int, sent: int = 0, **fields: Any) -> BacklogTask:
    targets = TargetCounts(total=pending + sent, sent=sent, pending=pending)
    given: dict[str, Any] = {"tier": tier, "channel": "push", "targets": targets, "lane": name, "created_ms": 1}
    view = task_view(name, **given | fields)
    return BacklogTask(view, claims=1, open=2, why={"cap_total": 7})


def beat(name: str, state: str = "serving", **rates: float) -> WorkerBeat:
    tiers = {tier: TierStats(rate=rate) for tier, rate in rates.items()}
    return records.beat(name, state, rate=sum(rates.values()), tiers=tiers)


def look(*tasks: BacklogTask, **fields: Any) -> BacklogState:
    given: dict[str, Any] = {
        "at_ms": NOW_MS, "epoch": "e", "settings": SETTINGS, "counters": {"granted:high": 9}, "pools": {}, "beats": [],
        "tasks": list(tasks), "ended": [], "in_flight": ClaimedTargets(known=True, targets={}),
    }  # fmt: skip
    return BacklogState(**given | fields)


def tiers_of(row: dict[str, Any], pool: str, field: str) -> dict[str, Any]:
    return {tier["tier"]: tier[field] for tier in row["tiers"] if tier["pool"] == pool}


def test_a_task_is_split_into_what_is_queued_and_what_is_in_flight() -> None:
    row = snapshot_row(
        look(task("a", "high", 30, 5), beats=[beat("w")], in_flight=ClaimedTargets(known=True, targets={"a": 10})),
        [],
        TAKEN,
    )
    (reported,) = row["tasks"]
    assert (reported["published"], reported["sent"], reported["queued"], reported["in_flight"]) == (35, 5, 20, 10)
    assert (reported["retrying"], reported["causes"], reported["held"]) == (2, [("cap_total", 7)], "")
    assert row["at"] == datetime.fromtimestamp(NOW_MS / 1000, UTC)
    assert (row["capacity"], row["capacity_burst"], row["caps"], row["app_weights"]) == (
        100, 50, [("channel/push", 40)], [("news", 2.5)],
    )  # fmt: skip


def test_what_is_not_known_to_be_in_flight_is_not_said_to_be_none() -> None:
    row = snapshot_row(look(task("a", "high", 30), in_flight=ClaimedTargets(known=False, targets={})), [], TAKEN)
    assert row["tasks"][0]["in_flight"] is None


def test_shares_are_wanted_by_weight_among_the_tiers_that_may_send() -> None:
    paused = task("c", "low", 50, state="paused")
    row = snapshot_row(look(task("a", "high", 30), task("b", "medium", 20), paused), [], TAKEN)
    assert tiers_of(row, "total", "wanted") == {"high": 6 / 9, "medium": 3 / 9, "low": 0.0}
    assert tiers_of(row, "total", "backlog") == {"high": 30, "medium": 20, "low": 0}
    assert row["tasks"][2]["held"] == "paused"


def test_a_task_says_that_no_worker_can_send_it() -> None:
    """Its targets are in the backlog of its tier all the same."""
    beats = [beat("gone", "suspect"), msgspec.structs.replace(beat("other"), extra={"channels": ["log"]})]
    for live, held in [(beats[:1], "no_worker_runs"), (beats, "no_channel")]:
        row = snapshot_row(look(task("a", "high", 30), beats=live), [], TAKEN)
        assert row["tasks"][0]["held"] == held
        assert tiers_of(row, "total", "backlog")["high"] == 30


def test_a_pool_counts_the_tasks_that_draw_from_it() -> None:
    other = task("b", "high", 20, channel="mail")
    row = snapshot_row(look(task("a", "high", 30), other), [], TAKEN)
    assert tiers_of(row, "channel/push", "backlog")["high"] == 30
    assert tiers_of(row, "channel/push", "cap")["high"] == 40
    assert tiers_of(row, "channel/push", "granted")["high"] is None


def test_shares_got_are_those_of_the_workers_that_are_there() -> None:
    beats = [beat("w", high=30.0, low=10.0), beat("gone", "suspect", low=500.0)]
    row = snapshot_row(look(beats=beats), [], TAKEN)
    assert tiers_of(row, "total", "got") == {"high": 0.75, "medium": 0.0, "low": 0.25}
    assert [worker["state"] for worker in row["workers"]] == ["serving", "suspect"]


def test_lanes_come_with_the_broker_that_told_of_them() -> None:
    lane = records.lane_stats("persistent://fairlane/tasks-01/a", partition=3, backlog=7)
    row = snapshot_row(look(), [BrokerAnswer("b1", [lane]), BrokerAnswer("b2", None, "no answer")], TAKEN)
    (reported,) = row["lanes"]
    lane_facts = {"kind": "own", "broker": "b1", "partition": 3, "backlog": 7, "consumers": 2}
    assert lane_facts.items() <= reported.items()
    assert [(one["broker"], one["answered"]) for one in row["brokers"]] == [("b1", True), ("b2", False)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("tasks-01/retry-1", "own"),
        ("shared/low-1", "shared"),
        ("shared/side.a~b", "side"),
        ("shared/retry-low-5s", "retry"),
    ],
)
def test_kinds_of_lanes(name: str, kind: str) -> None:
    assert kind_of_lane(f"persistent://fairlane/{name}") == kind


# ----------------------------------------------------------------- the series


class Kept:
    def __init__(self) -> None:
        self.rows: list[Any] = []

    def add(self, row: Any) -> None:
        self.rows.append(row)


def series(clock: VirtualClock, answers: Iterator[Any], reported: list[str]) -> tuple[SnapshotSeries, Kept]:
    def take() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        clock.advance(answer)
        return {"brokers": []}

    kept = Kept()
    return SnapshotSeries(take=take, files=kept, clock=clock, every_s=10.0, tell=reported.append), kept  # type: ignore[arg-type]


def test_snapshots_keep_their_pace_and_one_that_takes_long_skips_those_it_missed() -> None:
    clock, reported = VirtualClock(), list[str]()
    run, kept = series(clock, iter([1.0, 23.0, 1.0]), reported)
    stop = Waits(clock, 4)
    run.run(stop)
    assert stop.waited_s == [10.0, 9.0, 7.0, 9.0]
    assert len(kept.rows) == run.taken == 3


def test_what_could_not_be_read_is_a_gap_and_said_once() -> None:
    clock, reported = VirtualClock(), list[str]()
    run, kept = series(clock, iter([0.0, Unreachable("Redis is gone."), Unreachable("Redis is gone."), 0.0]), reported)
    run.run(Waits(clock, 5))
    assert len(kept.rows) == 2
    assert reported == ["no snapshot: Redis is gone.", "snapshots are complete again"]


def test_what_waiting_does_not_mend_ends_the_run() -> None:
    clock = VirtualClock()
    run, _ = series(clock, iter([Refused("No rights.")]), [])
    with pytest.raises(Refused):
        run.run(Waits(clock, 2))
