"""Snapshots are made in time, are whole or nothing, and the newest that can be used is restored."""

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from backends.redis.epochs import Epoch
from consumers.upkeep.snapshots import Restorer, SnapshotSettings, Snapshotter
from dispatcher.model.errors import FairlaneError, NotFound, Refused, Unreachable
from dispatcher.ports import StoredRecord
from dispatcher.wire.control import ControlRecord, EpochStarted
from dispatcher.wire.snapshot import Cursors, Part, Record, SettingsPart, TaskPart, encode
from quotas.snapshots import RedisSnapshots
from tests.actors import running
from tests.unit.dispatch.consumers.fakes import ControlTopic, Reader, Topic, control_records, epoch_of, eventually
from tests.virtual_clock import VirtualClock

SETTINGS = SnapshotSettings(partitions=1, every_s=600.0, chunk_bytes=1, pause_s=0.0, keep=2)


@dataclass(kw_only=True)
class FakeView(RedisSnapshots):
    """The folds' cursors, the parts of a snapshot and what was restored. breaks: raised behind the first page."""

    control: str = ""
    outcomes: list[str] = field(default_factory=lambda: ["o1"])
    tasks: list[str] = field(default_factory=lambda: ["t", "u"])
    restored: list[Part] = field(default_factory=list)
    finished: list[tuple[str, Cursors | None]] = field(default_factory=list)
    epoch: Epoch | None = field(default_factory=lambda: epoch_of("e", ready=True))
    breaks: Unreachable | None = None
    who: str = ""
    taken_over: bool = False

    def cursors(self, partitions: int) -> Cursors:
        return Cursors(self.control, list(self.outcomes))

    def parts(self) -> Iterator[list[Part]]:
        yield [SettingsPart([b"capacity", b"5"])]
        if self.breaks:
            raise self.breaks
        yield [TaskPart(task, -1, [b"lane", b"x"]) for task in self.tasks]

    def begin_restore(self, epoch: str) -> str:
        self.who = epoch if self.epoch is not None and self.epoch.id == epoch else ""
        return self.who

    def restore_parts(self, who: str, parts: Sequence[Part]) -> bool:
        self.restored += parts
        return who == self.who and not self.taken_over

    def end_restore(self, who: str, cursors: Cursors | None) -> bool:
        self.finished.append((who, cursors))
        return True


class FakeShelf:
    def __init__(self) -> None:
        self.stored: dict[str, list[bytes]] = {}
        self.gone: set[str] = set()
        self.broken: set[str] = set()
        self.unlisted: FairlaneError | None = None
        self.undeleted: FairlaneError | None = None
        self.looks = 0

    def numbers(self) -> list[str]:
        self.looks += 1
        if self.unlisted:
            raise self.unlisted
        return sorted(self.stored, reverse=True)

    def write(self, number: str, records: Iterable[Record]) -> None:
        self.stored[number] = []
        for record in records:
            self.stored[number].append(encode(record))

    def reader(self, number: str) -> "LateReader":
        if number in self.gone:
            raise NotFound("There is no such topic.")
        if number in self.broken:
            raise Unreachable("Pulsar does not answer.")
        topic = Topic()
        for body in self.stored[number]:
            topic.store(body)
        return LateReader(topic, None)

    def delete(self, number: str) -> None:
        if self.undeleted:
            raise self.undeleted
        del self.stored[number]


class LateReader(Reader):
    """Gives nothing at times, though it is not at the end."""

    late = False

    def read(self, max_records: int, timeout_s: float) -> Sequence[StoredRecord]:
        self.late = not self.late
        return [] if self.late else super().read(2, timeout_s)


class Control(ControlTopic):
    """Its fold is where it ends, at once, unless `behind`."""

    def __init__(self, view: FakeView) -> None:
        super().__init__()
        self.view = view
        self.behind = False

    def append_many(self, records: Sequence[ControlRecord]) -> list[str]:
        positions = super().append_many(records)
        if not self.behind:
            self.view.control = positions[-1]
        return positions


