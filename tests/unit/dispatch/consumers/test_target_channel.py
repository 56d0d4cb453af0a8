"""A channel that reports target by target: nothing that the provider said is lost, however a call ends."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from dispatcher.channels.calls import ProviderCall, TargetResults
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, MAX_REASON_BYTES, SENT, UNKNOWN, UNSENT, Outcome, Report, Verdict
from tests.unit.dispatch.consumers.envelopes import batch, envelope
from tests.unit.dispatch.consumers.fakes import eventually
from tests.unit.dispatch.consumers.office import office

INVALID = Verdict(int(Outcome.INVALID), "gone")


class ByTarget:
    """Sends one target after the other; `stop_at`: does `end` instead of judging this target."""

    name, timeout_s, concurrency, batch_limit = "x", 0.2, 1, 2

    def __init__(self, stop_at: int, end: Callable[[TargetResults, int], None] | None) -> None:
        self.stop_at = stop_at
        self.end = end

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def deliver_targets(self, call: ProviderCall) -> None:
        count = 0
        for results in call.envelopes:
            for index in range(len(results.envelope.targets)):
                if count == self.stop_at:
                    results.start(index)
                    if self.end is not None:
                        self.end(results, index)
                        return
                    await asyncio.sleep(60)
                results.start(index)
                results.report(index, SENT)
                count += 1


def raises(_results: TargetResults, _index: int) -> None:
    raise ValueError("broken")


def codes(report: Report | None, one: Envelope) -> list[int] | None:
    if report is None:
        return None
    exceptions = report.exceptions or {}
    return [exceptions.get(index, report.verdict).code for index in range(len(one.targets))]


@pytest.mark.parametrize("end", [None, raises, lambda _results, _index: None], ids=["hangs", "raises", "returns"])
def test_what_was_sent_stays_sent_and_the_rest_is_told_apart(
    end: Callable[[TargetResults, int], None] | None,
) -> None:
    envelopes = [envelope(0, "abc"), envelope(1, "def")]
    with office(ByTarget(stop_at=1, end=end)) as at:
        at.send(batch(envelopes))
        reports = at.reported()[1]
    assert codes(reports[0], envelopes[0]) == [0, UNKNOWN, UNSENT]
    assert reports[1] is None  # nothing of it was started: it is given back, at no cost
    assert at.reports.empty()


def test_a_call_that_fails_before_it_sends_anything_waits_and_says_why() -> None:
    """Given back at no cost, it would be made again at once, for ever, and nobody would see it."""

    class Broken(ByTarget):
        async def deliver_targets(self, call: ProviderCall) -> None:
            raise KeyError("app")

    with office(Broken(stop_at=0, end=None)) as at:
        at.send(batch([envelope(0, "abc"), envelope(1, "def")]))
        reports = at.reported()[1]
    assert [(report.verdict.code, report.exceptions) for report in reports if report] == [(UNSENT, None)] * 2
    assert all(report and "KeyError: 'app'" in report.verdict.reason for report in reports)


def test_a_call_that_sends_everything_is_the_report_that_costs_least() -> None:
    with office(ByTarget(stop_at=-1, end=None)) as at:
        at.send(batch([envelope(0, "abc"), envelope(1, "def")]))
        reports = at.reported()[1]
        eventually(lambda: at.courier.in_flight("x") == (0, 0, 0))
    assert all(report is ALL_SENT for report in reports)


def test_no_target_is_started_once_the_call_is_over() -> None:
    """It was given back: another worker may be sending it."""
    results = TargetResults(envelope(0, "ab"))
    assert results.start(0)
    results.report(0, SENT)
    assert results.close("no answer") == Report(SENT, {1: Verdict(UNSENT, "no answer")})
    assert not results.start(1)


def test_the_first_verdict_on_a_target_counts() -> None:
    results = TargetResults(envelope(0, "ab"))
    results.report(0, INVALID)
    results.report(0, SENT)
    results.report(1, SENT)
    assert results.close("") == Report(SENT, {0: INVALID})


@pytest.mark.parametrize(
    ("index", "verdict"),
    [(0, None), (0, "sent"), (0, Verdict(5)), (-1, SENT), (2, SENT)],
)
def test_a_report_that_makes_no_sense_fails_in_the_channel(index: int, verdict: Any) -> None:
    results = TargetResults(envelope(0, "ab"))
    with pytest.raises((ValueError, IndexError)):
        results.report(index, verdict)
    assert results.close("") is None


def test_a_long_reason_in_any_language_is_cut() -> None:
    results = TargetResults(envelope(0, "a"))
    results.report(0, Verdict(int(Outcome.INVALID), "不" * 5_000))
    report = results.close("")
    assert report is not None
    assert report.verdict.reason.startswith("不")
    assert len(report.verdict.reason.encode()) <= MAX_REASON_BYTES


def test_a_started_target_that_the_provider_cannot_have_taken_is_unsent() -> None:
    results = TargetResults(envelope(0, "ab"))
    results.start(0)
    results.not_taken(0)
    assert results.close("") is None
    results.report(1, INVALID)
    assert results.close("why") == Report(Verdict(UNSENT, "why"), {1: INVALID})


class Gated(ByTarget):
    """Sends everything, but the targets of one app only once the gate is open."""

    timeout_s, concurrency, batch_limit = 60.0, 2, 1

    def __init__(self) -> None:
        self.gate = threading.Event()

    async def deliver_targets(self, call: ProviderCall) -> None:
        for results in call.envelopes:
            while results.envelope.app == "slow" and not self.gate.is_set():  # noqa: ASYNC110  # opened by the test
                await asyncio.sleep(0.002)
            results.report(0, SENT)


def test_an_app_whose_provider_hangs_holds_up_no_other_app() -> None:
    channel = Gated()
    with office(channel, let_go=channel.gate.set) as at:
        for number in range(10):
            slow = batch([envelope(number, app="slow")])
            slow.flow = at.courier.flow("x", "slow")
            at.send(slow)
        eventually(lambda: at.courier.in_flight("x") == (2, 8, 10))
        other = batch([envelope(0, app="shop")])
        other.flow = at.courier.flow("x", "shop")
        at.send(other)
        assert at.reported() == (other, [ALL_SENT])
        channel.gate.set()
        assert [at.reported()[1] for _ in range(10)] == [[ALL_SENT]] * 10
