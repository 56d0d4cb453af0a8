"""Runs: the same seed gives the same, and what errs is caught (who finds nothing has shown nothing)."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from backends.redis.view import RedisView
from dispatcher.model.tier import TIERS
from dispatcher.ports import FoldResult
from dispatcher.scheduling.scheduler import Scheduler
from dispatcher.wire.control import GlobalChange
from dispatcher.wire.lease import LeaseAnswer, LeaseRequest, Status, StatusRun
from fairlane.cli.main import run as command
from lab.simulator.findings.figures import result_of
from lab.simulator.findings.result import Result
from lab.simulator.run import run as run_module
from lab.simulator.run.many import run_one, run_seed
from lab.simulator.run.ports import SimCourier
from lab.simulator.run.run import SimulatedRun
from lab.simulator.scenario.library import check
from lab.simulator.scenario.scenario import Scenario
from lab.simulator.world import World
from quotas.fold import RedisFold
from quotas.ledger import RedisLedger

TROUBLE = {"late": 0.1, "lost": 0.05, "doubled": 0.2, "copies": 0.1, "crash_rate": 0.2, "stall_rate": 0.1, "until_s": 6}


def scenario(**fields: Any) -> Scenario:
    """Every tier backlogged under a capacity, for a few seconds."""
    return check(
        {
            "name": "mine",
            "duration_s": 6,
            "capacity": 1_000,
            "tasks": [{"name": tier, "tier": tier, "targets": 8_000, "chunk": 10} for tier in TIERS],
            "workers": [{"count": 2}],
            **fields,
        }
    )


def play(chosen: Scenario, make_ledger: Callable[[World], Any] | None = None, seed: int = 3) -> Result:
    return result_of(SimulatedRun(chosen, seed, make_ledger).go())


def shares(result: Result) -> list[float]:
    return [tier.share for tier in result.tiers.values()]


def rules(result: Result) -> set[str]:
    return {one.rule for one in result.violations}


def test_the_same_seed_gives_the_same_run_to_the_last_figure() -> None:
    chosen = scenario(faults=TROUBLE, claim_ms=4_000, until="done", duration_s=20)
    texts = [json.dumps(play(chosen, seed=seed).as_dict()) for seed in (7, 7, 8)]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_workers_whose_clocks_are_wrong_by_five_minutes_change_nothing() -> None:
    """To the last figure: Redis' time rules. With caps, tasks that expire, second attempts, and trouble."""
    tasks = [{"name": tier, "tier": tier, "targets": 2_000, "chunk": 10} for tier in TIERS]
    chosen = {
        "tasks": [*tasks, {"name": "brief", "targets": 9_000, "chunk": 10, "expires_s": 3}],
        "channels": {"push": {"retry": 0.01}},
        "caps": {"app": {"app": 900}},
        "faults": TROUBLE,
        "claim_ms": 4_000,
        "until": "done",
        "duration_s": 120,
    }

    def summary(*clocks_off_s: int) -> str:
        workers = [{"name": f"w{number}", "clock_off_s": off_s} for number, off_s in enumerate(clocks_off_s)]
        return json.dumps(play(scenario(**chosen, workers=workers), seed=7).as_dict())

    assert summary(300, -300, 0) == summary(0, 0, 0)


def test_a_service_that_is_right_breaks_no_law() -> None:
    result = play(scenario())
    assert result.good
    assert shares(result) == pytest.approx([60, 30, 10], abs=2)
    assert result.use == pytest.approx(1, abs=0.02)
    assert result.caps["total"].overshoot == 0
    assert result.ledger["granted"] == result.ledger["used"] + result.ledger["held"] > 5_000


def test_trouble_leaves_every_target_with_one_outcome() -> None:
    result = play(scenario(faults=TROUBLE, claim_ms=4_000, until="done", duration_s=90))
    assert result.good
    assert result.workers["died"] > 0
    assert result.outcomes["sent"] == result.outcomes["total"] == 24_000
    assert result.outcomes["pending"] == 0


def test_what_has_not_ended_in_time_is_told() -> None:
    result = play(scenario(until="done"))
    assert rules(result) == {"all done"}
    assert not result.good


# ------------------------------------------------------------------ what errs is caught
class Faulty:
    """The world's ledger, spoilt."""

    def __init__(self, world: World) -> None:
        self.world = world

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        return self.world.ledger.lease(request)

    def set_in_tasks(self, field: str, value: str) -> None:
        keys, client = self.world.view.keys, self.world.view.client
        for task in self.world.view.command("ZRANGE", keys.tasks, 0, -1):
            client.hset(keys.task(task.decode()), field, value)


def forget_touched(view: RedisView) -> None:
    for key in list(view.client.scan_iter(f"{view.keys.prefix}:touched:*")):
        view.client.delete(key)


class Lavish(Faulty):
    """Grants what there is no credit for."""

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        answer = super().lease(request)
        lanes = [
            [
                [
                    StatusRun(Status.GRANTED, piece.count) if piece.status == Status.NO_CREDIT else piece
                    for piece in pieces
                ]
                for pieces in wants
            ]
            for wants in answer.lanes
        ]
        return msgspec.structs.replace(answer, lanes=lanes)


class Forgetful(Faulty):
    """Knows nothing of claims."""

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        forget_touched(self.world.view)
        return super().lease(request)


class Deaf(Faulty):
    """Hears of no pause."""

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        self.set_in_tasks("paused", "0")
        return super().lease(request)


class Partial(Faulty):
    """Shares between tiers the wrong way round."""

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        self.world.write(GlobalChange(1, "tiers", "1000:3000:6000", 0))
        return super().lease(request)


