"""Fixtures of many unit tests: a world of the engine, and the command line."""

import pytest

from tests.unit.command_line import CommandLine
from tests.unit.engine_world import EngineWorld


@pytest.fixture
def world() -> EngineWorld:
    """No tasks, no workers, and a provider that sends everything."""
    return EngineWorld()


@pytest.fixture(autouse=True)
def no_pause_between_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first look at an estate ask twice without waiting in between."""
    monkeypatch.setattr("estate.facts.reader.FIRST_SPAN_S", 0.0)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)
