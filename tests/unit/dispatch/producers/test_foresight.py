"""When tasks are done, as `progress()` and `tasks()` say it."""

from collections.abc import Sequence

import msgspec
import pytest

from dispatcher.analysis.send_errors import SendError
from dispatcher.model.view import TargetCounts, TaskView, WorkerBeat
from producers.control import foresight
from producers.control.foresight import Foresight
from tests.records import beat
from tests.unit.tasks import task_view
from tests.unit.views import FixedRegistry, FixedService, FixedTasks, FixedWorkers

NOW_MS = 1_000_000
JUST_NOW_MS, LONG_AGO_MS = NOW_MS - 1_000, NOW_MS - 60_000


def serving(rate: float, state: str = "serving") -> WorkerBeat:
    return beat(state=state, rate=rate)


class Service(FixedRegistry):
    """A registry and its workers."""

    def __init__(self, tasks: Sequence[TaskView], capacity: int, *beats: WorkerBeat) -> None:
        super().__init__(FixedTasks(*tasks), FixedService(capacity, NOW_MS))
        self.views = list(tasks)
        self.foresight = Foresight(self, FixedWorkers(*beats))


def etas(service: Service) -> list[float | None]:
    return [task.eta_s for task in service.foresight.with_etas(service.views)]


def test_the_end_is_that_of_the_dry_runs() -> None:
    tasks = [task_view("a", 6_000), task_view("b", 2_000, tier="low"), task_view("c", 1_000, start_ms=NOW_MS + 60_000)]
    assert etas(Service(tasks, 1_000, serving(1_000))) == pytest.approx([7.0, 8.0, 61.0])


def test_without_a_worker_no_end_is_foreseen() -> None:
    tasks = [task_view("a", 6_000)]
    for beats in ([], [serving(0, "lost")], [serving(0, "standby")]):
        assert etas(Service(tasks, 1_000, *beats)) == [None]


def test_for_a_channel_that_no_worker_has_no_end_is_foreseen() -> None:
    tasks = [task_view("a", 6_000), task_view("b", 6_000, channel="sms")]
    worker = msgspec.structs.replace(serving(1_000), extra={"channels": ["null"]})
    assert etas(Service(tasks, 1_000, worker)) == [pytest.approx(6.0), None]


def test_a_task_is_not_done_before_its_retry_is_due() -> None:
    waits, passed = SendError("HTTP 429", 1, NOW_MS, 1, NOW_MS + 120_000), SendError("", 1, 0, 1, NOW_MS)
    mostly_sent = TargetCounts(total=10, sent=9, pending=1)
    tasks = [
        task_view("a", 1, targets=mostly_sent, last_error=waits),
        task_view("b", 6_000, last_error=passed, rate=1.0),
    ]
    assert etas(Service(tasks, 1_000, serving(1_000))) == pytest.approx([120.0, 6.0], abs=0.01)


def test_for_a_task_whose_tries_all_fail_no_end_is_foreseen() -> None:
    fails = SendError("HTTP 503", 1, NOW_MS, 1, NOW_MS + 120_000)
    tasks = [task_view("a", 1, last_error=fails), task_view("b", 6_000)]
    assert etas(Service(tasks, 1_000, serving(1_000))) == [None, pytest.approx(6.0, abs=0.01)]


def test_what_the_workers_send_counts_where_they_are_the_limit() -> None:
    slow = task_view("a", 6_000, first_outcome_ms=LONG_AGO_MS)
    assert etas(Service([slow], 1_000, serving(60), serving(40))) == pytest.approx([60.0])
    assert etas(Service([slow], 1_000, serving(950))) == pytest.approx([6.0])
    assert etas(Service([slow], 1_000, serving(0))) == [None], "nothing is being sent: a provider that fails, a retry"
    begun = msgspec.structs.replace(slow, first_outcome_ms=JUST_NOW_MS)
    assert etas(Service([begun], 1_000, serving(60))) == pytest.approx([6.0]), "the rate is not known yet"


def test_cap_that_lets_an_envelope_through_now_and_then_keeps_its_end() -> None:
    """Rates are of the last 3 s, in which none of its envelopes may have been due."""
    capped = task_view("a", 900, cap=9, chunk=100, first_outcome_ms=LONG_AGO_MS)
    assert etas(Service([capped], 1_000, serving(0))) == [pytest.approx(100.0)]
    beside = [capped, task_view("b", 6_000, chunk=100, first_outcome_ms=LONG_AGO_MS)]
    assert etas(Service(beside, 1_000, serving(0))) == [None, None]


def test_without_capacity_and_rate_only_caps_tell() -> None:
    tasks = [task_view("a", 6_000), task_view("b", 500, cap=50)]
    assert etas(Service(tasks, 0, serving(0))) == [None, pytest.approx(10.0)]


def test_of_an_audience_that_still_comes_no_end_is_foreseen_unless_its_size_is_known() -> None:
    """One whose submitter had died after it had published nothing was said to be done in 0 s."""
    died = task_view("a", 0, sealed=False, expected_targets=-1)
    streams = task_view("b", 500, sealed=False, expected_targets=-1)
    over = task_view("c", 500, sealed=False, expected_targets=400)
    known = task_view("d", 500, sealed=False, expected_targets=2_000)
    broken = task_view("e", 0, sealed=False, expected_targets=2_000)
    found = etas(Service([died, streams, over, known, broken], 1_000, serving(1_000)))
    assert found == [None, None, None, pytest.approx(5.0, abs=0.1), None]


def test_paused_and_ended_tasks_get_no_estimate() -> None:
    ended = task_view("b", state="completed", finished_ms=5, eta_s=0.0)
    service = Service([task_view("a", 6_000, state="paused"), ended], 1_000, serving(9))
    assert etas(service) == [None, 0.0]
    assert service.tasks.reads == 0, "the other tasks are not read for these"


def test_an_estimate_is_used_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service([task_view("a", 6_000)], 1_000, serving(9))
    found = service.foresight
    for _ in range(5):
        found.with_etas(service.views)
    assert service.tasks.reads == 1
    monkeypatch.setattr(foresight, "_KEPT_S", 0.0)
    monkeypatch.setattr(foresight, "_KEPT_COSTS", 0)
    always = Service([task_view("a", 6_000)], 1_000, serving(9))
    for _ in range(3):
        always.foresight.with_etas(always.views)
    assert always.tasks.reads == 3


def test_the_live_tasks_are_read_once_for_themselves_and_their_estimates() -> None:
    service = Service([task_view("a", 6_000)], 1_000, serving(9))
    assert [task.eta_s for task in service.foresight.live()] == pytest.approx([6.0])
    assert service.tasks.reads == 1
