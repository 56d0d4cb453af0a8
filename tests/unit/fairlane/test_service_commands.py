"""`fairlane channel`, `app` and `capacity` as they show what there is, with a client in memory."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from dispatcher.service_settings import Cap
from dispatcher.view import Globals, TaskView
from fairlane.cli import capacity, usage
from fairlane.cli.main import run

SETTINGS = Globals(0, {"high": 6_000, "medium": 3_000, "low": 1_000}, caps={"channel/push": Cap(500, 20)})


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
    sample = SimpleNamespace(capacity=SETTINGS.capacity, settings=SETTINGS, rate=7.0)
    monkeypatch.setattr(usage, "client_of", client_of)
    monkeypatch.setattr(capacity, "client_of", client_of)
    monkeypatch.setattr(capacity, "settled_sample", lambda client: sample)


def test_one_is_shown_as_it_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["channel", "list", "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert run(["channel", "show", "push", "-o", "json"]) == 0
    assert listed == [json.loads(capsys.readouterr().out)]
    assert (listed[0]["channel"], listed[0]["cap"], listed[0]["burst"]) == ("push", 500, 20)


@pytest.mark.parametrize("kind", ["channel", "app"])
def test_what_nothing_names_is_not_found(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([kind, "show", "nobody"]) == 3
    assert f"names {kind} nobody" in capsys.readouterr().err


def test_a_capacity_that_is_not_set_is_unlimited_in_the_table_and_0_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["capacity", "show"]) == 0
    assert "unlimited" in capsys.readouterr().out
    assert run(["capacity", "show", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"capacity": 0, "burst": 0, "rate": 7.0, "used": None}
