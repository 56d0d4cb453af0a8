"""Captures by themselves: one in ten minutes, whatever a clock does, and a failure stops nobody."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from estate.capture.incidents import Incident
from fairlane.estate.capture import automatic
from fairlane.estate.capture.archive import CaptureFailed
from fairlane.estate.capture.automatic import AutomaticCaptures
from fairlane.settings import Settings
from tests.virtual_clock import VirtualClock

JOIN_S = 20.0
Make = Callable[..., AutomaticCaptures]


class Taker:
    """Takes the place of CaptureTaker and writes an empty file."""

    taken: list[Incident]
    fails: Exception | None

    def __init__(self, *_: object) -> None: ...

    def take(self, incident: Incident, folder: Path) -> Path:
        Taker.taken.append(incident)
        if Taker.fails is not None:
            raise Taker.fails
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"capture-{len(Taker.taken)}.tar.gz"
        path.touch()
        return path


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Make:
    Taker.taken, Taker.fails = [], None
    monkeypatch.setattr(automatic, "CaptureTaker", Taker)
    settings = Settings(home=tmp_path, redis={"url": "redis://r:1"}, pulsar={"url": "pulsar://p:1"})

    def make(clock: VirtualClock | None = None) -> AutomaticCaptures:
        return AutomaticCaptures(settings, clock or VirtualClock())

    return make


def captured(captures: AutomaticCaptures, *reasons: str) -> int:
    """Report incidents; return how many captures there are afterwards."""
    for reason in reasons:
        captures.report(Incident(reason))
        captures.join(JOIN_S)
    return len(Taker.taken)


def test_one_capture_is_taken_in_ten_minutes(captures: Make) -> None:
    clock = VirtualClock()
    one = captures(clock)
    assert captured(one, "a", "b", "c") == 1
    clock.advance(599.0)
    assert captured(one, "d") == 1
    clock.advance(2.0)
    assert captured(one, "e") == 2
    assert [incident.reason for incident in Taker.taken] == ["a", "e"]


class JumpingClock(VirtualClock):
    """A wall clock that is set at will."""

    set_ms = 0

    def wall_ms(self) -> int:
        return self.set_ms


def test_a_wall_clock_that_jumps_neither_makes_nor_prevents_a_capture(captures: Make) -> None:
    clock = JumpingClock()
    one = captures(clock)
    for set_ms in (10**12, 0, 10**13, 5):
        clock.set_ms = set_ms
        captured(one, "a")
    assert len(Taker.taken) == 1
    clock.advance(601.0)
    assert captured(one, "b") == 2


@pytest.mark.parametrize("error", [CaptureFailed("The disk is full."), RuntimeError("a defect")])
def test_a_capture_that_fails_is_logged_and_tried_again_after_a_minute(
    captures: Make, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    one = captures(clock)
    Taker.fails = error
    assert captured(one, "a", "b") == 1
    assert str(error) in caplog.text
    assert caplog.records[-1].levelno == logging.ERROR
    Taker.fails = None
    clock.advance(61.0)
    assert captured(one, "c") == 2


def test_what_the_watch_reports_reaches_the_capture_and_its_archive_is_in_the_home(
    captures: Make, tmp_path: Path
) -> None:
    incident = Incident("r", node="n", task="t", topics=("x",))
    one = captures()
    one.report(incident)
    one.join(JOIN_S)
    assert Taker.taken == [incident]
    assert [path.name for path in (tmp_path / "captures").iterdir()] == ["capture-1.tar.gz"]
