"""Contents of an outcome record, for any reports."""

from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.engine.runs import LONGEST_RUN, EnvelopeRun, envelope_runs
from dispatcher.ports import Delivery
from dispatcher.settle import Draft, NamedTargets, SettlePlan, match
from dispatcher.wire.outcome import (
    ALL_SENT,
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
from tests.unit.consumers.envelopes import envelope

NOW_MS = 1_700_000_000_000

codes = st.sampled_from([*map(int, (Outcome.SENT, Outcome.INVALID, Outcome.FAILED)), RETRY])


def deliveries(first: int, sizes: list[int], attempt: int = 0, task: str = "t") -> list[Delivery]:
    found = []
    for sequence, size in enumerate(sizes, first):
        positions = None if attempt == 0 else list(range(1, 2 * size, 2))
        names = [f"{sequence}:{i}" for i in range(size)]
        total = size if attempt == 0 else 2 * size
        fields: dict[str, Any] = {"published_ms": NOW_MS, "size": total, "max_attempts": 3, "positions": positions}
        made = envelope(sequence, names, task=task, attempt=attempt, channel="null", **fields)
        found.append(Delivery(made, None, 0.0))
    return found


def settle(parts: list[EnvelopeRun], reports: list[Report | None]) -> tuple[SettlePlan, list[EnvelopeRun]]:
    draft = Draft("t", "w.1", "null")
    unsent = []
    for part, answers in match(parts, reports):
        if answers is None:
            unsent.append(part)
        else:
            draft.add(part, answers, NOW_MS)
    return draft.plan(NOW_MS), unsent


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
    assert [(run.first, run.count) for run in draft.plan(NOW_MS).record.runs] == [(0, 150)]


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
    assert again == {key for key, code in found.items() if code == RETRY}
    buried = {(x.sequence, x.attempt, position) for x in plan.letters for position in x.positions}
    assert buried == {key for key, code in found.items() if code in (Outcome.INVALID, Outcome.FAILED)}
    finals = [code for code in found.values() if code != RETRY]
    assert plan.counts == {code: finals.count(code) for code in set(finals)}
    assert plan.targets == len(found)


@given(reported())
def test_the_last_attempt_leaves_nothing_open(case: tuple[list[Delivery], list[Report | None]]) -> None:
    sent, reports = case
    last = deliveries(3, [len(delivery.envelope.targets) for delivery in sent], attempt=2)
    plan, _ = settle(envelope_runs(last)[0], list(reports))
    assert RETRY not in recorded(plan.record).values()
    assert plan.next_attempts == {}


def test_an_envelope_is_not_split_by_delay() -> None:
    report = Report(exceptions={0: Verdict(RETRY, "", 0.2), 2: Verdict(RETRY, "", 100.0)})
    plan, _ = settle(envelope_runs(deliveries(0, [4]))[0], [report])
    ((delay_s, (again,)),) = plan.next_attempts.items()
    assert (delay_s, again.not_before_ms - NOW_MS) == (120, 120_000)
    assert (again.attempt, again.positions, again.size) == (1, [0, 2], 4)
    assert plan.record.mixed[0].delay_s == 120


def test_what_was_not_sent_costs_no_attempt_and_what_is_unknown_is_counted() -> None:
    report = Report(exceptions={0: Verdict(UNSENT, "paused", 3.0), 2: Verdict(UNKNOWN, "no answer")})
    (part,) = envelope_runs(deliveries(0, [4]))[0]
    max_attempts = part.deliveries[0].envelope.max_attempts
    plan, _ = settle([part], [report])
    ((_, (again,)),) = plan.next_attempts.items()
    assert (again.attempt, again.max_attempts, again.positions) == (1, max_attempts + 1, [0, 2])
    assert (plan.unknown, plan.retried) == (1, 2)
    assert plan.record.mixed[0].codes == bytes([RETRY, 0, RETRY, 0])


def test_reports_that_are_missing_count_as_made_calls() -> None:
    parts, _ = envelope_runs(deliveries(0, [1, 1, 1]))
    plan, unsent = settle(parts, [ALL_SENT])
    assert unsent == []
    assert list(recorded(plan.record).values()) == [0, RETRY, RETRY]


# ------------------------------------------------------------------ what the journal is told
DEAD = Verdict(int(Outcome.INVALID), "unregistered")


def journaled(named: NamedTargets, sent: list[Delivery], reports: list[Report]) -> Outcomes:
    draft = Draft("t", "w.1", "null", "shop", named)
    for part in envelope_runs(sent)[0]:
        draft.add(part, [reports.pop(0) for _ in part.deliveries], NOW_MS + 70)
    return draft.plan(NOW_MS + 75).record


def names(record: Outcomes) -> list[tuple[int, list[int] | None, list[str], list[str] | None]]:
    return [(one.sequence, one.positions, one.targets, one.reasons) for one in record.named]


def test_a_record_tells_the_app_and_how_long_the_oldest_envelope_took() -> None:
    record = journaled("dead", deliveries(0, [2, 2]), [ALL_SENT] * 2)
    assert (record.app, record.latency_ms, record.named) == ("shop", 75, [])


def test_a_later_attempt_is_timed_from_when_it_was_due() -> None:
    (first,) = deliveries(0, [2])
    again = first.envelope.next_attempt([1], NOW_MS + 50)
    assert journaled("dead", [Delivery(again, None, 0.0)], [ALL_SENT]).latency_ms == 25


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("none", []),
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
    record = journaled(named, deliveries(0, [4, 2, 1]), [some, Report(DEAD), ALL_SENT])
    assert names(record) == expected


def test_what_is_closed_unsent_is_named_too_where_all_are() -> None:
    for named, expected in (("dead", []), ("all", [(0, None, ["0:0", "0:1"], None)])):
        draft = Draft("t", "w.1", "null", "shop", cast("NamedTargets", named))
        draft.add_all(envelope_runs(deliveries(0, [2]))[0][0], int(Outcome.CANCELLED))
        assert names(draft.plan(NOW_MS).record) == expected


def test_a_long_reason_is_cut() -> None:
    record = journaled("dead", deliveries(0, [1]), [Report(Verdict(int(Outcome.INVALID), "x" * 5_000))])
    assert record.named[0].reasons == ["x" * 200]


def test_a_record_of_before_is_read_and_an_older_reader_reads_this_one() -> None:
    record = journaled("dead", deliveries(0, [2]), [ALL_SENT])
    fields = msgspec.msgpack.decode(encode_record(record))
    old = msgspec.msgpack.encode(fields[:8])
    assert decode_record(old) == msgspec.structs.replace(record, app="", latency_ms=0, named=[])
    assert decode_record(msgspec.msgpack.encode([*fields, "a field of the future"])) == record


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
