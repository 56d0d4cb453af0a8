"""GUARD on a real estate: a slow bookie is named, isolated and put back, by whichever guard is elected.

This file comes after those of the other tests of the estate: the estate grows here, and never shrinks.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from backends.redis.guard_states import GuardStates
from backends.redis.view import open_view
from benchmarks.estate.servers import EstateServers
from benchmarks.estate.steady_lanes import steady_lanes
from estate.facts.bundles import BundleAdmin
from estate.facts.provision import provision_estate
from estate.moves.facts import is_heartbeat
from estate.rules.node_life import Intent, NodeRecord, decode_nodes
from estate.view import EstateView, EstateViewer
from fairlane.cli.base import exit_codes
from fairlane.settings import Settings
from lab.stack.estate.shape import EstateShape
from tests.integration.worker_crew import environment

LANES = 12
MEASURED_S = 4.0
ENDS_S = 60.0
"""Asked are 30 s until a slow bookie is named and 60 s until it is isolated."""
FOLLOWED_S = 20.0
"""Asked are 4.5 s until another guard is elected, on a machine at rest."""


@pytest.fixture
def settings(estate: EstateServers, estate_settings: Settings) -> Settings:
    """An estate with a bookie to spare even while one is isolated."""
    estate.start_missing(EstateShape(bookies=4, brokers=len(estate.estate().shape.broker_names())))
    quick = estate_settings.estate.model_copy(update={"release_s": 3.0, "look_s": 1.0})
    return estate_settings.model_copy(update={"estate": quick})


@dataclass
class Guards:
    """Guard processes of one installation, and what they stored."""

    settings: Settings
    folder: Path
    states: GuardStates
    running: dict[str, subprocess.Popen[bytes]]

    def start(self) -> None:
        given = {
            **environment(self.settings),
            "FAIRLANE_HOME": str(self.folder),
            "FAIRLANE_ESTATE_BOOKIE_HTTP": str(self.settings.estate.bookie_http),
            "FAIRLANE_ESTATE_RELEASE_S": str(self.settings.estate.release_s),
            "FAIRLANE_ESTATE_LOOK_S": str(self.settings.estate.look_s),
        }
        with (self.folder / f"guard-{len(self.running)}.log").open("wb") as log:
            command = [sys.executable, "-m", "fairlane", "estate", "guard", "--act"]
            process = subprocess.Popen(command, env=given, stderr=log, stdout=log)
        self.running[str(process.pid)] = process

    def elected(self) -> str | None:
        """Return the process id of the elected guard, if it is one of these."""
        return next((pid for pid in self.running if f"-{pid}-" in (self.states.guard() or "")), None)

    def kill_elected(self) -> str:
        """Kill the elected guard; return its process id."""
        pid = self.elected()
        assert pid is not None
        self.running[pid].kill()
        return pid

    def logged(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("guard-*.log")))

    def node(self, key: str) -> NodeRecord | None:
        content = self.states.read()
        return None if content is None else decode_nodes(content).get(key)

    def wait_for_state(self, key: str, *states: str) -> float:
        """Wait until a node is in one of these states. Return the seconds that it took."""
        return until(
            lambda: getattr(self.node(key), "state", "") in states, f"{key} {states}: {self.node(key)}", ENDS_S
        )

    def wait_for_elected(self, within_s: float, but: str | None = None) -> float:
        return until(lambda: self.elected() not in (None, but), "an elected guard", within_s)


def until(condition: Callable[[], bool], what: str, within_s: float, every_s: float = 0.05) -> float:
    """Wait until a condition is true. Return the seconds that it took."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() < began_s + within_s, f"never came true: {what}"
        time.sleep(every_s)
    return time.monotonic() - began_s


@pytest.fixture
def guards(settings: Settings, tmp_path: Path) -> Iterator[Guards]:
    with ExitStack() as opened:
        view = opened.enter_context(closing(open_view(settings.redis)))
        here = Guards(settings, tmp_path, GuardStates(view), {})
        opened.callback(_end, here)
        yield here
    print(here.logged())


def _end(guards: Guards) -> None:
    for process in guards.running.values():
        process.terminate()
    for process in guards.running.values():
        assert process.wait(ENDS_S) in (exit_codes.OK, -9)


