"""A worker's reports of its sends, in its log and in Redis."""

from collections.abc import Mapping

import pytest

from dispatcher.analysis.send_errors import MAX_TASKS, SendError, SendErrors
from dispatcher.engine.stats import EngineStats, LateRecords
from dispatcher.model.errors import Unreachable
from fairlane.worker.report.send_notes import MAX_KINDS, SendNotes, kind_of
from tests.virtual_clock import VirtualClock


class Notes:
    """A worker's notes, and what was stored of them."""

    def __init__(self) -> None:
        self.errors = SendErrors()
        self.stats = EngineStats()
        self.clock = VirtualClock()
        self.stored: list[dict[str, int]] = []
        self.waits: list[dict[str, int]] = []
        self.is_there = True
        self.store = SendNotes(self.errors, self.stats, self._store, self.clock).store

    def _store(self, errors: Mapping[str, SendError], waits: Mapping[str, int], unrecorded: Mapping[str, int]) -> None:
        if not self.is_there:
            raise Unreachable("Redis is gone.", "Start it.")
        self.stored.append({task: error.count for task, error in errors.items()})
        self.waits.append({**waits, **unrecorded})

    def fail(self, task: str, reason: str, count: int = 1, channel: str = "http") -> None:
        self.errors.note(task, channel, SendError(reason, count, 0, 1, 0))


def test_each_kind_of_error_is_warned_of_once_a_minute_with_its_task(caplog: pytest.LogCaptureFixture) -> None:
    notes = Notes()
    for second in range(90):
        notes.fail("sale", "HTTP 429: slow down", 10)
        notes.fail("news", f"HTTP 500: request {second} failed", 1)
        notes.fail("news-2", "HTTP 429", channel="sms")
        notes.store()
        notes.clock.advance(1.0)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 6
    assert lines[0].startswith("Channel http: HTTP 429: slow down (task sale, attempt 1; 10 targets, given up)")
    assert lines[3].startswith("Channel http: HTTP 429: slow down (task sale, attempt 1; 600 targets, given up)")


def test_targets_put_back_are_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    notes = Notes()
    notes.errors.note("sale", "fcm", SendError("429: slow down", 28, 1, 1, 9))
    notes.errors.note("sale", "fcm", SendError("", 0, 0, 0, 9, 3_000, 2, "the cap has not let it through in time"))
    with caplog.at_level("INFO"):
        notes.store()
    warning, line = caplog.records
    assert (warning.levelname, line.levelname) == ("WARNING", "INFO")
    assert "429: slow down (task sale, attempt 1; 28 targets, tried again)" in warning.getMessage()
    assert "in time (task sale; 3000 targets, put back unsent)" in line.getMessage()


def test_kinds_without_number_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    notes = Notes()
    for number in range(3 * MAX_KINDS):
        notes.fail("sale", f"{number} is wrong")
        notes.store()
    assert len(caplog.records) == MAX_KINDS + 1


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("HTTP 429: slow down", "HTTP 429"),
        ("gave up after 5 attempts; the last: HTTP 429: slow down", "HTTP 429"),
        ("no answer within 3 s", "no answer within 3 s"),
        ("", ""),
    ],
)
def test_a_kind_is_the_status_without_the_providers_text(reason: str, kind: str) -> None:
    assert kind_of(reason) == kind


def test_what_redis_did_not_take_is_stored_later_and_counted_once() -> None:
    notes = Notes()
    notes.fail("sale", "HTTP 500", 5)
    notes.is_there = False
    with pytest.raises(Unreachable):
        notes.store()
    notes.fail("sale", "HTTP 429", 2)
    notes.is_there = True
    notes.store()
    notes.store()
    assert notes.stored == [{"sale": 7}]


def test_with_nothing_to_say_redis_is_not_asked() -> None:
    notes = Notes()
    notes.store()
    notes.stats.in_channels = {"slow": 6_000}
    notes.store()
    assert notes.waits == [{"slow": 6_000}]


def test_outcomes_that_pulsar_does_not_store_are_a_wait_of_their_tasks() -> None:
    notes = Notes()
    notes.stats.late_records = LateRecords(notes.clock.monotonic_s() - 4.0, 7, ["sale"])
    notes.store()
    assert notes.waits == [{"sale": 4_000}]


def test_the_errors_of_very_many_tasks_are_kept_for_the_first_of_them() -> None:
    notes = Notes()
    for number in range(MAX_TASKS + 50):
        notes.fail(f"t{number}", "HTTP 500")
    notes.store()
    assert len(notes.stored[0]) == MAX_TASKS
