"""A worker knows what may be sent without Redis from a complete view and from what was said since."""

import pytest
from msgspec import Raw

from backends.task_rows import LiveTask
from backends.topic_reader import Record
from dispatcher.clock import VirtualClock
from dispatcher.control import FORMAT, ControlChange, ControlRecord, GlobalChange, Restated, encode_control
from dispatcher.errors import Unreachable
from fairlane.worker import control_follower
from fairlane.worker.control_follower import ControlFollower
from tests.actors import running
from tests.unit.consumers.fakes import eventually
from tests.unit.tasks import live_task


class Topic:
    """Records, each read once by every reader, from the beginning. opened: behind which positions."""

    def __init__(self, *records: ControlRecord) -> None:
        self.records = [Record(str(place), encode_control(record), "") for place, record in enumerate(records)]
        self.opened: list[str | None] = []

    def open(self, after: str | None) -> "Topic":
        self.opened.append(after)
        return self

    def read(self, max_records: int, timeout_s: float) -> list[Record]:
        read, self.records = self.records, []
        return read

    def at_end(self) -> bool:
        return not self.records

    def close(self) -> None: ...


class View:
    def __init__(self) -> None:
        self.complete = False
        self.capacity = ""
        self.looks = 0
        self.gone = False

    def is_complete(self) -> bool:
        self.looks += 1
        if self.gone:
            raise Unreachable("Redis is gone.")
        return self.complete

    def control_cursor(self) -> str | None:
        return "behind" if self.complete else None

    def live(self) -> list[LiveTask]:
        return []

    def settings(self) -> dict[str, str]:
        return {"capacity": self.capacity}


def follower_of(view: View, topic: Topic) -> ControlFollower:
    return ControlFollower(view, view.is_complete, view.settings, topic.open, VirtualClock())


def test_it_waits_for_a_complete_view() -> None:
    view, topic = View(), Topic()
    follower = follower_of(view, topic)
    with running(follower.run):
        eventually(lambda: view.looks > 0)
        assert topic.opened == []
        view.capacity = "7"
        view.complete = True
        eventually(lambda: topic.opened == ["behind"])
        assert follower.setting("capacity") == "7"


def test_what_is_restated_is_not_taken_for_news() -> None:
    view = View()
    view.complete, view.capacity = True, "7"
    old = Restated(FORMAT, "of-old", Raw(encode_control(GlobalChange(FORMAT, "capacity", "1", 0))))
    topic = Topic(old, GlobalChange(FORMAT, "sharing", "apps", 0))
    follower = follower_of(view, topic)
    with running(follower.run):
        eventually(lambda: follower.setting("sharing") == "apps")
    assert follower.setting("capacity") == "7"


def test_a_value_of_a_later_version_is_passed_over() -> None:
    class OneTask(View):
        def live(self) -> list[LiveTask]:
            return [live_task("x")]

    view = OneTask()
    view.complete = True
    later = ControlChange(FORMAT, "x", "cap", "100 a minute", 0)
    follower = follower_of(view, Topic(later, GlobalChange(FORMAT, "sharing", "apps", 0)))
    with running(follower.run):
        eventually(lambda: follower.setting("sharing") == "apps")
    known = follower.task("x")
    assert known is not None
    assert known.cap == 0


def test_a_redis_that_is_gone_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_follower, "_PAUSE_S", 0.001)
    view, topic = View(), Topic()
    view.gone = view.complete = True
    with running(follower_of(view, topic).run):
        eventually(lambda: view.looks > 2)
        assert topic.opened == []
        view.gone = False
        eventually(lambda: topic.opened == ["behind"])
