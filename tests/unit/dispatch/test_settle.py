"""Contents of an outcome record, for any reports."""

from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.engine.runs import LONGEST_RUN, EnvelopeRun, envelope_runs
from dispatcher.ports import Delivery
from dispatcher.rounds import retry_wait
from dispatcher.settle import Draft, NamedTargets, match
from dispatcher.wire.envelope import ROUNDS_FORMAT
from dispatcher.wire.groups import MAX_DUES, TargetGroup, pack_positions, unpack_positions
from dispatcher.wire.outcome import (
    ALL_SENT,
    OPEN_NAMES,
    RETRY,
    UNKNOWN,
    UNSENT,
    Outcome,
    Outcomes,
    Report,
    Verdict,
    decode_record,
    encode_record,
)
from producers.outcomes.recorded import invalid_in
from tests.unit.dispatch.consumers.envelopes import envelope

NOW_MS = 1_700_000_000_000

codes = st.sampled_from([*map(int, (Outcome.SENT, Outcome.INVALID, Outcome.FAILED)), RETRY, UNKNOWN, UNSENT])


def deliveries(first: int, sizes: list[int], attempt: int = 0, task: str = "t") -> list[Delivery]:
    found = []
    for sequence, size in enumerate(sizes, first):
        positions = None if attempt == 0 else list(range(1, 2 * size, 2))
        names = [f"{sequence}:{i}" for i in range(size)]
        total = size if attempt == 0 else 2 * size
        fields: dict[str, Any] = {"published_ms": NOW_MS, "size": total, "max_attempts": 3, "positions": positions}
        if positions is not None:
            own = pack_positions(positions, total)
            fields |= {"format": ROUNDS_FORMAT, "groups": [TargetGroup(positions=own, tries=attempt, due_ms=0)]}
        made = envelope(sequence, names, task=task, attempt=attempt, channel="null", **fields)
        found.append(Delivery(made, None, 0.0))
    return found


def settle(parts: list[EnvelopeRun], reports: list[Report | None]) -> tuple[Draft, list[EnvelopeRun]]:
    draft = Draft("t", "w.1", "null")
    unsent = []
    for part, answers in match(parts, reports):
        if answers is None:
            unsent.append(part)
        else:
            draft.add(part, answers, NOW_MS)
    return draft.finish(NOW_MS), unsent


def recorded(record: Outcomes) -> dict[tuple[int, int, int], int]:
    """(sequence, attempt, position) -> code, as the fold reads it."""
    found: dict[tuple[int, int, int], int] = {}
    for run in record.runs:
        for sequence in range(run.first, run.first + run.count):
            found |= {(sequence, run.attempt, position): run.code for position in range(run.size)}
    for mixed in record.mixed:
        positions = range(len(mixed.codes)) if mixed.positions is None else mixed.positions
        for position, code in zip(positions, mixed.codes, strict=True):
            assert (mixed.sequence, mixed.attempt, position) not in found
            found[mixed.sequence, mixed.attempt, position] = code
    return found


def test_what_was_all_sent_is_one_run() -> None:
    parts, targets = envelope_runs(deliveries(10, [1] * 500))
    assert targets == 500
    plan, unsent = settle(parts, [ALL_SENT] * 500)
    assert unsent == []
    (run,) = plan.record.runs
    assert (run.first, run.count, run.size, run.code, run.attempt) == (10, 500, 1, 0, 0)
    assert plan.counts == {0: 500}
    assert [plan.letters, plan.next_attempts, plan.record.mixed] == [[], {}, []]


def test_runs_of_several_batches_are_joined() -> None:
    draft = Draft("t", "w.1", "null")
    for first in (0, 50, 100):
        (part,), _ = envelope_runs(deliveries(first, [2] * 50))
        draft.add(part, [ALL_SENT] * 50, NOW_MS)
    assert [(run.first, run.count) for run in draft.finish(NOW_MS).record.runs] == [(0, 150)]


