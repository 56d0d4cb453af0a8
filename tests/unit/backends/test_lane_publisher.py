"""Before a lane is sent to it is made sure that it is whole; whatever goes wrong, those who publish are told."""

import queue
from collections.abc import Callable

import pytest

from backends import lane_publisher
from backends.lane_publisher import LanePublisher
from backends.system_clock import SystemClock
from dispatcher.errors import NotFound

LANE = "persistent://t/tasks-01/moved"


def answer_of(monkeypatch: pytest.MonkeyPatch, create: Callable[[str], None], steps: list[str]) -> str:
    """What those are told that publish to a lane whose producer cannot be made, for a reason that nobody thought of."""

    def make_producer(*_: object) -> None:
        steps.append("producer")
        raise RuntimeError("who knows why")

    monkeypatch.setattr(lane_publisher, "LaneProducer", make_producer)
    monkeypatch.setattr(lane_publisher, "partitions_of", lambda _client, lane: [lane])
    publisher = LanePublisher(None, SystemClock(), create=create)  # type: ignore[arg-type]
    told: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
    publisher.publish(LANE, [], told.put)
    answer = str(told.get(timeout=10))
    assert publisher.stop(5)
    return answer


def test_what_is_missing_of_a_lane_is_created_before_its_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    assert answer_of(monkeypatch, steps.append, steps) == "who knows why"
    assert steps == [LANE, "producer"]


def test_a_lane_that_should_not_be_there_gets_no_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(_: str) -> None:
        raise NotFound("Its task has ended.")

    steps: list[str] = []
    assert answer_of(monkeypatch, create, steps) == "Its task has ended."
    assert steps == []
