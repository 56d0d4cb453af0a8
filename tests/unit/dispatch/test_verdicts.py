"""Reading a channel's return value: clear mistakes are corrected, others are decided and reported."""

import math
from collections.abc import Iterator
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from dispatcher.verdicts import all_sent, error_text, read_reports
from dispatcher.wire.outcome import ALL_SENT, MAX_REASON_BYTES, OPEN_NAMES, RETRY, UNKNOWN, Outcome, Report, Verdict
from tests.unit.dispatch.consumers.envelopes import envelope
from tests.unit.nonsense import OddReport, Sick, answers

TARGETS = ("a", "b", "c", "a")
INVALID = Verdict(int(Outcome.INVALID), "unknown")


def read(*reports: Any) -> tuple[list[Report], list[str]]:
    faults: list[str] = []
    found = read_reports(list(reports), [envelope(n, TARGETS) for n in range(len(reports))], faults.append)
    return found, faults


def test_what_is_sound_is_left_as_it_is() -> None:
    sound = [ALL_SENT, Report(INVALID), Report(exceptions={0: INVALID, 2: Verdict(RETRY, "busy", 2.5)})]
    assert read(*sound) == (sound, [])
    assert read(Report(Verdict(Outcome.FAILED, "no"))) == ([Report(Verdict(2, "no"))], [])


@pytest.mark.parametrize(
    ("given", "kept", "faults"),
    [
        ("projects/shop/messages/1", "projects/shop/messages/1", 0),
        ("x" * 5_000, "x" * 200, 0),
        ("\udc80\n", "\\udc80\n", 0),
        (None, "", 1),
        (7, "", 1),
        (b"id", "", 1),
    ],
)
def test_a_providers_id_is_a_text_of_limited_length(given: Any, kept: str, faults: int) -> None:
    ((report,), found) = read(Report(Verdict(int(Outcome.SENT), provider_id=given)))
    assert (report.verdict.code, report.verdict.provider_id, len(found)) == (Outcome.SENT, kept, faults)


@pytest.mark.parametrize(
    ("given", "code"),
    [("sent", 0), ("Invalid", 1), ("RETRY", RETRY), (2.0, 2), (np.int64(1), 1), (Outcome.EXPIRED, 3)],
)
def test_a_code_that_is_clear_counts(given: Any, code: int) -> None:
    ((report,), _) = read(Report(Verdict(given, "why")))
    assert report == Report(Verdict(code, "why"))
    assert type(report.verdict.code) is int


def test_a_time_of_death_that_is_none_is_ignored() -> None:
    dead = Verdict(int(Outcome.INVALID), "gone", died_ms=1_700_000_000_000)
    assert read(Report(dead)) == ([Report(dead)], [])
    wrong: Any
    for wrong in (-1, 1e12, "now", None, True, 2**60):
        ((report,), faults) = read(Report(Verdict(int(Outcome.INVALID), "gone", died_ms=wrong)))
        assert (report.verdict.died_ms, len(faults)) == (0, 1)


@pytest.mark.parametrize("code", [5, -1, 2**70, True, False, None, "ok", "0", b"sent", 0.5, math.nan, [0], object()])
def test_a_code_that_is_no_outcome_is_tried_again(code: Any) -> None:
    ((report,), faults) = read(Report(Verdict(code)))
    assert report.verdict.code == UNKNOWN
    assert "undefined code" in report.verdict.reason
    assert faults == [report.verdict.reason]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (b"gone \xff", "gone \ufffd"),
        ("half \ud83d of it", "half \\ud83d of it"),
        (None, ""),
        (404, "404"),
        ({"error": 1}, "{'error': 1}"),
        ("x" * 80_000, "x" * MAX_REASON_BYTES),
        ("é" * 80_000, "é" * (MAX_REASON_BYTES // 2)),
    ],
)
def test_a_reason_of_any_kind_changes_nothing_of_what_was_said(given: Any, text: str) -> None:
    ((report,), _) = read(Report(Verdict(int(Outcome.SENT), given), {1: Verdict(int(Outcome.FAILED), given)}))
    assert report == Report(Verdict(0, text), {1: Verdict(2, text)})
    text.encode()


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("5", 5.0),
        (-3, 0.0),
        (math.inf, math.inf),
        (10**400, math.inf),
        (math.nan, None),
        ("soon", None),
        (True, None),
        ([5], None),
        (timedelta(minutes=2), 120.0),
        (np.float32(2), 2.0),
    ],
)
def test_seconds_that_are_clear_count_and_others_are_none(given: Any, seconds: float | None) -> None:
    ((report,), faults) = read(Report(Verdict(RETRY, "busy", given)))
    assert report == Report(Verdict(RETRY, "busy", seconds))
    assert len(faults) == 1


@pytest.mark.parametrize(
    ("key", "places"),
    [("b", [1]), ("a", [0, 3]), (b"c", [2]), ("2", [2]), (1.0, [1]), (np.int32(3), [3])],
)
def test_an_exception_concerns_the_target_that_is_meant(key: Any, places: list[int]) -> None:
    ((report,), faults) = read(Report(exceptions={key: INVALID}))
    assert report == Report(exceptions=dict.fromkeys(places, INVALID))
    assert len(faults) == 1