class Snapshots:
    """settings: of the snapshotter."""

    def __init__(self, settings: SnapshotSettings = SETTINGS) -> None:
        self.view, self.shelf, self.clock, self.held = FakeView(), FakeShelf(), VirtualClock(), True
        self.control = Control(self.view)
        self.epochs: Iterator[Epoch] | None = None
        self.snapshotter = Snapshotter(
            self.view, self.shelf, self.control, self.epoch, lambda: self.held, self.clock, settings
        )
        self.restorer = Restorer(self.view, self.shelf, 1)

    def epoch(self) -> Epoch | None:
        return next(self.epochs) if self.epochs else self.view.epoch

    def take(self) -> str:
        self.clock.advance(1)
        return self.snapshotter.take(threading.Event())


@pytest.fixture
def world() -> Snapshots:
    return Snapshots()


def test_what_was_taken_is_restored_from_the_cursors_before_it(world: Snapshots) -> None:
    world.view.control = "000000"
    assert world.take()
    world.restorer.restore("e")
    assert world.view.restored == [
        SettingsPart([b"capacity", b"5"]),
        TaskPart("t", -1, [b"lane", b"x"]),
        TaskPart("u", -1, [b"lane", b"x"]),
    ]
    assert world.view.finished == [("e", Cursors("000000", ["o1"]))]
    assert control_records(world.control) == [EpochStarted(1, "e", world.clock.wall_ms())]


def test_old_ones_go(world: Snapshots) -> None:
    taken = [world.take() for _ in range(4)]
    assert world.shelf.numbers() == [taken[3], taken[2]]


def test_one_taken_after_the_clock_was_set_back_is_the_newest(world: Snapshots) -> None:
    """The clocks of workers may differ. It was deleted at once, and the earlier ones stayed the newest."""
    world.clock.advance(3_600)
    before = [world.take() for _ in range(2)]
    world.clock.advance(-3_600)
    after = world.take()
    assert world.shelf.numbers() == [after, before[1]]
    world.clock.advance(7_200)
    assert world.take() == f"{world.clock.wall_ms():016d}"


def test_a_view_that_is_not_complete_is_not_taken(world: Snapshots) -> None:
    world.view.epoch = epoch_of("e")
    assert world.take() == ""
    world.view.epoch = None
    assert world.take() == ""
    assert not world.shelf.stored


def test_a_view_emptied_meanwhile_leaves_no_snapshot(world: Snapshots) -> None:
    world.epochs = iter([epoch_of("e", ready=True), epoch_of("f", ready=True)])
    assert world.take() == ""
    assert not world.shelf.stored


def test_one_that_breaks_off_is_taken_away(world: Snapshots) -> None:
    world.view.breaks = Unreachable("Redis is gone.")
    with pytest.raises(Unreachable):
        world.take()
    assert not world.shelf.stored


def test_none_is_taken_before_the_control_topic_is_folded_to_its_end(world: Snapshots) -> None:
    world.control.behind = True
    reported = threading.Event()
    reported.set()
    with pytest.raises(Unreachable, match="control topic"):
        world.snapshotter.take(reported)
    assert not world.shelf.stored


def test_a_half_written_one_is_passed_over(world: Snapshots, caplog: pytest.LogCaptureFixture) -> None:
    whole, half = world.take(), world.take()
    world.shelf.stored[half].pop()
    world.restorer.restore("e")
    assert world.view.finished == [("e", Cursors("", ["o1"]))]
    assert f"snapshot {half} is skipped: It was not written to its end." in caplog.text
    assert whole in world.shelf.stored


def test_without_one_that_can_be_used_everything_is_read(world: Snapshots, caplog: pytest.LogCaptureFixture) -> None:
    world.restorer.restore("e")
    assert not caplog.text, "there never was one"
    damaged, missing = world.take(), world.take()
    world.shelf.stored[damaged][1] = b"\xc1"
    world.shelf.gone.add(missing)
    world.view.finished.clear()
    world.restorer.restore("e")
    assert world.view.finished == [("e", None)]
    assert "none of 2 snapshots can be used" in caplog.text
    assert "from their beginnings" in caplog.text


