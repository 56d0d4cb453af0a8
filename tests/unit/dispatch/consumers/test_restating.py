"""Records that the control topic may soon delete are written again once a day, all of them, from a complete view."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from msgspec import Raw

from backends.redis.epochs import Epoch
from backends.redis.view_records import ViewRecords
from consumers.upkeep.rebuild import Restater, RestateSettings
from dispatcher.model.errors import Unreachable
from dispatcher.wire.control import FORMAT, ControlRecord, GlobalChange, Restated, encode_control
from tests.unit.dispatch.consumers.fakes import ControlTopic, control_records, epoch_of
from tests.virtual_clock import VirtualClock

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
SETTINGS = RestateSettings(every_ms=DAY_MS, early_ms=HOUR_MS, at_once=2)


def restated(name: str) -> Restated:
    return Restated(FORMAT, "p", Raw(encode_control(GlobalChange(FORMAT, name, "1", 0))))


@dataclass(kw_only=True)
class View(ViewRecords):
    """asked: for which tasks. flush: the view is another one once tasks are read. full: nothing can be written."""

    epoch: Epoch | None = field(default_factory=lambda: epoch_of("e", 0, ready=True))
    full: bool = False
    live: list[str] = field(default_factory=lambda: ["a", "b", "c"])
    last: int = 0
    asked: list[tuple[int, int, int]] = field(default_factory=list)
    flush: bool = False

    def settings(self) -> list[Restated]:
        return [restated("capacity")]

    def tasks(self, accepted_before_ms: int, ended_since_ms: int, lived_ms: int) -> list[str]:
        self.asked.append((accepted_before_ms, ended_since_ms, lived_ms))
        return self.live

    def of_tasks(self, tasks: Sequence[str]) -> list[Restated]:
        if self.flush:
            self.epoch = epoch_of("another", 0)
        return [restated(task) for task in tasks]

    def last_ms(self) -> int:
        return self.last

    def restated(self, at_ms: int) -> None:
        if self.full:
            raise Unreachable("Redis is out of memory.")
        self.last = at_ms


class Restating:
    def __init__(self) -> None:
        self.view, self.control, self.clock = View(), ControlTopic(), VirtualClock()
        self.announced = 0
        self.restater = Restater(self.view, self.control, lambda: self.view.epoch, self.announce, self.clock, SETTINGS)

    def announce(self) -> None:
        self.announced += 1

    def stored(self) -> list[ControlRecord]:
        return control_records(self.control)


@pytest.fixture
def restating() -> Restating:
    return Restating()


def test_settings_and_tasks_are_restated_once_a_day(restating: Restating) -> None:
    for _ in range(3):
        restating.restater.round()
        restating.clock.advance(40_000)
    everything = [restated(name) for name in ("capacity", "a", "b", "c")]
    assert restating.stored() == everything
    restating.clock.advance(40_000)
    restating.restater.round()
    assert restating.stored() == everything * 2
    assert restating.announced == 2


def test_what_ended_since_the_last_time_is_asked_for(restating: Restating) -> None:
    first_ms = restating.clock.wall_ms()
    restating.restater.round()
    restating.clock.advance(100_000)
    restating.restater.round()
    second_ms = restating.clock.wall_ms()
    assert restating.view.asked == [
        (first_ms - DAY_MS, -HOUR_MS, DAY_MS - HOUR_MS),
        (second_ms - DAY_MS, first_ms - HOUR_MS, DAY_MS - HOUR_MS),
    ]


def test_a_last_time_that_is_dated_in_the_future_is_none(restating: Restating) -> None:
    restating.view.last = restating.clock.wall_ms() + 30 * DAY_MS
    restating.restater.round()
    assert restating.view.last == restating.clock.wall_ms()
    assert len(restating.stored()) == 4


@pytest.mark.parametrize("epoch", [None, epoch_of("e", 0)])
def test_a_view_that_is_being_made_restates_nothing(restating: Restating, epoch: Epoch | None) -> None:
    restating.view.epoch = epoch
    restating.restater.round()
    assert (restating.stored(), restating.view.last, restating.announced) == ([], 0, 0)


def test_when_it_broke_off_it_is_done_again(restating: Restating) -> None:
    restating.control.broken = True
    with pytest.raises(Unreachable):
        restating.restater.round()
    restating.control.broken = False
    restating.restater.round()
    assert len(restating.stored()) == 4


def test_a_full_redis_which_could_not_remember_it_restates_nothing(restating: Restating) -> None:
    restating.view.full = True
    with pytest.raises(Unreachable):
        restating.restater.round()
    assert restating.stored() == []


def test_a_view_emptied_in_the_middle_counts_for_nothing(restating: Restating) -> None:
    restating.view.flush = True
    restating.restater.round()
    assert restating.view.last == 0
