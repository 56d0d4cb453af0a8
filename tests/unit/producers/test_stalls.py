"""A submission that gets no receipts says so in the log and in Redis, and again as long as it lasts."""

import logging
import threading
from queue import Queue

import pytest

from backends.redis.estate.incidents import IncidentNote
from dispatcher.model.errors import Unreachable
from producers.publish.stalls import StallNotes
from tests.contract.registry_records import task_record
from tests.unit.consumers.fakes import eventually

RECORD = task_record("sale", lane="persistent://t/n/sale", partitions=3)


def test_a_stall_is_noted_once_it_is_long_enough_and_again_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    notes = Queue[IncidentNote]()
    on_silence = StallNotes(notes.put, 30.0, "host:1").of(RECORD)
    for silent_s in (0.0, 10.0, 29.9, 30.2, 30.7, 59.0, 60.3, 60.8):
        on_silence(silent_s)
    first, _ = sorted((notes.get(timeout=10.0) for _ in range(2)), key=lambda note: note.reason)
    assert notes.empty()
    assert (first.task, first.lane, first.partitions, first.who) == ("sale", RECORD.lane, 3, "host:1")
    assert first.reason == "submission of task sale got no receipt from Pulsar for 30 s"
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert "fairlane estate capture --task sale" in caplog.text


def test_another_stall_after_a_receipt_is_noted_as_early_as_the_first() -> None:
    notes = Queue[IncidentNote]()
    on_silence = StallNotes(notes.put, 30.0, "host:1").of(RECORD)
    for silent_s in (31.0, 0.5, 31.0):
        on_silence(silent_s)
    assert all(notes.get(timeout=10.0) for _ in range(2))


def test_a_redis_that_hangs_holds_up_nobody_and_one_that_is_gone_raises_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    release = threading.Event()

    def hang(_: IncidentNote) -> None:
        release.wait(20.0)
        raise Unreachable("Redis is gone.")

    caplog.set_level(logging.INFO)
    StallNotes(hang, 30.0, "host:1").of(RECORD)(31.0)
    release.set()
    eventually(lambda: "not noted in Redis: Redis is gone" in caplog.text)
