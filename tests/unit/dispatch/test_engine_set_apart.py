"""An envelope that cannot be read or settled is set apart: its task ends, and no other target is sent twice."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dispatcher.model.tier import Tier
from dispatcher.ports import DeadLetter, Done
from dispatcher.wire.checks.damage import salvaged
from dispatcher.wire.envelope import Envelope, decode_envelope, encode_envelope
from dispatcher.wire.lease import Want
from dispatcher.wire.outcome import ALL_SENT, Outcome, OutcomeRecord, Outcomes, Report, Verdict
from producers.outcomes.letter_rows import LetterRow, target_of
from tests.near_envelopes import wire
from tests.unit.dispatch.test_engine_suspects import faulty
from tests.unit.dispatch.test_nesting import UNREADABLE
from tests.unit.engine_world import EngineWorld, Worker, busy_at_first

FAILED = Verdict(int(Outcome.FAILED), "no such app")


def damaged(task: str, sequence: int, targets: int = 2, value: Any = UNREADABLE["985 lists"]) -> Envelope:
    names = [f"{task}:{sequence}-{number}" for number in range(targets)]
    body = wire(
        task=task,
        sequence=sequence,
        attempt=0,
        app="app",
        channel="null",
        not_before_ms=0,
        size=targets,
        targets=names,
        positions=None,
        variables=[{"name": value}] + [None] * (targets - 1),
    )
    envelope = salvaged(body)
    assert envelope is not None
    return envelope


def apart(world: EngineWorld) -> int:
    return sum(worker.engine.stats.set_apart for worker in world.workers)


def once(world: EngineWorld) -> bool:
    """No attempt of an envelope was sent twice."""
    identities = [envelope.identity for envelope in world.provider_calls]
    return len(identities) == len(set(identities))


def unsettled(world: EngineWorld) -> int:
    return sum(worker.engine.stats.unsettled_targets for worker in world.workers)


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


# ------------------------------------------------------------------ envelopes that cannot be read
@pytest.mark.parametrize("shared", [False, True])
def test_a_damaged_envelope_fails_its_targets_and_its_task_ends(world: EngineWorld, shared: bool) -> None:
    workers = [world.worker(), world.worker()]
    world.add_task("innocent", 300, chunk=3, shared=shared)
    lane = world.add_task("t", 20, chunk=2, shared=shared, publish=False)
    world.publish("t", lane, 6, chunk=2)
    world.broker.publish(lane, [damaged("t", sequence) for sequence in (3, 4, 7)])
    world.publish("t", lane, 4, chunk=2, first=5)
    world.publish("t", lane, 4, chunk=2, first=8)
    world.run_out("t", "innocent")
    assert world.counts("t") == {"sent": 14, "failed": 6}
    assert world.counts("innocent") == {"sent": 300}
    assert once(world)
    assert all(worker.alive for worker in workers)
    assert apart(world) == 3
    assert unsettled(world) == 0


@pytest.mark.parametrize(("named", "targets"), [("dead", 0), ("all", 2)])
def test_its_targets_are_named_for_the_journal_as_any_that_fail(world: EngineWorld, named: Any, targets: int) -> None:
    world.worker(named_targets=named)
    lane = world.add_task("t", 2, chunk=2, publish=False)
    world.broker.publish(lane, [damaged("t", 0)])
    world.run_out("t")
    assert sum(len(one.targets) for record in world.records() for one in record.named) == targets


def test_its_dead_letter_names_the_targets_and_the_reason_and_is_never_replayed(world: EngineWorld) -> None:
    world.worker()
    lane = world.add_task("t", 2, chunk=2, publish=False)
    world.broker.publish(lane, [damaged("t", 0)])
    world.run_out("t")
    (letter,) = world.dead_letters.letters
    assert letter.targets == ["t:0-0", "t:0-1"]
    assert letter.reasons[0].startswith("set apart: its variables cannot be read: lists and maps are nested")
    assert letter.is_set_apart
    assert not LetterRow(letter, target_of(letter, 0)).is_replayable


def test_a_damaged_envelope_of_an_unknown_or_cancelled_task_is_treated_as_any_other(world: EngineWorld) -> None:
    world.worker()
    lane = world.topics.shared_lane(0)
    world.add_task("t", 2, chunk=2, shared=True, publish=False)
    world.change("t", "cancelled", "1")
    world.broker.publish(lane, [damaged("nobody", 0), damaged("t", 0)])
    world.run_out("t")
    assert world.counts("t") == {"cancelled": 2}
    assert [(letter.task, letter.targets) for letter in world.dead_letters.letters] == [("nobody", [])]


def test_a_damaged_envelope_that_is_moved_to_another_lane_is_still_damaged(world: EngineWorld) -> None:
    worker = world.worker()
    lane = world.add_task("t", 2, chunk=2, publish=False)
    world.change("t", "paused", "1")
    world.broker.publish(world.topics.retry_lanes()[0].topic, [damaged("t", 0)])
    world.run(lambda: worker.engine.stats.moved == 1)
    assert [envelope.damage for envelope in world.broker.open(lane)] == [damaged("t", 0).damage]
    world.change("t", "paused", "0")
    world.run_out("t")
    assert world.counts("t") == {"failed": 2}


def test_a_damaged_later_round_ends_too(world: EngineWorld) -> None:
    world.script = busy_at_first
    first = world.worker()
    world.add_task("t", 8, chunk=4)
    world.run(lambda: sum(len(record.mixed) for record in world.records()) == 2)
    first.die()
    for lane in world.topics.retry_lanes():
        for message in world.broker._topic(lane.topic).messages:  # noqa: SLF001
            rows: Any = [{"a": msgspec.Raw(b"\x91" * 100 + b"\x01")}, None, None, None]
            left = salvaged(encode_envelope(replace(message.envelope, variables=rows)))
            assert left is not None
            message.envelope = left
    world.worker()
    world.run_out("t")
    assert world.counts("t") == {"failed": 8}
    assert once(world)


@pytest.mark.parametrize("step", range(1, 22, 2))
def test_a_worker_that_dies_at_any_step_changes_nothing(world: EngineWorld, step: int) -> None:
    lane = world.add_task("t", 6, chunk=2, publish=False)
    world.broker.publish(lane, [damaged("t", 0), damaged("t", 1)])
    world.publish("t", lane, 2, chunk=2, first=2)
    world.worker().wire.dies_at = step
    world.worker()
    world.run_out("t")
    counts = world.counts("t")
    assert (sum(counts.values()), counts["sent"] + counts["failed"]) == (6, 6)
    assert counts["failed"] >= 4


def test_a_copy_of_a_damaged_envelope_changes_nothing(world: EngineWorld) -> None:
    world.worker()
    world.worker()
    lane = world.add_task("t", 4, chunk=2, publish=False)
    world.broker.publish(lane, [damaged("t", 0)] * 3)
    world.publish("t", lane, 2, chunk=2, first=1)
    world.run_out("t")
    assert world.counts("t") == {"failed": 2, "sent": 2}


# ------------------------------------------------------------------ envelopes that cannot be settled
class Faulty:
    """A port that raises for what `fails_for` chooses, as a bug of an encoder does."""

    def __init__(self, port: Any, fails_for: Callable[[Any], bool]) -> None:
        self._port = port
        self._fails_for = fails_for
        self.failed = 0

    def publish(self, *args: Any) -> None:
        if any(self._fails_for(one) for one in args if not callable(one)):
            self.failed += 1
            raise RecursionError("maximum recursion depth exceeded")
        self._port.publish(*args)


def with_faults(
    world: EngineWorld, port: str, fails_for: Callable[[Any], bool], **settings: Any
) -> tuple[Worker, Faulty]:
    worker = world.worker(settle_linger_s=0.5, quantum_targets=100, **settings)
    ports = worker.engine._settling._ports  # noqa: SLF001
    faulty = Faulty(getattr(ports, port), fails_for)
    object.__setattr__(ports, port, faulty)
    return worker, faulty


def fails(envelope: Envelope) -> Report:
    """The provider refuses the first target of the tenth envelope for good, and takes all others."""
    return Report(exceptions={0: FAILED}) if envelope.sequence == 9 else ALL_SENT


def test_the_letter_of_one_envelope_cannot_be_stored_and_the_others_are_settled(world: EngineWorld) -> None:
    world.script = fails

    def bad(one: Any) -> bool:
        return isinstance(one, DeadLetter) and not one.is_set_apart

    _, faulty = with_faults(world, "dead_letters", bad)
    world.add_task("t", 80, chunk=4)
    world.run_out("t")
    assert faulty.failed == 2, "with the others, and alone"
    assert world.counts("t") == {"sent": 79, "failed": 1}
    assert once(world)
    assert apart(world) == 1
    (letter,) = world.dead_letters.letters
    assert (letter.targets, letter.is_set_apart) == (["t:36"], True)
    assert "RecursionError" in letter.reasons[0]
    assert unsettled(world) == 0


def test_the_record_of_one_envelope_cannot_be_stored_with_others_and_is_stored_bare(world: EngineWorld) -> None:
    world.script = lambda envelope: (
        Report(exceptions={1: Verdict(int(Outcome.INVALID), "gone")}) if envelope.sequence == 9 else ALL_SENT
    )

    def bad(one: Any) -> bool:
        return isinstance(one, Outcomes) and any(named.reasons for named in one.named)

    worker, _ = with_faults(world, "outcomes", bad)
    world.add_task("t", 80, chunk=4)
    world.run_out("t")
    assert world.counts("t") == {"sent": 79, "invalid": 1}
    assert once(world)
    assert worker.engine.stats.set_apart == 1


def test_a_next_attempt_cannot_be_encoded_and_its_targets_fail() -> None:
    world = EngineWorld(busy_at_first)
    worker = world.worker(settle_linger_s=0.5)
    lane = world.add_task("t", 40, chunk=4, publish=False)
    world.publish("t", lane, 36, chunk=4)
    good = decode_envelope(wire(task="t", sequence=9, attempt=0, app="app", channel="null", not_before_ms=0, size=4,
                                targets=list("abcd"), positions=None, variables=None))  # fmt: skip
    world.broker.publish(lane, [replace(good, variables=[{"name": deep(2_000)}, None, None, None])])
    world.run_out("t")
    assert world.counts("t") == {"sent": 36, "failed": 4}
    assert worker.engine.stats.set_apart == 1
    assert once(world)


NONE: Any = None
ODD: list[Any] = [Report(NONE), Report(exceptions=[1]), Report(exceptions={0: NONE})]  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", ODD)
def test_a_report_that_makes_no_sense_fails_its_envelope_alone(world: EngineWorld, odd: Report) -> None:
    """Reports are checked before the engine sees them; this is what is behind the check."""

    def script(envelope: Envelope) -> Report:
        return odd if envelope.sequence == 3 else busy_at_first(envelope)

    world.script = script
    worker = world.worker(settle_linger_s=0.5)
    world.add_task("t", 40, chunk=4)
    world.run_out("t")
    assert world.counts("t") == {"sent": 36, "failed": 4}
    assert once(world)
    assert worker.engine.stats.set_apart == 1
    assert unsettled(world) == 0


def test_an_envelope_that_the_ledger_cannot_judge_ends_with_an_outcome(world: EngineWorld) -> None:
    faulty(world, lambda one: isinstance(one, Want) and one.task == "t" and one.first <= 7 < one.first + one.count)
    world.add_task("t", 50, chunk=5)
    world.add_task("innocent", 50, tier=Tier.LOW)
    world.run_out("t", "innocent")
    assert world.counts("t") == {"sent": 45, "failed": 5}
    assert once(world)


class Broken:
    """An outcome log that is at fault itself."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.broken = True

    def publish(self, task: str, record: OutcomeRecord, done: Done) -> None:
        if self.broken:
            raise RuntimeError("no such partition")
        self._log.publish(task, record, done)


def test_where_no_record_can_be_stored_the_worker_lives_and_the_envelopes_stay(world: EngineWorld) -> None:
    worker = world.worker()
    ports = worker.engine._settling._ports  # noqa: SLF001
    log = Broken(ports.outcomes)
    object.__setattr__(ports, "outcomes", log)
    lane = world.add_task("t", 10)
    world.run(within_s=5.0)
    assert worker.alive
    assert len(world.broker.open(lane)) == 10
    assert unsettled(world) == 0