@st.composite
def reported(draw: st.DrawFn) -> tuple[list[Delivery], list[Report | None]]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=8))
    attempt = draw(st.sampled_from([0, 0, 1, 2]))
    reports: list[Report | None] = []
    for size in sizes:
        if draw(st.integers(0, 5)) == 0:
            reports.append(None)
            continue
        exceptions = draw(st.dictionaries(st.integers(0, size - 1), codes.map(lambda c: Verdict(c, "why")), max_size=3))
        reports.append(Report(Verdict(draw(codes), "all"), exceptions or None))
    return deliveries(3, sizes, attempt), reports


def test_neighbors_with_unlike_outcomes_are_recorded_apart() -> None:
    """A run has one outcome: the envelope behind one that was sent may have failed."""
    parts, _ = envelope_runs(deliveries(0, [2, 2, 2]))
    failed = Report(Verdict(int(Outcome.FAILED), "no route"))
    plan, _ = settle(parts, [ALL_SENT, failed, failed])
    sent = {(0, 0, position): int(Outcome.SENT) for position in range(2)}
    assert recorded(plan.record) == sent | {
        (sequence, 0, position): int(Outcome.FAILED) for sequence in (1, 2) for position in range(2)
    }
    assert len(plan.record.runs) == 2


@given(reported())
def test_every_target_is_told_of_once_and_what_follows_fits(
    case: tuple[list[Delivery], list[Report | None]],
) -> None:
    sent, reports = case
    parts, _ = envelope_runs(sent)
    plan, unsent = settle(parts, list(reports))
    found = recorded(plan.record)
    called = [delivery.envelope for delivery, report in zip(sent, reports, strict=True) if report is not None]
    expected = {(e.sequence, e.attempt, e.position(i)) for e in called for i in range(len(e.targets))}
    assert set(found) == expected
    assert [d.envelope for part in unsent for d in part.deliveries] == [
        delivery.envelope for delivery, report in zip(sent, reports, strict=True) if report is None
    ]
    assert [delivery.envelope for delivery in plan.acks] == called
    again = {
        (e.sequence, e.attempt - 1, position)
        for envelopes in plan.next_attempts.values()
        for e in envelopes
        for position in e.positions or []
    }
    assert again == {key for key, code in found.items() if code in OPEN_NAMES}
    buried = {(x.sequence, x.attempt, position) for x in plan.letters for position in x.positions}
    assert buried == {key for key, code in found.items() if code == Outcome.FAILED}
    named = {(one.sequence, one.attempt - 1, one.position) for one in invalid_in(plan.record)}
    assert named == {key for key, code in found.items() if code == Outcome.INVALID}
    finals = [code for code in found.values() if code not in OPEN_NAMES]
    assert plan.counts == {code: finals.count(code) for code in set(finals)}
    assert plan.targets == len(found)


@given(reported())
def test_the_last_attempt_leaves_nothing_open(case: tuple[list[Delivery], list[Report | None]]) -> None:
    sent, reports = case
    last = deliveries(3, [len(delivery.envelope.targets) for delivery in sent], attempt=2)
    plan, _ = settle(envelope_runs(last)[0], list(reports))
    assert not {RETRY, UNKNOWN} & set(recorded(plan.record).values())
    again = [one for envelopes in plan.next_attempts.values() for one in envelopes]
    assert {group.tries for one in again for group in one.groups or []} <= {2}, "what was not sent has a try left"


def test_an_envelope_is_not_split_by_delay_and_waits_for_its_earliest_target() -> None:
    report = Report(exceptions={0: Verdict(RETRY, "", 0.2), 2: Verdict(RETRY, "", 100.0)})
    plan, _ = settle(envelope_runs(deliveries(0, [4]))[0], [report])
    ((delay_s, (again,)),) = plan.next_attempts.items()
    assert delay_s == 1
    assert 1_000 <= again.not_before_ms - NOW_MS <= 1_250
    assert (again.attempt, again.positions, again.size) == (1, [0, 2], 4)
    early, late = again.groups or []
    assert (early.positions, early.due_ms, early.tries, early.first_ms) == ("1", again.not_before_ms, 1, NOW_MS)
    assert late.positions == "4"
    assert 100_000 <= late.due_ms - NOW_MS <= 125_000
    assert plan.record.mixed[0].groups == again.groups
    assert plan.record.mixed[0].delay_s == 1