class Miserly(Faulty):
    """Grants every fourth time only."""

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        kept = [ask if request.number % 4 == 0 else msgspec.structs.replace(ask, wants=[]) for ask in request.lanes]
        answer = super().lease(msgspec.structs.replace(request, lanes=kept))
        lanes = [
            found if ask.wants == one.wants else [[StatusRun(Status.NO_CREDIT, want.count)] for want in one.wants]
            for ask, one, found in zip(kept, request.lanes, answer.lanes, strict=True)
        ]
        return msgspec.structs.replace(answer, lanes=lanes)


def test_a_ledger_that_grants_too_much_is_caught() -> None:
    result = play(scenario(), Lavish)
    assert {"overshoot", "conservation"} <= rules(result)
    assert result.caps["total"].overshoot > 0


def test_a_ledger_without_claims_is_caught() -> None:
    slow = {"push": {"call_ms": 1_500}}
    tasks = [{"name": "t", "targets": 300, "chunk": 10}]
    copied = scenario(faults={"copies": 0.5}, tasks=tasks, capacity=0, channels=slow, until="done")
    assert play(copied).good
    result = play(copied, Forgetful)
    assert {"one claim", "repeat"} <= rules(result)
    assert result.repeats > 0


def test_a_ledger_that_hears_of_no_pause_is_caught() -> None:
    pause = [{"at_s": 2, "task": "high", "paused": True}]
    assert rules(play(scenario(changes=pause), Deaf)) == {"pause"}
    assert play(scenario(changes=pause)).good


def test_a_cap_that_was_lifted_is_shown_as_it_was() -> None:
    changes = [{"at_s": 1, "task": "high", "cap": "100:20"}, {"at_s": 4, "task": "high", "cap": 0}]
    cap = play(scenario(changes=changes)).caps["task/high"]
    assert (cap.rate, cap.burst, cap.overshoot) == (100, 20, 0)


def test_a_change_is_of_the_tasks_that_its_pattern_takes() -> None:
    tasks = [{"name": name, "targets": 9_000, "chunk": 10} for name in ("shop-mail", "news-mail", "push")]
    changes = [{"at_s": 2, "task": "*-mail", "paused": True}]
    last_s = {task.task: task.last_sent_s or 0 for task in play(scenario(tasks=tasks, changes=changes)).tasks}
    assert max(last_s["shop-mail"], last_s["news-mail"]) <= 4.5
    assert last_s["push"] == pytest.approx(6, abs=0.5)


def test_wrong_shares_show() -> None:
    assert shares(play(scenario(), Partial)) != pytest.approx([60, 30, 10], abs=20)


def test_capacity_left_lying_shows() -> None:
    assert (play(scenario(), Miserly).use or 0) < 0.98


def test_a_call_after_its_use_by_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blind(SimCourier):
        """Looks at no use-by."""

        def send(self, batch: Any, sent: Any) -> None:
            super().send(msgspec.structs.replace(batch, use_by_s=1e9), lambda _, reports: sent(batch, reports))

    slow = scenario(capacity=0, channels={"push": {"call_ms": 1_500, "concurrency": 1}})
    assert play(slow).good
    monkeypatch.setattr(run_module, "SimCourier", Blind)
    assert rules(play(slow)) == {"use-by"}


def test_a_fold_that_loses_a_record_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def apply(
        self: RedisFold,
        partition: int,
        expected: str | None,
        cursor: str,
        records: Sequence[bytes],
        positions: Sequence[str],
    ) -> FoldResult:
        kept = slice(1 if len(records) > 3 else 0, None)
        return real(self, partition, expected, cursor, records[kept], positions[kept])

    real = RedisFold.apply
    monkeypatch.setattr(RedisFold, "apply", apply)
    found = rules(play(scenario(until="done", duration_s=40, capacity=4_000)))
    assert found & {"all done", "one outcome"}


def test_a_scheduler_that_knows_only_priorities_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    def pick(self: Any) -> Any:
        return next((tier.head() for tier in self._queues if tier.open), None)

    uncapped = scenario(capacity=0, channels={"push": {"call_ms": 50, "concurrency": 4, "batch_limit": 1}})
    assert shares(play(uncapped)) == pytest.approx([60, 30, 10], abs=2)
    monkeypatch.setattr(Scheduler, "pick", pick)
    assert shares(play(uncapped)) != pytest.approx([60, 30, 10], abs=20)


def test_a_seed_that_breaks_the_engine_says_how_to_run_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.simulator.run import many

    def broken(name: str, seed: int) -> Result:
        if seed == 12:
            raise KeyError("lane")
        return run_one(name, seed)

    monkeypatch.setattr(many, "run_one", broken)
    bad = [one for one in (many.run_seed("random", seed) for seed in range(10, 15)) if not one.good]
    assert [(one.seed, one.replay) for one in bad] == [(12, "fairlane simulate random --seed 12")]
    assert "KeyError" in bad[0].failures[0]


def test_a_seed_that_violates_an_invariant_says_how_to_run_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Among many, and on the command line, where the same seed shows the same violation."""
    real = RedisLedger.lease

    def lease(self: RedisLedger, request: LeaseRequest) -> LeaseAnswer:
        forget_touched(self._view)
        return real(self, request)

    monkeypatch.setattr(RedisLedger, "lease", lease)
    bad = [one for one in (run_seed("random", seed) for seed in range(1, 4)) if not one.good]
    assert bad
    for one in bad:
        assert one.failures
        assert one.replay == f"fairlane simulate random --seed {one.seed}"
    first = bad[0]
    assert command(first.replay.split()[1:]) == 1
    summary = capsys.readouterr().err
    assert f"violated: {first.failures[0]}" in summary
    assert f"run it again: {first.replay}" in summary
