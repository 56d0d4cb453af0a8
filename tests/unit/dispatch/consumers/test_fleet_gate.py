"""The gate of a worker: what it has met counts at once, what the fleet knows counts as soon as it is known."""

import math
import queue
from collections.abc import Callable

import pytest

from consumers.delivery.fleet_gate import ENDS_AGAIN_S, LIMITED_S, FleetGate, Renewed
from dispatcher.channels.guards.storm_guard import MIN_DEAD_ALONE
from dispatcher.channels.guards.trouble import RECHECKED_AFTER_S, Trouble
from dispatcher.channels.verdict_table import Effect, Row
from dispatcher.model.flow_pause import FlowPause, PauseKind, confirmed, ended
from tests.virtual_clock import VirtualClock

FLOW = "fcm/shop"
NOW_MS = 1_700_000_000_000
SENT_ROW = Row(status=200, effect=Effect.SENT)
DEAD_ROW = Row(status=404, effect=Effect.DEAD)
DOWN_ROW = Row(status=503, effect=Effect.DOWN)
LATER_ROW = Row(status=500, effect=Effect.LATER)


class InterruptedClock(VirtualClock):
    """Lets something happen while another thread asks for the time."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Callable[[], None]] = []

    def monotonic_s(self) -> float:
        while self.meanwhile:
            self.meanwhile.pop()()
        return super().monotonic_s()


class Gate:
    """A gate, its clock, and Redis' time, which goes with the clock."""

    def __init__(self) -> None:
        self.clock = InterruptedClock()
        self.gate = FleetGate(self.clock)
        self.began_s = self.clock.monotonic_s()

    @property
    def now_ms(self) -> int:
        return NOW_MS + round((self.clock.monotonic_s() - self.began_s) * 1000)

    def report(self, kind: PauseKind = PauseKind.DOWN, for_s: float = 30.0, credential: str = "") -> None:
        self.gate.report(
            Trouble(channel="fcm", app="shop", kind=kind, for_s=for_s, reason="because", credential=credential)
        )

    def update(self, entry: FlowPause | None) -> None:
        self.gate.update({} if entry is None else {FLOW: entry}, self.now_ms)

    def pause(self, kind: PauseKind = PauseKind.DOWN, for_ms: int = 0, credential: str = "") -> None:
        until_ms = self.now_ms + for_ms if for_ms else 0
        self.update(FlowPause(kind=kind, since_ms=self.now_ms, until_ms=until_ms, reason="x", credential=credential))

    def is_closed(self) -> bool:
        assert self.gate.closed("fcm/other") is None
        assert self.gate.any_closed() or self.gate.closed(FLOW) is None
        return self.gate.closed(FLOW) is not None

    def passed_on(self) -> list[Trouble | Renewed]:
        met = []
        while True:
            try:
                met.append(self.gate.outbox.get(block=False))
            except queue.Empty:
                return met


@pytest.fixture
def at() -> Gate:
    return Gate()


def test_the_watcher_may_forget_a_pause_while_the_event_loop_looks_at_it(at: Gate) -> None:
    at.report(for_s=1.0)
    at.clock.advance(2.0)
    at.clock.meanwhile.append(lambda: at.update(ended(at.now_ms, "over")))
    assert at.gate.closed(FLOW) is None
    at.report(PauseKind.CREDENTIALS, 60.0, credential="1")
    assert at.is_closed()


def test_a_shorter_trouble_does_not_end_a_longer_one(at: Gate) -> None:
    at.report(PauseKind.CREDENTIALS, 60.0)
    at.report(PauseKind.DOWN, 1.0)
    at.clock.advance(30.0)
    assert at.is_closed()


def test_a_report_closes_the_flow_here_at_once_and_is_passed_on_once(at: Gate) -> None:
    for _ in range(3):
        at.report(for_s=30.0)
    assert [type(one) for one in at.passed_on()] == [Trouble]
    at.clock.advance(29.0)
    closed = at.gate.closed(FLOW)
    assert closed is not None
    assert (closed.for_s, closed.kind, closed.reason) == (1.0, PauseKind.DOWN, "because")
    at.clock.advance(1.0)
    assert not at.is_closed()
    at.report()
    assert len(at.passed_on()) == 1, "it is met again"


def test_a_pause_that_others_made_closes_the_flow_until_its_end(at: Gate) -> None:
    at.pause(for_ms=5_000)
    at.clock.advance(4.9)
    assert at.is_closed()
    at.clock.advance(0.1)
    assert not at.is_closed(), "its end is known; no reading of the view is needed"


