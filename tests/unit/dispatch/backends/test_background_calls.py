"""Leases of submissions under way are renewed, all by one thread, which ends with them."""

import threading
from collections.abc import Callable

import pytest

from backends.background_calls import BackgroundCalls
from dispatcher.model.errors import Unreachable
from producers.submit.report import Watchers
from producers.submit.submit import submit
from tests.unit.dispatch.producers.fake_service import FakeService
from tests.unit.dispatch.producers.submitters import TASK

_PATIENCE_S = 30.0


def renewal(seen: list[threading.Thread], times: int) -> tuple[Callable[[], None], threading.Event]:
    """Fails each time; the event: it was called so often."""
    enough = threading.Event()

    def renew() -> None:
        seen.append(threading.current_thread())
        if len(seen) >= times:
            enough.set()
        raise Unreachable("Redis is away.")

    return renew, enough


def test_one_thread_renews_all_leases_again_and_again_though_redis_is_away_and_ends_with_them() -> None:
    renewals = BackgroundCalls()
    seen: tuple[list[threading.Thread], ...] = ([], [])
    (one, one_enough), (other, other_enough) = (renewal(each, times=3) for each in seen)
    renewals.add(one, 0.001)
    renewals.add(other, 0.001)
    assert one_enough.wait(_PATIENCE_S)
    assert other_enough.wait(_PATIENCE_S)
    assert len({*seen[0], *seen[1]}) == 1
    renewals.remove(one)
    renewals.remove(other)
    thread = seen[0][0]
    thread.join(_PATIENCE_S)
    assert not thread.is_alive()
    again: list[threading.Thread] = []
    renew, enough = renewal(again, times=1)
    renewals.add(renew, 0.001)
    assert enough.wait(_PATIENCE_S)
    renewals.remove(renew)


def test_a_call_with_a_fault_ends_no_other(caplog: pytest.LogCaptureFixture) -> None:
    calls, enough = BackgroundCalls(), threading.Event()
    seen: list[int] = []

    def fails() -> None:
        raise ZeroDivisionError

    def counts() -> None:
        seen.append(1)
        if len(seen) == 3:
            enough.set()

    calls.add(fails, 0.001)
    calls.add(counts, 0.001)
    assert enough.wait(_PATIENCE_S)
    calls.remove(fails)
    calls.remove(counts)
    assert "A call in the background failed" in caplog.text


def test_a_small_list_waits_for_redis_once_after_its_record_and_once_after_its_seal() -> None:
    world = FakeService(ready=True)
    submit(world.services(), TASK, ["a", "b"], Watchers())
    assert [step for step in world.steps if step in ("renew", "release", "apply TaskRecord", "apply Sealed")] == [
        "renew",
        "apply TaskRecord",
        "apply Sealed",
    ]