@pytest.mark.parametrize(
    ("key", "place"),
    [(4, "at index 4"), (-1, "at index -1"), (999.0, "at index 999"), (10**12, "at index of more than 9 digits")]
    + [
        (key, f"for a {type(key).__name__} that is none of its targets")
        for key in (True, None, "nobody", 1.5, (0,), "9" * 5000)
    ],
)
def test_nothing_counts_as_sent_where_an_exception_means_no_target(key: Any, place: str) -> None:
    (sent, report), faults = read(ALL_SENT, Report(exceptions={0: INVALID, key: INVALID}))
    assert (sent, report.verdict.code, report.exceptions) == (ALL_SENT, UNKNOWN, None)
    assert faults == [f"a report has an exception {place}, but its envelope has 4 targets"]
    assert report.verdict.reason == faults[0]


def test_a_fault_in_one_exception_concerns_that_target_alone() -> None:
    exceptions: Any = {0: INVALID, 1: "gone", 2: Verdict("?"), 3: Verdict(2, Sick())}  # type: ignore[arg-type]
    ((report,), _) = read(Report(exceptions=exceptions))
    assert report.exceptions is not None
    assert report.verdict == Verdict(0)
    assert {index: verdict.code for index, verdict in report.exceptions.items()} == {0: 1, 1: UNKNOWN, 2: UNKNOWN, 3: 2}


def test_exceptions_in_another_mapping_count_and_in_anything_else_are_ignored() -> None:
    assert read(Report(exceptions=MappingProxyType({1: INVALID})))[0] == [Report(exceptions={1: INVALID})]  # type: ignore[arg-type]
    others: list[Any] = [[INVALID], 5, "a", b"a", {1}, object()]
    for other in others:
        (report,), faults = read(Report(INVALID, other))
        assert (report, len(faults)) == (Report(INVALID), 1)


def test_a_report_of_another_class_is_read_by_its_fields() -> None:
    assert read(OddReport(INVALID, {1: INVALID}))[0] == [Report(INVALID, {1: INVALID})]
    assert read(INVALID)[0] == [Report(INVALID)]
    assert read(Outcome.SENT)[0] == [ALL_SENT]


def test_a_strange_report_concerns_its_envelope_alone() -> None:
    reports, faults = read(ALL_SENT, None, Report(INVALID), "sent")
    assert [report.verdict.code for report in reports] == [0, UNKNOWN, 1, UNKNOWN]
    assert faults == ["deliver() returned a NoneType among its reports", "deliver() returned a str among its reports"]


def test_something_that_says_it_equals_all_is_not_taken_for_sent() -> None:
    class Any_:  # noqa: N801
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return True

    assert not all_sent([Any_()], 1)
    assert read(Any_())[0][0].verdict.code == UNKNOWN


def test_reports_in_another_iterable_count() -> None:
    def generated() -> Iterator[Report]:
        yield ALL_SENT
        yield Report(INVALID)

    two = [envelope(0), envelope(1)]
    faults: list[str] = []
    assert read_reports(generated(), two, faults.append) == [ALL_SENT, Report(INVALID)]
    assert faults == ["deliver() returned a generator, not a list of reports"]
    assert read_reports((ALL_SENT, ALL_SENT), two, faults.append) == [ALL_SENT, ALL_SENT]
    assert read_reports(ALL_SENT, two[:1], faults.append) == [ALL_SENT]
    assert len(faults) == 2


def test_an_answer_that_breaks_off_or_never_ends_is_tried_again() -> None:
    def broken() -> Iterator[Report]:
        yield ALL_SENT
        raise ValueError("x" * 80_000)

    def endless() -> Iterator[Report]:
        while True:
            yield ALL_SENT

    for answer in (broken(), endless(), {ALL_SENT, Report(Verdict(2))}, {0: ALL_SENT, 1: ALL_SENT}, b"ab", None, 5):
        faults: list[str] = []
        reports = read_reports(answer, [envelope(0), envelope(1)], faults.append)
        assert [report.verdict.code for report in reports] == [UNKNOWN, UNKNOWN]
        assert len(faults) == 1
        assert len(faults[0]) < 2 * MAX_REASON_BYTES


def test_an_exception_is_told_in_a_text_that_can_be_stored() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert error_text(ValueError("no")) == "ValueError: no"
    assert error_text(Mute()) == "Mute: (it has no readable text)"
    assert error_text(ValueError("\udc80")) == "ValueError: \\udc80"
    assert len(error_text(ValueError("é" * 80_000)).encode()) <= MAX_REASON_BYTES


@given(answers(len(TARGETS)))
def test_any_answer_becomes_a_sound_report_for_each_envelope(answer: Any) -> None:
    reports = read_reports(answer, [envelope(n, TARGETS) for n in range(2)], lambda _: None)
    assert len(reports) == 2
    for report in reports:
        assert type(report) is Report
        for index, verdict in {-1: report.verdict, **(report.exceptions or {})}.items():
            assert type(index) is int
            assert index < len(TARGETS)
            assert verdict.code in {*map(int, Outcome), *OPEN_NAMES}
            assert type(verdict.code) is int
            assert len(verdict.reason.encode()) <= MAX_REASON_BYTES
            assert verdict.retry_after_s is None or verdict.retry_after_s >= 0