def test_a_pause_without_an_end_lasts_until_the_view_says_otherwise(at: Gate) -> None:
    at.pause(PauseKind.HAND)
    at.clock.advance(10_000.0)
    closed = at.gate.closed(FLOW)
    assert closed is not None
    assert closed.for_s == RECHECKED_AFTER_S
    at.update(ended(at.now_ms, "by hand"))
    assert not at.is_closed()


def test_the_end_of_a_pause_opens_what_was_closed_here_before_it(at: Gate) -> None:
    at.report(for_s=3_600.0)
    at.clock.advance(1.0)
    at.update(ended(at.now_ms, "by hand"))
    assert not at.is_closed()


def test_an_older_end_does_not_open_what_was_met_after_it(at: Gate) -> None:
    entry = ended(at.now_ms, "by hand")
    at.clock.advance(1.0)
    at.report(for_s=3_600.0)
    at.update(entry)
    assert at.is_closed()


def test_a_pause_seen_in_the_view_replaces_what_was_met_here(at: Gate) -> None:
    at.report(for_s=3_600.0)
    at.clock.advance(0.1)
    at.pause(for_ms=2_000)
    at.clock.advance(2.0)
    assert not at.is_closed()


def test_new_credentials_end_a_pause_that_the_old_ones_are_blamed_for(at: Gate) -> None:
    at.gate.renewed(FLOW, "v1")
    at.pause(PauseKind.CREDENTIALS, credential="v1")
    assert at.passed_on() == []
    at.gate.renewed(FLOW, "v2")
    assert at.passed_on() == [Renewed(FLOW, "v2")]
    assert at.is_closed(), "until the end is in the view"


def test_a_worker_that_starts_with_new_credentials_ends_the_pause_too(at: Gate) -> None:
    at.gate.renewed(FLOW, "v2")
    at.pause(PauseKind.CREDENTIALS, credential="v1")
    assert at.passed_on() == [Renewed(FLOW, "v2")]
    at.pause(PauseKind.CREDENTIALS, credential="v1")
    assert at.passed_on() == [], "some worker has the old ones: no race of pauses and ends"
    at.clock.advance(ENDS_AGAIN_S)
    at.pause(PauseKind.CREDENTIALS, credential="v1")
    assert at.passed_on() == [Renewed(FLOW, "v2")]


@pytest.mark.parametrize("kind", [PauseKind.DOWN, PauseKind.LIMIT, PauseKind.HAND])
def test_new_credentials_end_no_other_pause(at: Gate, kind: PauseKind) -> None:
    at.gate.renewed(FLOW, "v1")
    at.pause(kind, credential="v1")
    at.gate.renewed(FLOW, "v2")
    assert at.passed_on() == []
    assert at.is_closed()


def test_new_credentials_open_at_once_what_was_closed_here_only(at: Gate) -> None:
    at.gate.renewed(FLOW, "v1")
    at.report(PauseKind.CREDENTIALS, math.inf, "v1")
    assert at.is_closed()
    at.gate.renewed(FLOW, "v2")
    assert not at.is_closed()


def test_a_worker_with_the_old_credentials_stays_closed_when_another_has_new_ones(at: Gate) -> None:
    at.gate.renewed(FLOW, "v1")
    at.report(PauseKind.CREDENTIALS, 60.0, "v1")
    at.clock.advance(1.0)
    at.update(FlowPause(kind=PauseKind.ENDED, since_ms=at.now_ms, reason="it has new credentials", credential="v2"))
    assert at.is_closed()
    at.gate.renewed(FLOW, "v2")
    assert not at.is_closed()


def test_a_provider_that_is_down_is_probed_and_paused_for_longer_each_time(at: Gate) -> None:
    pauses: list[float] = []
    for _ in range(5):
        assert at.gate.probing(FLOW) is bool(pauses)
        at.report(for_s=30.0)
        closed = at.gate.closed(FLOW)
        assert closed is not None
        assert not at.gate.probing(FLOW), "nothing is sent during the pause"
        pauses.append(closed.for_s)
        at.clock.advance(closed.for_s)
    assert pauses == [30.0, 60.0, 120.0, 240.0, 300.0]
    assert [one.for_s for one in at.passed_on() if isinstance(one, Trouble)] == pauses
    assert at.gate.probing(FLOW)
    at.gate.answered(FLOW, DOWN_ROW)
    assert at.gate.probing(FLOW)
    at.gate.answered(FLOW, LATER_ROW)
    assert not at.gate.probing(FLOW)
    at.report(for_s=30.0)
    assert at.gate.closed(FLOW) == at.passed_on()[0]