def test_a_slow_bookie_is_isolated_by_one_guard_and_put_back_by_the_next(
    settings: Settings, estate: EstateServers, guards: Guards
) -> None:
    name, key = estate.bookie_id("bookie-2"), f"bookie/{estate.bookie_id('bookie-2')}"
    guards.start()
    guards.wait_for_elected(ENDS_S)
    guards.start()
    with steady_lanes(settings.pulsar, LANES) as lanes:
        before_ms = lanes.p99_ms(MEASURED_S)
        began_s = time.monotonic()
        with estate.slowed("bookie-2"):
            guards.wait_for_state(key, "suspect", "isolated")
            named_s = time.monotonic() - began_s
            guards.wait_for_state(key, "isolated")
            isolated_s = time.monotonic() - began_s
            after_ms = lanes.p99_ms(MEASURED_S)
            assert node_row(settings, name)["guard"].startswith("isolated")
            first = guards.kill_elected()
            followed_s = guards.wait_for_elected(FOLLOWED_S, but=first)
            assert guards.node(key).state == "isolated"  # type: ignore[union-attr]  # it was there before
        guards.wait_for_state(key, "serving")
        row = node_row(settings, name)
        assert row["state"] in ("writable", "slow")  # the brokers' figures are of the last ten seconds
        assert row["guard"].startswith("on probation")
    print(f"p99 {before_ms:.0f} ms, {after_ms:.0f} ms after; named {named_s:.1f} s, isolated {isolated_s:.1f} s, "
          f"followed {followed_s:.1f} s")  # fmt: skip
    assert after_ms < settings.estate.slow_ms


def test_a_guard_killed_in_the_middle_of_an_action_is_followed_by_one_that_ends_it(
    settings: Settings, estate: EstateServers, guards: Guards
) -> None:
    key = f"bookie/{estate.bookie_id('bookie-3')}"
    guards.start()
    guards.wait_for_elected(ENDS_S)
    with steady_lanes(settings.pulsar, LANES), estate.slowed("bookie-3"):
        until(lambda: has_intent(guards.node(key)), "an action begun", ENDS_S, every_s=0.005)
        guards.kill_elected()
        until(lambda: guards.states.guard() is None, "the end of its lock", FOLLOWED_S)
        with EstateViewer(settings) as viewer:
            assert any("a guard that ended" in one or "no guard runs" in one for one in viewer.look().wrong)
        guards.start()
        guards.wait_for_state(key, "isolated")
    guards.wait_for_state(key, "serving")
    assert not has_intent(guards.node(key))


def test_a_slow_bookie_stays_in_use_if_too_few_would_be_left(
    settings: Settings, estate: EstateServers, guards: Guards
) -> None:
    key = f"bookie/{estate.bookie_id('bookie-1')}"
    provision_estate(settings.pulsar, settings.estate.model_copy(update={"ensemble": 3}))
    guards.start()
    guards.wait_for_elected(ENDS_S)
    with steady_lanes(settings.pulsar, LANES):
        with estate.slowed("bookie-1"):
            guards.wait_for_state(key, "suspect")
            until(lambda: "3 writable bookies would be left of at least 4" in guards.logged(), "the refusal", ENDS_S)
            assert node_row(settings, estate.bookie_id("bookie-1"))["state"] != "read-only"
        guards.wait_for_state(key, "serving")
    assert "to make read-only" not in guards.logged()


def test_a_slow_broker_is_drained_and_released(settings: Settings, estate: EstateServers, guards: Guards) -> None:
    """With two brokers, a slow one is more than a third of them."""
    estate.start_missing(EstateShape(bookies=4, brokers=3))
    broker = estate.broker_web("broker-3")
    key = f"broker/{broker}"
    guards.start()
    guards.wait_for_elected(ENDS_S)
    guards.wait_for_state(key, "serving")
    with steady_lanes(settings.pulsar, LANES) as lanes, BundleAdmin(settings.pulsar) as bundles:
        for bundle in (one for answer in bundles.read() for one in answer.owned):
            if bundle.startswith(f"{settings.pulsar.tenant}/"):
                bundles.move(bundle, broker)
        lanes.wait_for_all()
        with estate.slowed("broker-3", stopped_s=0.9, of_s=1.0):
            guards.wait_for_state(key, "isolated")
            assert all(map(is_heartbeat, bundles.owned(broker)))
            assert lanes.p99_ms(MEASURED_S) < settings.estate.slow_ms
        guards.wait_for_state(key, "serving")
        lanes.check_nothing_lost()


def has_intent(node: NodeRecord | None) -> bool:
    return node is not None and node.intent is not Intent.NONE


def node_row(settings: Settings, name: str) -> dict[str, str]:
    with EstateViewer(settings) as viewer:
        view: EstateView = viewer.look()
    return next(row for row in view.bookies if row["bookie"] == name)
