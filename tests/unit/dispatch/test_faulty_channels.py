"""Whatever a channel returns: each target ends in one outcome, nothing else is changed, and the engine goes on."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, cycle
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.delivery.calls import ChannelQueue
from consumers.delivery.fleet_gate import FleetGate
from dispatcher import retry
from dispatcher.engine import settling as engine_settling
from dispatcher.ports import Batch
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, Outcome, Report, Verdict, reads_back
from tests.unit.dispatch.consumers.office import Channel
from tests.unit.engine_world import EngineWorld, Worker
from tests.unit.nonsense import answers, junk, reports

TARGETS = 12
CHUNK = 4


class Scripted(Channel):
    """Returns what the script makes of the envelopes of a call."""

    name = "null"

    def __init__(self, script: Callable[[Sequence[Envelope]], Any], batch_limit: int) -> None:
        super().__init__(timeout_s=5.0, batch_limit=batch_limit)
        self._script = script
        self.called: list[Envelope] = []

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Any:
        self.called += envelopes
        return self._script(envelopes)


@contextmanager
def through_calls(worker: Worker, channel: Scripted) -> Iterator[None]:
    """The worker's batches go through the real calls of that channel, each to its end."""
    loop = asyncio.new_event_loop()
    queue = ChannelQueue(channel, loop, worker.world.clock, FleetGate(worker.world.clock))

    def send(batch: Batch, sent: Any) -> None:
        queue.put(batch, sent)
        queue.start()
        assert loop.run_until_complete(queue.idle(30.0))

    worker.courier.send = send  # type: ignore[method-assign]
    try:
        yield
    finally:
        loop.close()


def deliver_all(script: Callable[[Sequence[Envelope]], Any], batch_limit: int = 10) -> tuple[EngineWorld, Scripted]:
    """A task `good` and a task `bad` go through the channel until both have ended."""
    world, channel = EngineWorld(), Scripted(script, batch_limit)
    for task in ("good", "bad"):
        world.add_task(task, TARGETS, chunk=CHUNK, max_attempts=2)
    # Both bounds are lowered: 30 days of waiting are 4,320 laps through a retry lane, and 4,096 rounds take five days.
    with patch.multiple(retry, MAX_WAIT_S=700, ATTEMPT_LIMIT=8), through_calls(world.worker(), channel):
        world.run_out("good", "bad", within_s=1e6)
    assert world.stats().get("malformed", 0) == 0
    for task in ("good", "bad"):
        assert sum(world.counts(task).values()) == TARGETS
    return world, channel


def calls_of(channel: Scripted, task: str) -> list[tuple[int, int]]:
    return sorted((one.sequence, one.attempt) for one in channel.called if one.task == task)


@settings(deadline=None)
@given(st.lists(reports(CHUNK, ("bad:0", "bad:5")), min_size=1, max_size=5))
def test_any_report_on_a_task_ends_it_and_changes_nothing_of_another(answers: list[Any]) -> None:
    turns = cycle(answers)

    def script(envelopes: Sequence[Envelope]) -> list[Any]:
        answer = next(turns)
        return [ALL_SENT if one.task == "good" else answer for one in envelopes]

    world, channel = deliver_all(script)
    assert world.counts("good") == {"sent": TARGETS}
    assert calls_of(channel, "good") == [(0, 0), (1, 0), (2, 0)]


@settings(deadline=None)
@given(st.lists(answers(CHUNK) | junk, min_size=1, max_size=5))
def test_any_answer_at_all_ends_the_task(returned: list[Any]) -> None:
    turns = cycle(returned)

    def script(envelopes: Sequence[Envelope]) -> Any:
        return [ALL_SENT] if envelopes[0].task == "good" else next(turns)

    world, _ = deliver_all(script, batch_limit=1)
    assert world.counts("good") == {"sent": TARGETS}


