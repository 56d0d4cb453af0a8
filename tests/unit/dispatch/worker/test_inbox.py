"""The engine's inbox: nothing put into it is lost, and a consumer that waits is woken."""

from concurrent.futures import ThreadPoolExecutor
from queue import Empty
from threading import Event

import pytest

from dispatcher.engine.events import LaneReady
from fairlane.worker.engine_ports import EngineInbox

DEADLINE_S = 30.0


def test_events_are_taken_in_the_order_in_which_they_were_put() -> None:
    inbox = EngineInbox()
    events = [LaneReady(str(number)) for number in range(3)]
    for event in events:
        inbox.put(event)
    assert inbox.qsize() == 3
    assert [inbox.get(block=False) for _ in events] == events


def test_an_empty_inbox_says_so_at_once_or_at_the_timeout() -> None:
    inbox = EngineInbox()
    with pytest.raises(Empty):
        inbox.get(block=False)
    with pytest.raises(Empty):
        inbox.get(timeout=0.001)


def test_a_waiting_consumer_is_woken_by_the_next_event_each_time() -> None:
    asked, answers = EngineInbox(), EngineInbox()

    def answer() -> None:
        for _ in range(2_000):
            answers.put(asked.get(timeout=DEADLINE_S))

    with ThreadPoolExecutor(1) as pool:
        echo = pool.submit(answer)
        for number in range(2_000):  # each side waits for the other, so one lost wake-up would time out
            asked.put(LaneReady(str(number)))
            assert answers.get(timeout=DEADLINE_S) == LaneReady(str(number))
        echo.result(DEADLINE_S)


def test_nothing_is_lost_when_many_threads_put_events_while_the_consumer_waits_and_takes() -> None:
    inbox, begin = EngineInbox(), Event()

    def put(thread: int) -> None:
        begin.wait(DEADLINE_S)
        for number in range(2_000):
            inbox.put(LaneReady(f"{thread} {number}"))

    with ThreadPoolExecutor(4) as pool:
        producers = [pool.submit(put, thread) for thread in range(4)]
        begin.set()
        taken: list[str] = []
        while len(taken) < 8_000:
            event = inbox.get(timeout=DEADLINE_S)
            assert isinstance(event, LaneReady)
            taken.append(event.lane)
        for producer in producers:
            producer.result(DEADLINE_S)
    for thread in range(4):
        assert [name for name in taken if name.startswith(f"{thread} ")] == [f"{thread} {n}" for n in range(2_000)]
