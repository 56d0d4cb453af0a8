"""`fairlane channel`, `app`, `tier` and `capacity` as they show what there is, with a client in memory."""

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from dispatcher.model.errors import NotReady
from dispatcher.model.pools import Cap
from dispatcher.model.view import Globals, TierStats, WorkerBeat
from fairlane.cli.handlers import service, settings
from fairlane.figures.signals import TierSignals
from tests.records import beat
from tests.unit.command_line import CommandLine

SETTINGS = Globals(capacity=0, tier_weights={"high": 6, "medium": 3, "low": 1}, caps={"channel/push": Cap(500, 20)})


ANSWERS: dict[str, Any] = {
    "globals": lambda: SETTINGS,
    "workers": lambda: [beat(tiers={"high": TierStats(rate=7.0)})],
    "live_tasks": list,
    "cap_states": dict,
}
"""Methods of a client."""


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for handlers in (service, settings):
        monkeypatch.setattr(handlers, "client_of", lambda _: nullcontext(SimpleNamespace(**ANSWERS)))


def test_one_is_shown_as_it_is_listed(cli: CommandLine) -> None:
    listed = json.loads(cli(["channel", "list", "-o", "json"]).out)
    assert listed == [json.loads(cli(["channel", "show", "push", "-o", "json"]).out)]
    assert (listed[0]["channel"], listed[0]["cap"], listed[0]["cap_burst"]) == ("push", 500, 20)


@pytest.mark.parametrize("kind", ["channel", "app"])
def test_what_nothing_names_is_not_found(kind: str, cli: CommandLine) -> None:
    assert f"no {kind} nobody" in cli([kind, "show", "nobody"], 3).err


def test_a_capacity_that_is_not_set_is_a_dash_in_the_table_and_0_as_json(cli: CommandLine) -> None:
    shown = [line.split() for line in cli(["capacity", "show"]).out.splitlines()]
    assert shown == [["capacity", "-"], ["capacity", "burst", "-"], ["targets/s", "7"], ["used", "-"]]
    assert json.loads(cli(["capacity", "show", "-o", "json"]).out) == {
        "capacity": 0,
        "capacity_burst": 0,
        "rate": 7.0,
        "used": None,
    }


def test_a_tier_is_shown_with_the_names_of_its_signals(cli: CommandLine) -> None:
    shown = json.loads(cli(["tier", "show", "-o", "json"]).out)
    assert shown["sharing"] == "tasks"
    assert list(shown["tiers"]) == ["high", "medium", "low"]
    assert set(TierSignals._fields) - {"arrival_rate", "spare"} <= shown["tiers"]["high"].keys()
    assert (shown["tiers"]["high"]["weight"], shown["tiers"]["high"]["longest_wait_s"]) == (6.0, None)


def restarted(*beats: WorkerBeat) -> SimpleNamespace:
    """A service whose counts only a worker restores. beats: the workers that Redis remembers."""
    check = Mock(side_effect=NotReady("The view in Redis is being rebuilt.", "Try again."))
    return SimpleNamespace(**ANSWERS | {"check_counts": check, "workers": lambda: list(beats)})


@pytest.mark.parametrize("beats", [(), (beat(state="stopped"), beat(state="lost"))])
def test_after_a_restart_without_workers_one_is_needed(
    beats: tuple[WorkerBeat, ...], monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.setattr(service, "client_of", lambda _: nullcontext(restarted(*beats)))
    found = json.loads(cli(["signals", "-o", "json"]).out)
    assert (found["workers"], found["workers_needed"], found["limited_by"], found["tiers"]) == (0, 1, "workers", {})
    lines = [line.split() for line in cli(["signals"]).out.splitlines()]
    assert lines == [
        ["capacity", "targets/s", "workers", "workers", "needed", "limited", "by", "caps"],
        ["-", "0", "0", "1", "workers", "-"],
    ]


def test_while_a_worker_restores_the_counts_the_signals_are_not_known(
    monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.setattr(service, "client_of", lambda _: nullcontext(restarted(beat(state="starting"))))
    assert "being rebuilt" in cli(["signals"], 4).err
