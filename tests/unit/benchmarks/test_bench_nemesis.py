"""The nemesis: its checker catches each breach of a law and accepts each excuse; its plan follows from the seed."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from benchmarks.nemesis.checker import RETRY, Call, CheckResult, Evidence, Fault, Recorded, check
from benchmarks.nemesis.evidence import Submissions, recorded
from benchmarks.nemesis.faults import nonsense
from benchmarks.nemesis.logs import lines
from benchmarks.nemesis.plan import Kind, plan
from benchmarks.nemesis.report import Report
from benchmarks.nemesis.submitters import wish
from dispatcher.model.errors import Malformed
from dispatcher.wire.envelope import decode_envelope

SENT, FAILED = 0, 2
ENVELOPE = ("0", 7)


def call(worker: str, at_ms: int, attempt: int = 0, target: str = "x", position: int = 0) -> Call:
    return Call(
        at_ms=at_ms, worker=worker, task="t", target=target, envelope=ENVELOPE, position=position, attempt=attempt
    )


def record(worker: str, stored_ms: int, code: int = SENT, attempt: int = 0, position: int = 0) -> Recorded:
    return Recorded(
        stored_ms=stored_ms,
        worker=worker,
        claim=f"{worker}-abc.1",
        task="t",
        envelope=ENVELOPE,
        attempt=attempt,
        codes={position: code},
    )


def fault(worker: str, from_ms: int, until_ms: int | None = None, kind: Kind = Kind.KILL_WORKER) -> Fault:
    return Fault(str(kind), worker, from_ms, from_ms if until_ms is None else until_ms)


def judged(*found: Call | Fault | Recorded) -> CheckResult:
    """One accepted target, `x` of task `t`."""
    calls = [one for one in found if isinstance(one, Call)]
    faults = [one for one in found if isinstance(one, Fault)]
    records = [one for one in found if isinstance(one, Recorded)]
    return check(Evidence({"t": ["x"]}, calls, faults, records))


def counts(verdict: CheckResult) -> tuple[int, int, int, int]:
    """Lost, never ended, excused, not excused."""
    return tuple(map(len, (verdict.lost, verdict.never_ended, verdict.excused, verdict.not_excused)))  # type: ignore[return-value]


TWICE = (call("a", 100), call("b", 500), record("b", 600))
LATER = (call("b", 1_300, attempt=1), record("b", 1_400, attempt=1))
OVERTAKEN = (
    *(call("a", 100), call("a", 1_300, attempt=1), call("b", 1_400)),
    *(record("a", 900, RETRY), record("a", 1_350, attempt=1), record("b", 1_500, RETRY)),
)
MADE_AGAIN = (call("a", 100), call("b", 1_300, attempt=1), call("c", 1_500), call("c", 1_600, attempt=1))
WELL, LOST, NEVER_ENDED, EXCUSED, NOT_EXCUSED = (0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("what", "found", "expected"),
    [
        ("called once and recorded", [call("a", 100), record("a", 200), fault("a", 150)], WELL),
        ("never called", [], LOST),
        ("given up by another worker", [call("a", 100), fault("a", 150), record("b", 300, FAILED)], WELL),
        ("no outcome", [call("a", 100)], NEVER_ENDED),
        ("no final outcome", [call("a", 100), record("a", 200, RETRY)], NEVER_ENDED),
        ("an outcome of another target of the envelope", [call("a", 100), record("a", 200, position=1)], NEVER_ENDED),
        ("a second call without a fault", [*TWICE, record("a", 200)], NOT_EXCUSED),
        ("a fault after the second call", [*TWICE, fault("a", 501)], NOT_EXCUSED),
        ("a cut from before the call that lasts", [*TWICE, fault("a", 50, 300, Kind.CUT_PULSAR)], EXCUSED),
        ("a third call", [*TWICE, call("c", 900), record("c", 950), fault("a", 150)], NOT_EXCUSED),
        ("a retry is a new attempt", [call("a", 100), record("a", 200, RETRY), *LATER], WELL),
        ("a new attempt without a recorded retry", [call("a", 100), record("a", 200), *LATER], NOT_EXCUSED),
        (
            "a repetition after the next attempt: a stopped worker records its retry and makes it meanwhile",
            [*OVERTAKEN, fault("a", 150, 800, Kind.STOP_WORKER)],
            EXCUSED,
        ),
        ("an attempt after a later one", [call("a", 100, attempt=1), call("b", 200), record("b", 300)], NOT_EXCUSED),
        (
            "an attempt made again after the next one, whose worker had a fault",
            [*MADE_AGAIN, record("a", 200, RETRY), record("c", 1_700, attempt=1), fault("b", 1_350)],
            NOT_EXCUSED,
        ),
    ],
)
def test_every_call_and_outcome_is_judged(
    what: str, found: list[Call | Fault | Recorded], expected: tuple[int, int, int, int]
) -> None:
    verdict = judged(*found)
    assert (counts(verdict), verdict.holds) == (expected, expected in (WELL, EXCUSED)), what


def test_a_target_that_is_recorded_as_sent_by_a_worker_that_never_called_is_lost() -> None:
    verdict = judged(call("a", 100), fault("a", 150), record("b", 300))
    assert (counts(verdict), verdict.holds) == (LOST, False)
    assert verdict.lost[0].why == "recorded by b, which has not called"


@pytest.mark.parametrize("kind", [Kind.KILL_WORKER, Kind.STOP_WORKER, Kind.CUT_PULSAR, Kind.CUT_REDIS])
def test_a_fault_of_the_first_worker_between_its_call_and_its_record_excuses(kind: Kind) -> None:
    verdict = judged(*TWICE, record("a", 200), fault("a", 150, kind=kind))
    assert (counts(verdict), verdict.holds) == (EXCUSED, True)
    assert verdict.excused[0].why == f"{kind} a"
    assert verdict.excused[0].fault == fault("a", 150, kind=kind)


@pytest.mark.parametrize(
    "of",
    [fault("a", 50, 99), fault("a", 201, 900), fault("b", 150), fault("", 150, kind=Kind.WIPE_REDIS)],
    ids=["before the call", "after the record", "of the second worker", "of Redis"],
)
def test_any_other_fault_excuses_nothing(of: Fault) -> None:
    verdict = judged(*TWICE, record("a", 200), of)
    assert (counts(verdict), verdict.holds) == (NOT_EXCUSED, False)
    assert verdict.not_excused[0].fault == of


def test_a_target_that_was_not_accepted_need_not_end_and_is_not_called_twice() -> None:
    calls = [call("a", 100, target="y"), call("b", 200, target="y")]
    verdict = check(Evidence({}, calls, [], []))
    assert (verdict.accepted, counts(verdict)) == (0, (0, 0, 0, 1))


def test_records_are_read_as_they_are_stored() -> None:
    runs, mixed = [["0", 0, 5, 2, 2, 0]], [["0", 1, 9, 20, [3, 7], b"\x00\x09", 1], ["0", 0, 10, 2, None, b"\x01\x00"]]
    body = msgspec.msgpack.encode(["o", 1, "t", "w0-2-abc123.17", 5, "nemesis", runs, mixed, "app", 3, []])
    found = recorded(body, 1_000)
    assert [(one.envelope[1], one.attempt, one.codes) for one in found] == [
        (5, 0, {0: 0, 1: 0}),
        (6, 0, {0: 0, 1: 0}),
        (9, 1, {3: 0, 7: 9}),
        (10, 0, {0: 1, 1: 0}),
    ]
    assert {(one.worker, one.task, one.stored_ms) for one in found} == {("w0-2", "t", 1_000)}
    assert recorded(msgspec.msgpack.encode(["e", 1, ["w0-2-abc123.17"]]), 1_000) == []


def test_a_line_that_is_not_written_to_its_end_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"a": 1}\n{"a": ')
    assert lines(tmp_path / "log") == [{"a": 1}]
    assert lines(tmp_path / "none") == []


def test_examples_name_target_workers_times_and_the_nearest_fault(tmp_path: Path) -> None:
    verdict = judged(*TWICE, record("a", 200), fault("a", 50, 99))
    (line,) = Report(
        seed=1, seconds=20, verdict=verdict, faults=[], failed=[], submissions=Submissions(tmp_path), ended={}
    ).examples()
    assert line == (
        "twice and not excused: x: a called (attempt 0), then b (0); called by a at 00:00:00.100, b at 00:00:00.500; "
        "nearest fault: kill worker a, 00:00:00.050"
    )


# ------------------------------------------------------------------- the plan
def test_the_same_seed_gives_the_same_plan() -> None:
    assert plan(7, 600) == plan(7, 600) != plan(8, 600)
    assert wish("s0", 3, 7) == wish("s0", 3, 7)


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_of_fault_occurs_in_ten_minutes(seed: int) -> None:
    steps = plan(seed, 600)
    assert set(Counter(step.kind for step in steps)) == set(Kind)
    assert [step.at_s for step in steps] == sorted(step.at_s for step in steps)
    assert all(step.at_s < 600 for step in steps)


def test_a_worker_suffers_one_fault_at_a_time() -> None:
    steps = [step for step in plan(3, 3_600) if step.victim == "worker-0"]
    assert all(one.at_s + one.lasts_s < other.at_s for one, other in pairwise(steps))


@pytest.mark.parametrize("body", nonsense("t"))
def test_nonsense_is_no_envelope(body: bytes) -> None:
    with pytest.raises(Malformed):
        decode_envelope(body)