def test_what_was_not_sent_costs_no_try_and_what_is_unknown_is_counted() -> None:
    report = Report(exceptions={0: Verdict(UNSENT, "paused", 3.0), 2: Verdict(UNKNOWN, "no answer")})
    (part,) = envelope_runs(deliveries(0, [4]))[0]
    max_attempts = part.deliveries[0].envelope.max_attempts
    plan, _ = settle([part], [report])
    ((_, (again,)),) = plan.next_attempts.items()
    assert (again.attempt, again.max_attempts, again.positions) == (1, max_attempts, [0, 2])
    assert [(one.positions, one.tries, one.first_ms) for one in again.groups or []] == [("4", 1, NOW_MS), ("1", 0, 0)]
    assert (plan.unknown, plan.retried) == (1, 2)
    assert plan.record.mixed[0].codes == bytes([UNSENT, 0, UNKNOWN, 0])


def in_round(groups: list[TargetGroup], max_attempts: int = 3, **fields: Any) -> EnvelopeRun:
    """A run of one envelope in round 4, with all of its four targets."""
    (first,) = deliveries(0, [4])
    again = first.envelope.next_round(range(4), groups, 4, NOW_MS)
    again = msgspec.structs.replace(again, max_attempts=max_attempts, **fields)
    return EnvelopeRun(Delivery(again, None, 0.0))


def group(positions: str, tries: int = 0, due_ms: int = NOW_MS, **fields: Any) -> TargetGroup:
    return TargetGroup(positions=positions, tries=tries, due_ms=due_ms, **fields)


def test_what_is_not_due_is_recorded_as_unsent_and_waits_on() -> None:
    waiting = group("c", 1, NOW_MS + 9_000, first_ms=5)
    part = in_round([group("3", 1), waiting])
    part.choose_due(NOW_MS)
    assert (part.size, part.open, part.called(), part.targets) == (2, 4, [0, 1], 2)
    plan, _ = settle([part], [Report(exceptions={1: Verdict(RETRY, "busy", 90.0)})])
    assert plan.record.mixed[0].codes == bytes([0, RETRY, UNSENT, UNSENT])
    ((_, (again,)),) = plan.next_attempts.items()
    assert (again.attempt, again.positions, again.not_before_ms) == (5, [1, 2, 3], NOW_MS + 9_000)
    assert (again.groups or [])[0] == waiting
    assert (plan.targets, plan.counts, plan.retried) == (2, {0: 1}, 3)
    assert plan.error is not None
    assert (plan.error.count, plan.error.reason) == (1, "busy")


def test_targets_put_back_are_counted_apart_and_the_last_error_is_the_providers() -> None:
    (first,) = deliveries(0, [4])
    answers = {0: Verdict(UNSENT, "429", 60.0, refused=True), 1: Verdict(RETRY, "503")}
    plan, _ = settle([EnvelopeRun(first)], [Report(Verdict(UNSENT, "the cap", 1.0), answers)])
    assert plan.error is not None
    assert (plan.error.count, plan.error.reason, plan.error.unsent, plan.error.unsent_reason) == (
        2,
        "503",
        2,
        "the cap",
    )
    (second,) = deliveries(1, [3])
    later, _ = settle([EnvelopeRun(second)], [Report(Verdict(UNSENT, "the cap", 1.0))])
    assert later.error is not None
    after = later.error.after(plan.error)
    assert (after.count, after.reason, after.unsent, after.retry_ms) == (2, "503", 5, later.error.retry_ms)


def test_a_target_that_was_lost_too_often_fails_without_a_call() -> None:
    part = in_round([group("1", 3, is_lost=True), group("e", 2)])
    part.choose_due(NOW_MS)
    assert part.called() == [1, 2, 3]
    plan, _ = settle([part], [ALL_SENT])
    assert plan.record.mixed[0].codes == bytes([Outcome.FAILED, 0, 0, 0])
    (letter,) = plan.letters
    assert (letter.positions, letter.reasons[0][:8]) == ([0], "unknown:")


