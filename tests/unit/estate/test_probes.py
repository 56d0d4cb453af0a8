"""Probes: one that hangs counts for as long as it is waited for, and costs the others nothing."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from backends.system_clock import SystemClock
from dispatcher.model.errors import FairlaneError, Refused, Unreachable
from estate.facts.node_probes import PROBE_LIMIT_S
from estate.guard.metrics import GuardCollector
from estate.guard.probes import NodeProbe, ProbeFigures, Probes
from estate.rules.node_looks import ProbeLook
from tests.unit.dispatch.consumers.fakes import eventually
from tests.unit.estate.guarded_world import GuardedWorld

EVERY_S = 0.01


class Scripted:
    """A probe that takes a time, fails, or hangs."""

    def __init__(self, answer: float | FairlaneError | threading.Event) -> None:
        self.answer = answer
        self.closed = False
        self.made = 0

    def once(self) -> float:
        self.made += 1
        if isinstance(self.answer, threading.Event):
            self.answer.wait(20)
            return 20.0
        if isinstance(self.answer, FairlaneError):
            raise self.answer
        return self.answer

    def close(self) -> None:
        self.closed = True


@contextmanager
def probing(figures: ProbeFigures, **by_key: Scripted) -> Iterator[Probes]:
    probes = Probes(figures, SystemClock())

    def make(probe: Scripted) -> Callable[[], NodeProbe]:
        return lambda: probe

    probes.follow_only({f"broker/{key}": (make(probe), EVERY_S) for key, probe in by_key.items()})
    try:
        yield probes
    finally:
        probes.close()


def test_one_that_hangs_counts_for_as_long_as_it_is_waited_for_and_the_others_go_on() -> None:
    figures, hung = ProbeFigures(), threading.Event()
    quick, slow = Scripted(0.004), Scripted(hung)
    with probing(figures, quick=quick, slow=slow) as probes:
        eventually(lambda: quick.made > 20)
        looks = probes.take()
        assert looks["broker/quick"] == ProbeLook(4.0)
        waited = looks["broker/slow"].p90_ms
        assert waited is not None
        assert waited > 20 * EVERY_S * 1000 / 2
        later = probes.take()["broker/slow"].p90_ms
        assert later is not None
        assert later > waited
        hung.set()
    eventually(lambda: quick.closed and slow.closed)


@pytest.mark.parametrize(
    ("error", "is_slow"),
    [(Unreachable("connection refused."), True), (Refused("the role lacks the right."), False)],
)
def test_one_that_cannot_be_reached_is_as_slow_as_the_longest_and_a_missing_right_says_nothing_about_the_node(
    error: FairlaneError, is_slow: bool
) -> None:
    figures = ProbeFigures()
    with probing(figures, one=Scripted(error)) as probes:
        eventually(lambda: figures.failures.get("one", 0) > 1)
        look = probes.take()["broker/one"]
    assert look.failure == error.cause
    assert ((look.p90_ms or 0.0) >= PROBE_LIMIT_S * 1000) == is_slow


def test_nodes_that_are_not_followed_any_more_are_not_probed() -> None:
    figures, probe = ProbeFigures(), Scripted(0.001)
    with probing(figures, one=probe) as probes:
        eventually(lambda: probe.made > 0)
        probes.follow_only({})
        eventually(lambda: probe.closed)
        assert probes.take() == {}


def test_metrics_have_states_probes_and_commands() -> None:
    world, figures = GuardedWorld(), ProbeFigures()
    member = world.member("g1")
    registry = CollectorRegistry()
    registry.register(GuardCollector(member.guard, figures))
    assert "fairlane_estate_guard 0.0" in generate_latest(registry).decode()
    world.estate.bookie_ms["b2:1"] = 400.0
    world.go_on(6)
    figures.took("broker/k1:1", 0.004)
    figures.failed("broker/k1:1")
    figures.took("bookie/b2:1", 0.004)
    text = generate_latest(registry).decode()
    assert "fairlane_estate_guard 1.0" in text
    assert "fairlane_estate_largest_ensemble_bookies 2.0" in text
    assert "fairlane_estate_under_replicated_ledgers" not in text, "no bookie said how many there are"
    assert 'fairlane_estate_node_state{kind="bookie",node="b2:1",state="isolated"} 1.0' in text
    assert 'fairlane_estate_probe_seconds_bucket{broker="k1:1",le="0.005"} 1.0' in text
    assert 'fairlane_estate_probe_failures_total{broker="k1:1"} 1.0' in text
    assert 'fairlane_estate_commands_total{command="isolate",kind="bookie",result="done"} 1.0' in text
    assert 'broker="b2:1"' not in text


def test_the_end_gives_a_probe_that_is_under_way_its_time() -> None:
    """The process ends after it, and the Pulsar client aborts a process that ends during one of its calls."""
    hung = threading.Event()
    slow = Scripted(hung)
    with probing(ProbeFigures(), slow=slow):
        eventually(lambda: slow.made == 1, 10)
        threading.Timer(0.2, hung.set).start()
    assert hung.is_set()
    assert slow.closed