def test_one_that_does_not_answer_is_tried_again_and_then_passed_over(world: Snapshots) -> None:
    whole, broken = world.take(), world.take()
    world.shelf.broken.add(broken)
    for _ in range(5):
        with pytest.raises(Unreachable):
            world.restorer.restore("e")
    assert not world.view.finished
    world.restorer.restore("e")
    assert world.view.finished == [("e", Cursors("", ["o1"]))]
    assert whole in world.shelf.stored


def test_where_they_cannot_be_listed_everything_is_read(world: Snapshots, caplog: pytest.LogCaptureFixture) -> None:
    world.take()
    world.shelf.unlisted = Unreachable("The broker's REST interface does not answer.")
    for _ in range(4):
        with pytest.raises(Unreachable):
            world.restorer.restore("e")
    assert not world.view.finished
    world.restorer.restore("e")
    assert world.view.finished == [("e", None)]
    assert "snapshots cannot be listed" in caplog.text
    world.shelf.unlisted = Refused("The token lacks a right.")
    world.restorer.restore("e")
    assert world.view.finished == [("e", None)] * 2


def test_a_view_that_is_another_by_now_is_left_alone(world: Snapshots) -> None:
    world.take()
    world.view.epoch = epoch_of("other", ready=True)
    world.restorer.restore("e")
    assert not world.view.finished
    assert not world.view.restored


def test_one_that_somebody_else_restores_by_now_is_left_to_him(world: Snapshots) -> None:
    world.take()
    world.view.taken_over = True
    world.restorer.restore("e")
    assert len(world.view.restored) == 1
    assert not world.view.finished


def test_they_are_made_in_time_and_only_if_anything_was_folded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = Snapshots(SnapshotSettings(partitions=1, every_s=0.01, rest=0.0, pause_s=0.0))
    with running(world.snapshotter.run):
        world.clock.advance(1)
        eventually(lambda: len(world.shelf.stored) == 1)
        looks = len(world.control.records)
        world.clock.advance(1)
        world.view.outcomes = ["o2"]
        eventually(lambda: len(world.shelf.stored) == 2)
        assert len(world.control.records) == looks + 1
    assert caplog.text.count("2 tasks, in") == 2


def test_who_takes_over_goes_by_the_age_of_the_newest() -> None:
    world = Snapshots(SnapshotSettings(partitions=1, every_s=0.05, pause_s=0.0))
    world.held = False
    world.clock.advance(100)
    world.shelf.stored[f"{world.clock.wall_ms():016d}"] = []
    with running(world.snapshotter.run):
        world.held = True
        eventually(lambda: world.shelf.looks > 0)
        assert len(world.shelf.stored) == 1
        world.clock.advance(0.1)
        eventually(lambda: len(world.shelf.stored) == 2)


@pytest.mark.parametrize("error", [Unreachable("Pulsar is gone."), Refused("No rights.")])
def test_what_keeps_a_snapshot_from_being_made_is_waited_for(error: FairlaneError) -> None:
    world = Snapshots(replace(SETTINGS, every_s=0.001, again_s=0.001))
    world.shelf.unlisted = error

    def taken() -> bool:
        world.clock.advance(1)
        return bool(world.shelf.stored)

    with running(world.snapshotter.run):
        eventually(lambda: not taken() and world.shelf.looks > 3)
        assert not taken()
        world.shelf.unlisted = None
        eventually(taken)


def test_one_that_was_cut_short_is_told_of_though_it_cannot_be_deleted(world: Snapshots) -> None:
    world.view.breaks = Unreachable("Redis is gone.")
    world.shelf.undeleted = Unreachable("Pulsar is gone.")
    with pytest.raises(Unreachable, match="Redis is gone"):
        world.take()