def test_an_envelope_has_at_most_six_due_times() -> None:
    (part,) = envelope_runs(deliveries(0, [20]))[0]
    report = Report(exceptions={i: Verdict(RETRY, "", 2.0 + 3 * i * i) for i in range(20)})
    plan, _ = settle([part], [report])
    groups = plan.record.mixed[0].groups
    assert len({group.due_ms for group in groups}) == len(groups) == MAX_DUES
    for i in range(20):
        (own,) = [one for one in groups if i in unpack_positions(one.positions)]
        assert own.due_ms - NOW_MS >= 1_000 * (2 + 3 * i * i)


@pytest.mark.parametrize(
    ("due_s", "step_s", "leaves_s"),
    [(-9, 1, 0), (0, 1, 0), (1.2, 1, 1.2), (1.3, 5, 1.3), (37.5, 30, 37.5), (700, 600, 700), (86_400, 600, 750)],
)
def test_an_envelope_waits_in_the_lane_of_its_earliest_target(due_s: float, step_s: int, leaves_s: float) -> None:
    groups = [group("1", due_ms=NOW_MS + round(1000 * due_s)), group("2", due_ms=NOW_MS + 90_000_000)]
    assert retry_wait(groups, NOW_MS) == (step_s, NOW_MS + round(1000 * leaves_s))


def test_reports_that_are_missing_count_as_made_calls() -> None:
    parts, _ = envelope_runs(deliveries(0, [1, 1, 1]))
    plan, unsent = settle(parts, [ALL_SENT])
    assert unsent == []
    assert list(recorded(plan.record).values()) == [0, UNKNOWN, UNKNOWN]


# ------------------------------------------------------------------ what the journal is told
DEAD = Verdict(int(Outcome.INVALID), "unregistered")


def journaled(named: NamedTargets, sent: list[Delivery], reports: list[Report]) -> Draft:
    draft = Draft("t", "w.1", "null", "shop", named)
    for part in envelope_runs(sent)[0]:
        draft.add(part, [reports.pop(0) for _ in part.deliveries], NOW_MS + 70)
    return draft.finish(NOW_MS + 75)


def names(record: Outcomes) -> list[tuple[int, list[int] | None, list[str], list[str] | None]]:
    return [(one.sequence, one.positions, one.targets, one.reasons) for one in record.named]


def test_a_record_tells_the_app_and_how_long_the_oldest_envelope_took() -> None:
    record = journaled("dead", deliveries(0, [2, 2]), [ALL_SENT] * 2).record
    assert (record.app, record.latency_ms, record.named) == ("shop", 75, [])


def test_a_later_attempt_is_timed_from_when_it_was_due() -> None:
    (first,) = deliveries(0, [2])
    again = first.envelope.next_round([1], [group("2", 1)], 1, NOW_MS + 50)
    assert journaled("dead", [Delivery(again, None, 0.0)], [ALL_SENT]).record.latency_ms == 25


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("none", [(0, [1], ["0:1"], ["unregistered"]), (1, None, ["1:0", "1:1"], ["unregistered"] * 2)]),
        ("dead", [(0, [1], ["0:1"], ["unregistered"]), (1, None, ["1:0", "1:1"], ["unregistered"] * 2)]),
        (
            "all",
            [
                (0, [0, 1, 3], ["0:0", "0:1", "0:3"], ["", "unregistered", "no"]),
                (1, None, ["1:0", "1:1"], ["unregistered"] * 2),
                (2, None, ["2:0"], None),
            ],
        ),
    ],
)
def test_targets_are_named_as_the_journal_wants_them(named: NamedTargets, expected: list[object]) -> None:
    some = Report(exceptions={1: DEAD, 2: Verdict(RETRY, "busy"), 3: Verdict(int(Outcome.FAILED), "no")})
    record = journaled(named, deliveries(0, [4, 2, 1]), [some, Report(DEAD), ALL_SENT]).record
    assert names(record) == expected