def test_what_the_provider_asks_for_is_kept_if_it_is_longer(at: Gate) -> None:
    at.report(for_s=900.0)
    at.clock.advance(900.0)
    at.report(for_s=1_000.0)
    closed = at.gate.closed(FLOW)
    assert closed is not None
    assert closed.for_s == 1_000.0


def test_after_a_pause_that_another_worker_made_the_provider_is_probed_too(at: Gate) -> None:
    at.pause(PauseKind.DOWN, for_ms=5_000)
    at.clock.advance(5.0)
    at.update(None)
    assert at.gate.probing(FLOW)
    assert not at.gate.probing("fcm/other")


@pytest.mark.parametrize("kind", [PauseKind.LIMIT, PauseKind.CREDENTIALS])
def test_after_other_pauses_nothing_is_probed(at: Gate, kind: PauseKind) -> None:
    at.report(kind, for_s=5.0)
    at.clock.advance(5.0)
    assert not at.gate.probing(FLOW)


def test_a_flow_that_is_too_fast_stops_here_for_a_moment_until_the_fleet_has_slowed_it(at: Gate) -> None:
    at.report(PauseKind.LIMIT, for_s=60.0)
    (met,) = at.passed_on()
    assert isinstance(met, Trouble)
    assert met.for_s == 60.0
    at.clock.advance(LIMITED_S)
    assert not at.is_closed()


# ------------------------------------------------------------- the storm guard
def storm(at: Gate) -> list[bool]:
    return [at.gate.answered(FLOW, DEAD_ROW) for _ in range(MIN_DEAD_ALONE + 5)]


def test_too_many_dead_targets_close_the_flow_and_are_no_longer_believed(at: Gate) -> None:
    assert storm(at) == [True] * (MIN_DEAD_ALONE - 1) + [False] * 6
    (trouble,) = at.passed_on()
    assert isinstance(trouble, Trouble)
    assert (trouble.kind, trouble.for_s) == (PauseKind.SUSPECT, math.inf)
    assert trouble.reason.startswith("suspected wrong environment")
    assert at.is_closed()


def test_other_workers_do_not_believe_dead_targets_of_a_suspected_flow(at: Gate) -> None:
    at.pause(PauseKind.SUSPECT)
    assert not at.gate.answered(FLOW, DEAD_ROW)
    assert at.gate.answered(FLOW, SENT_ROW)
    assert at.gate.answered(FLOW, LATER_ROW)
    assert at.gate.answered("fcm/other", DEAD_ROW)


def test_an_operator_who_confirms_is_believed(at: Gate) -> None:
    storm(at)
    at.clock.advance(1.0)
    at.update(confirmed(at.now_ms, "by hand"))
    at.passed_on()
    assert storm(at) == [True] * (MIN_DEAD_ALONE + 5)
    assert at.passed_on() == []
    assert not at.is_closed()


@pytest.mark.parametrize("kind", [PauseKind.CONFIRMED, PauseKind.CREDENTIALS])
def test_a_suspicion_that_the_fleet_does_not_share_has_an_end(at: Gate, kind: PauseKind) -> None:
    """A graver pause, or an operator's word, came just before: the suspicion is not stored."""
    entry = FlowPause(kind=kind, since_ms=at.now_ms, until_ms=at.now_ms + 60_000, reason="x")
    at.clock.advance(0.5)
    storm(at)
    for _ in range(120):
        at.clock.advance(1.0)
        at.update(entry)
    assert not at.is_closed()


def test_a_flow_that_was_resumed_without_a_word_is_suspected_again(at: Gate) -> None:
    storm(at)
    at.clock.advance(1.0)
    at.update(ended(at.now_ms, "by hand"))
    at.passed_on()
    assert storm(at).count(False) == 6
    assert len(at.passed_on()) == 1


def test_new_credentials_begin_a_new_count(at: Gate) -> None:
    at.gate.renewed(FLOW, "v1")
    for _ in range(MIN_DEAD_ALONE - 1):
        assert at.gate.answered(FLOW, DEAD_ROW)
    at.gate.renewed(FLOW, "v2")
    assert at.gate.answered(FLOW, DEAD_ROW)
    assert not at.is_closed()