@pytest.mark.parametrize(
    "report",
    [
        Report(Verdict(0, b"ok")),  # type: ignore[arg-type]
        Report(Verdict(0, "\ud800")),
        Report(Verdict(0, "", "5")),  # type: ignore[arg-type]
        Report(Verdict("sent")),  # type: ignore[arg-type]
        Report(exceptions=[]),  # type: ignore[arg-type]
    ],
)
def test_who_says_sent_with_a_fault_in_another_field_is_not_called_again(report: Report) -> None:
    world, channel = deliver_all(lambda envelopes: [report] * len(envelopes))
    assert world.counts("bad") == {"sent": TARGETS}
    assert calls_of(channel, "bad") == [(0, 0), (1, 0), (2, 0)]


def test_an_index_outside_the_envelope_is_a_fault_that_counts_nothing_as_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, _ = deliver_all(lambda envelopes: [Report(exceptions={99: Verdict(1)})] * len(envelopes))
    assert world.counts("bad") == {"failed": TARGETS}
    (line,) = [record.getMessage() for record in caplog.records if "faulty" in record.getMessage()]
    expected = "The channel null is faulty: a report has an exception at index 99, but its envelope has 4 targets."
    assert line.startswith(expected)


def test_a_fault_with_other_numbers_is_the_same_fault(caplog: pytest.LogCaptureFixture) -> None:
    """So that those of one kind do not use up the room of others."""
    numbers = count(4)
    deliver_all(lambda envelopes: [Report(exceptions={next(numbers): Verdict(1)}) for _ in envelopes])
    assert len([record for record in caplog.records if "faulty" in record.getMessage()]) == 1


def test_a_fault_is_logged_once_however_many_targets_have_it(caplog: pytest.LogCaptureFixture) -> None:
    deliver_all(lambda envelopes: [Report(Verdict(0, b"ok"))] * len(envelopes))  # type: ignore[arg-type]
    (line,) = [record.getMessage() for record in caplog.records if "faulty" in record.getMessage()]
    assert line.startswith("The channel null is faulty: the reason of a verdict is a bytes, not a str.")


def test_a_channel_that_changes_what_it_was_given_is_still_understood() -> None:
    def script(envelopes: Sequence[Envelope]) -> list[Report]:
        given = list(envelopes)
        envelopes.clear()  # type: ignore[attr-defined]
        return [Report(exceptions={0: Verdict(1, "gone")}) for _ in given]

    world, _ = deliver_all(script)
    assert world.counts("bad") == {"sent": TARGETS - 3, "invalid": 3}


def test_an_exception_of_any_class_is_a_retry(caplog: pytest.LogCaptureFixture) -> None:
    class Strange(BaseException):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def script(_envelopes: Sequence[Envelope]) -> Any:
        raise Strange

    caplog.set_level(logging.DEBUG)
    world, channel = deliver_all(script, batch_limit=1)
    assert world.counts("bad") == {"failed": TARGETS}
    assert len(calls_of(channel, "bad")) == 6
    assert {reason for letter in world.dead_letters.letters for reason in letter.reasons} == {
        "gave up after 2 attempts; the last: Strange: (it has no readable text)"
    }
    assert "A call of the channel null failed\nTraceback" in caplog.text


def test_a_record_that_cannot_be_read_is_not_published_and_others_are(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of the engine's own, which is made here."""
    monkeypatch.setattr(engine_settling, "reads_back", lambda record: record.task != "bad" and reads_back(record))
    world = EngineWorld(lambda _: Report(exceptions={0: Verdict(int(Outcome.INVALID), "gone")}))
    lanes = {task: world.add_task(task, TARGETS, chunk=CHUNK) for task in ("good", "bad")}
    worker = world.worker()
    world.run(lambda: world.finished("good"))
    world.run(within_s=1.0)
    assert world.counts("bad") == {}
    assert [len(world.broker.open(lanes[task])) for task in ("good", "bad")] == [0, TARGETS // CHUNK]
    assert "cannot be recorded; it stays in the lane" in caplog.text
    assert worker.engine.stats.unsettled_targets == 0