@pytest.mark.parametrize("named", ["none", "dead", "all"])
def test_an_invalid_target_is_named_with_its_time_of_death_and_has_no_letter(named: NamedTargets) -> None:
    dead, failed = Verdict(int(Outcome.INVALID), "gone", died_ms=NOW_MS - 5_000), Verdict(int(Outcome.FAILED), "no")
    plan = journaled(named, deliveries(0, [4, 2]), [Report(exceptions={0: dead, 1: failed, 2: DEAD}), Report(DEAD)])
    invalid = sorted(invalid_in(decode_record(encode_record(plan.record))), key=lambda one: one.key)
    assert [(one.target, one.reason, one.died_ms) for one in invalid] == [
        ("0:0", "gone", NOW_MS - 5_000),
        ("0:2", "unregistered", NOW_MS + 75),
        ("1:0", "unregistered", NOW_MS + 75),
        ("1:1", "unregistered", NOW_MS + 75),
    ]
    assert {(one.app, one.channel, one.task, one.at_ms) for one in invalid} == {("shop", "null", "t", NOW_MS + 75)}
    assert [letter.targets for letter in plan.letters] == [["0:1"]]


def test_a_letter_has_what_is_needed_to_send_its_targets_again() -> None:
    (first,) = deliveries(0, [3])
    sent = msgspec.structs.replace(first.envelope, app="shop", variables=[{"n": 1}, None, {"n": 3}])
    failed = Report(exceptions={1: Verdict(int(Outcome.FAILED), "no"), 2: Verdict(int(Outcome.FAILED), "no")})
    (part,), _ = envelope_runs([Delivery(sent, None, 0.0)])
    (letter,) = settle([part], [failed])[0].letters
    assert (letter.app, letter.targets, letter.variables) == ("shop", ["0:1", "0:2"], [None, {"n": 3}])
    assert letter.first_call_ms == NOW_MS


def test_what_is_closed_unsent_is_named_too_where_all_are() -> None:
    for named, expected in (("dead", []), ("all", [(0, None, ["0:0", "0:1"], None)])):
        draft = Draft("t", "w.1", "null", "shop", cast("NamedTargets", named))
        draft.add_all(envelope_runs(deliveries(0, [2]))[0][0], int(Outcome.CANCELLED))
        assert names(draft.finish(NOW_MS).record) == expected


def test_a_long_reason_is_cut() -> None:
    record = journaled("dead", deliveries(0, [1]), [Report(Verdict(int(Outcome.INVALID), "x" * 5_000))]).record
    assert record.named[0].reasons == ["x" * 200]


# ------------------------------------------------------------------ stretches
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4), st.integers(1, 2)), max_size=30))
def test_stretches_keep_every_delivery_in_order(items: list[tuple[str, int, int]]) -> None:
    given_ = [deliveries(sequence, [size], task=task)[0] for task, sequence, size in items]
    parts, targets = envelope_runs(given_)
    assert [delivery for part in parts for delivery in part.deliveries] == given_
    assert targets == sum(size for _, _, size in items)
    for part in parts:
        want = part.want()
        for offset, delivery in enumerate(part.deliveries):
            envelope = delivery.envelope
            assert (envelope.task, envelope.sequence) == (want.task, want.first + offset)
            assert (len(envelope.targets), envelope.size) == (want.size, want.total)


def test_long_stretches_are_cut() -> None:
    parts, _ = envelope_runs(deliveries(0, [1] * (LONGEST_RUN + 5)))
    assert [part.count for part in parts] == [LONGEST_RUN, 5]


@given(st.integers(1, 20), st.lists(st.integers(1, 7), max_size=10))
def test_taking_from_a_stretch_loses_nothing(count: int, takes: list[int]) -> None:
    (part,), _ = envelope_runs(deliveries(5, [3] * count))
    taken: list[EnvelopeRun] = []
    for take in takes:
        if taken and taken[-1] is part:
            break
        taken.append(part.take(take))
    rest = [] if taken and taken[-1] is part else [part]
    sequences = [delivery.envelope.sequence for one in [*taken, *rest] for delivery in one.deliveries]
    assert sequences == list(range(5, 5 + count))
    assert [one.first for one in [*taken, *rest]] == [one.deliveries[0].envelope.sequence for one in [*taken, *rest]]
