"""Notes of workers about their sends are kept with the task: its errors, and how long it has been in its channel."""

import msgspec
import pytest

from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import TASK_TIMES
from backends.redis.view import RedisView
from dispatcher.analysis.send_errors import SendError
from dispatcher.analysis.task_times import Counted
from dispatcher.wire.topics import Topics
from quotas.ledger import RedisLedger
from tests.contract.registry_records import position, task_of, task_record

AT_MS = 1_700_000_000_000


def failed(reason: str, count: int, at_ms: int = AT_MS, attempt: int = 1) -> SendError:
    return SendError(reason, count, at_ms, attempt, at_ms + 5_000)


def put_back(reason: str, count: int, at_ms: int) -> SendError:
    return SendError("", 0, 0, 0, at_ms + 60, count, at_ms, reason)


def counted(registry: Registry) -> Counted:
    [times] = registry.tasks.named(["t1"], TASK_TIMES)
    return times.counted


@pytest.fixture
def ledger(view: RedisView) -> RedisLedger:
    return RedisLedger(view, Topics())


@pytest.fixture
def registry(view: RedisView) -> Registry:
    """One that knows the task t1, accepted a minute ago."""
    registry = Registry(view)
    registry.control.apply(position(1), task_record("t1", created_ms=view.now_ms() - 60_000))
    return registry


def test_a_task_shows_its_last_error_and_their_number(ledger: RedisLedger, registry: Registry) -> None:
    assert task_of(registry).last_error is None
    ledger.note_sends({"t1": failed("HTTP 500", 100)}, {})
    ledger.note_sends({"t1": failed("HTTP 429", 20, AT_MS + 1, 2)}, {})
    assert task_of(registry).last_error == failed("HTTP 429", 120, AT_MS + 1, 2)
    ledger.note_sends({"t1": failed("HTTP 500", 3)}, {})
    assert task_of(registry).last_error == failed("HTTP 429", 123, AT_MS + 1, 2), "a late worker's is counted"


def test_targets_put_back_are_counted_apart_and_leave_the_last_error_as_it_was(
    ledger: RedisLedger, registry: Registry
) -> None:
    ledger.note_sends({"t1": put_back("paused", 7, AT_MS - 1)}, {})
    assert task_of(registry).last_error == put_back("paused", 7, AT_MS - 1)
    ledger.note_sends({"t1": failed("HTTP 503", 2)}, {})
    ledger.note_sends({"t1": put_back("the cap", 3_000, AT_MS + 9)}, {})
    expected = SendError("HTTP 503", 2, AT_MS, 1, AT_MS + 69, 3_007, AT_MS + 9, "the cap")
    assert task_of(registry).last_error == expected
    ledger.note_sends({"t1": put_back("late", 1, AT_MS - 5)}, {})
    assert task_of(registry).last_error == msgspec.structs.replace(expected, unsent=3_008)


def test_errors_of_a_task_that_is_not_known_leave_nothing(ledger: RedisLedger, view: RedisView) -> None:
    before = view.command("DBSIZE")
    ledger.note_sends({"nobody": failed("HTTP 500", 1)}, {"nobody": 9_000})
    assert view.command("DBSIZE") == before


def test_time_in_the_channel_is_counted_while_nobody_asks_for_the_task(ledger: RedisLedger, registry: Registry) -> None:
    ledger.note_sends({}, {"t1": 6_000})
    causes, span = counted(registry)
    assert causes == {"provider": 6_000}
    assert span.to_ms - span.from_ms == 6_000
    ledger.note_sends({}, {"t1": 7_000})
    assert counted(registry).causes == {"provider": 6_000}, "it was counted just now"


def test_time_in_which_outcomes_are_not_stored_is_a_cause_of_its_own(ledger: RedisLedger, registry: Registry) -> None:
    ledger.note_sends({}, {}, {"t1": 4_000})
    assert counted(registry).causes == {"no_pulsar": 4_000}


def test_time_is_in_the_channel_from_the_start_of_the_task_at_most(ledger: RedisLedger, registry: Registry) -> None:
    ledger.note_sends({}, {"t1": 3_600_000})
    assert counted(registry).causes["provider"] == pytest.approx(60_000, abs=5_000)
