"""A move needs its source and its target, and no other broker."""

from collections.abc import Iterator
from typing import Any

import pytest

from backends.pulsar.estate.bundles import BundleAdmin
from backends.settings import PulsarSettings
from backends.system_clock import SystemClock
from estate.balance import Move, MovePlan
from estate.moves import MoveWindow, WindowSettings
from fairlane.cli.base import exit_codes
from fairlane.cli.estate.moving import summary_of
from fairlane.estate.run_moves import Attempt, MoveRunner, move_bundle
from tests.unit.backends.estate_site import serving
from tests.unit.command_line import CommandLine

NOBODY = "127.0.0.1:1"
TARGET = "127.0.0.9:8080"
BUNDLE = "fairlane/tasks/0x00000000_0x80000000"
TOPIC = "persistent://fairlane/tasks/one"


def a_source(owners: Iterator[str]) -> dict[str, Any]:
    return {
        "lookup/v2/topic/persistent/fairlane/tasks/one": lambda _: {"httpUrl": f"http://{next(owners)}"},
        f"PUT namespaces/{BUNDLE}/unload?destinationBroker={TARGET.replace(':', '%3A')}": "",
    }


def try_to_move(configured: str, source: str, answered: list[str]) -> Attempt:
    settings = PulsarSettings(admin_url=f"http://{configured}")
    with BundleAdmin(settings) as admin:
        move = Move(BUNDLE, source, TARGET)
        return move_bundle(admin, {BUNDLE: [TOPIC]}, answered, move)


def test_a_move_succeeds_while_the_broker_at_the_configured_address_is_gone() -> None:
    with serving(a_source(iter(["source", TARGET]))) as source:
        assert try_to_move(NOBODY, source, [source]) == Attempt(TARGET)


def test_a_source_that_did_not_answer_is_not_asked() -> None:
    with serving(a_source(iter(["source", TARGET]))) as configured:
        assert try_to_move(configured, NOBODY, []) == Attempt(TARGET)


class InterruptedWindow(MoveWindow):
    """A window whose user presses Ctrl-C when the first move was chosen, and is not given to a thread yet."""

    interrupts = 1

    def next_move(self, now_ms: float) -> Move | None:
        move = super().next_move(now_ms)
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt
        return move


@pytest.mark.timeout(20)
def test_an_interrupt_between_choosing_a_move_and_beginning_it_does_not_hang_the_run() -> None:
    window = InterruptedWindow([Move("a", "source", TARGET)], lambda _: None, WindowSettings(first_pause_ms=1.0))
    with pytest.raises(KeyboardInterrupt):
        MoveRunner(window, lambda move: Attempt(move.target), SystemClock(), 1).run(lambda: False)
    assert [(one.state, one.tries) for one in window.progress] == [("verified", 2)]


def test_topics_that_were_given_up_did_not_begin_new_ledgers(cli: CommandLine) -> None:
    command = ["--pulsar-admin-url", f"http://{NOBODY}", "estate", "spread", "--at-once", "64"]
    printed = cli(command, exit_codes.FAILURE)
    assert "0 of 29 topics began new ledgers." in printed.err
    assert printed.out.count("given up") == 29


def test_the_summary_of_a_run_counts_the_moves_that_were_made() -> None:
    plan = MovePlan((), {"a": 2.0, "b": 0.0}, {"a": 1.0, "b": 1.0})
    rows = [{"state": "verified"}, {"state": "given up"}]
    assert summary_of(plan, rows, "").startswith("1 of 2 moves were made; the spread is 200% of the mean load, 0%")
    assert summary_of(plan, [{}, {}], "").startswith("2 moves; the spread is")
