"""`fairlane channel`, `app`, `tier` and `capacity` as they show what there is, with a client in memory."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from dispatcher.model.errors import NotReady
from dispatcher.model.service_settings import Cap
from dispatcher.model.view import Globals, TaskView, WorkerBeat
from fairlane.cli.main import run
from fairlane.cli.service import capacity, signals, tier, usage
from fairlane.figures.signals import TierSignals
from fairlane.screen.sample import Sample, tier_figures

SETTINGS = Globals(0, {"high": 6, "medium": 3, "low": 1}, caps={"channel/push": Cap(500, 20)})


class Client:
    def globals(self) -> Globals:
        return SETTINGS

    def live_tasks(self) -> list[TaskView]:
        return []


@contextmanager
def client_of(ctx: Any) -> Iterator[Client]:
    yield Client()


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = tier_figures(SETTINGS, [], {"high": 7.0, "medium": 0.0, "low": 0.0})
    sample = Sample(0.0, SETTINGS, figures, [], [], [], {})
    monkeypatch.setattr(usage, "client_of", client_of)
    for command in (capacity, tier):
        monkeypatch.setattr(command, "client_of", client_of)
        monkeypatch.setattr(command, "settled_sample", lambda client: sample)


def test_one_is_shown_as_it_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["channel", "list", "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert run(["channel", "show", "push", "-o", "json"]) == 0
    assert listed == [json.loads(capsys.readouterr().out)]
    assert (listed[0]["channel"], listed[0]["cap"], listed[0]["cap_burst"]) == ("push", 500, 20)


@pytest.mark.parametrize("kind", ["channel", "app"])
def test_what_nothing_names_is_not_found(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([kind, "show", "nobody"]) == 3
    assert f"no {kind} nobody" in capsys.readouterr().err


def test_a_capacity_that_is_not_set_is_a_dash_in_the_table_and_0_as_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["capacity", "show"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown == [["capacity", "-"], ["capacity", "burst", "-"], ["targets/s", "7"], ["used", "-"]]
    assert run(["capacity", "show", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"capacity": 0, "capacity_burst": 0, "rate": 7.0, "used": None}


def test_a_tier_is_shown_with_the_names_of_its_signals(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tier", "show", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["sharing"] == "tasks"
    assert list(shown["tiers"]) == ["high", "medium", "low"]
    assert set(TierSignals._fields) - {"arrival_rate", "spare"} <= shown["tiers"]["high"].keys()
    assert (shown["tiers"]["high"]["weight"], shown["tiers"]["high"]["longest_wait_s"]) == (6.0, None)


class Restarted(Client):
    """A service whose counts only a worker restores. beats: the workers that Redis remembers."""

    def __init__(self, *beats: WorkerBeat) -> None:
        self.beats = beats

    def check_counts(self) -> None:
        raise NotReady("The view in Redis is being rebuilt.", "Try again.")

    def workers(self) -> list[WorkerBeat]:
        return list(self.beats)


def beat(state: str) -> WorkerBeat:
    return WorkerBeat("w", "h", 1, state, 0, 0, "0", 0, 0, 0, 0.0, {})


@pytest.mark.parametrize("beats", [(), (beat("stopped"), beat("lost"))])
def test_after_a_restart_without_workers_one_is_needed(
    beats: tuple[WorkerBeat, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signals, "client_of", lambda _: nullcontext(Restarted(*beats)))
    assert run(["signals", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["workers"], found["workers_needed"], found["limited_by"], found["tiers"]) == (0, 1, "workers", {})
    assert run(["signals"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["capacity", "targets/s", "workers", "workers", "needed", "limited", "by", "caps"],
        ["-", "0", "0", "1", "workers", "-"],
    ]


def test_while_a_worker_restores_the_counts_the_signals_are_not_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signals, "client_of", lambda _: nullcontext(Restarted(beat("starting"))))
    assert run(["signals"]) == 4
    assert "being rebuilt" in capsys.readouterr().err
