"""A view that an older version left in Redis, and a snapshot it made, are read by today's code."""

import pytest

from backends.redis.epochs import Epochs
from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import TASK_VIEW
from backends.redis.registry.tasks import ANY
from backends.redis.view import RedisView
from backends.redis.view_records import ViewRecords
from backends.redis.workers import Workers
from dispatcher.model.service_settings import Cap, Limits
from dispatcher.wire.control import encode_control
from dispatcher.wire.control_checks import read_control
from dispatcher.wire.outcome import Outcomes, Run, encode_record
from dispatcher.wire.snapshot import Chunk, check, parts_of, records_of
from dispatcher.wire.topics import Topics
from quotas.fold import RedisFold
from quotas.ledger import RedisLedger
from quotas.snapshots import RedisSnapshots
from tests.contract.ledger_worlds import ask_own, request
from tests.contract.registry_records import submission_of, task_of
from tests.formats.frozen import VERSIONS, frozen, put_view

STATES = {
    "cancelled": "cancelled", "cancelling": "cancelled", "completed": "completed", "expired": "expired",
    "held": "running", "lapsed": "expired", "moved": "running", "paused": "paused", "running": "running",
    "scheduled": "scheduled", "small": "running", "spark": "running",
}  # fmt: skip
TOPICS = Topics(outcome_partitions=2)


@pytest.fixture(params=VERSIONS)
def old_view(request: pytest.FixtureRequest, view: RedisView) -> RedisView:
    put_view(request.param, view)
    view.command("HSET", view.keys.epoch, "run_id", view.run_id())  # else Redis counts as restarted
    return view


def shown(view: RedisView) -> dict[str, str]:
    return {task.id: task.state for task in Registry(view).tasks.page(ANY, TASK_VIEW).tasks}


def test_every_task_is_shown_in_its_state(old_view: RedisView) -> None:
    assert shown(old_view) == STATES


def test_a_task_is_shown_as_it_was(old_view: RedisView) -> None:
    task = task_of(Registry(old_view), "running")
    assert (task.tier, task.weight, task.cap, task.cap_burst) == ("high", 1.5, 400, 50)
    assert (task.targets.total, task.targets.sent, task.targets.pending) == (60, 27, 31)
    [moved] = Registry(old_view).tasks.named(["moved"], TASK_VIEW)
    assert moved.lane == TOPICS.own_lane("moved")


def test_the_settings_of_the_service_are_read(old_view: RedisView) -> None:
    stored = Registry(old_view).service.globals()
    assert (stored.capacity, stored.burst, stored.sharing) == (5_000, 1_000, "apps")
    assert stored.tier_weights == {"high": 5, "medium": 3, "low": 2}
    assert stored.cap("app_channel/news/http") == Cap(50)
    assert stored.paused_channels == {"log"}
    assert stored.limits_of("shop") == Limits(50, 10_000_000)


def test_its_epoch_workers_and_submissions_are_read(old_view: RedisView) -> None:
    epoch = Epochs(old_view).epoch()
    assert epoch is not None
    assert (epoch.id, epoch.ready, epoch.partitions) == ("3f2a", True, 2)
    (beat,) = Workers(old_view).workers()
    assert (beat.id, beat.version) == ("w-1", "0.1.0")
    row = submission_of(Registry(old_view), "running")
    assert row.seal is not None
    assert row.checkpoint is not None
    assert (row.seal.targets, row.checkpoint.sequence, row.edits) == (60, 6, 1)


def test_restated_it_makes_the_same_tasks_and_settings(old_view: RedisView) -> None:
    records, settings = ViewRecords(old_view), Registry(old_view).service.globals()
    restated = [*records.settings(), *records.of_tasks(list(STATES))]
    old_view.wipe()
    Registry(old_view).control.apply_all([read_control("", encode_control(one)) for one in restated])
    assert (shown(old_view), Registry(old_view).service.globals()) == (STATES, settings)


def test_its_envelopes_are_folded_and_leased(old_view: RedisView) -> None:
    fold, ledger = RedisFold(old_view), RedisLedger(old_view, TOPICS)
    partition = TOPICS.partition_of("running")
    record = Outcomes(
        format=1,
        task="running",
        claim="w-1.2",
        at_ms=5,
        channel="http",
        runs=[Run(writer="0", attempt=0, first=4, count=2, size=10, code=0)],
        mixed=[],
    )
    assert fold.apply(partition, fold.cursor(partition), "9", [encode_record(record)]).applied
    [running] = Registry(old_view).tasks.named(["running"], TASK_VIEW)
    assert running.targets.sent == 47
    assert ledger.lease(request(3, ask_own("spark", 0, 1, size=10))).ready


@pytest.mark.parametrize("version", VERSIONS)
def test_its_snapshot_makes_the_same_tasks(version: str, view: RedisView) -> None:
    records = list(records_of(one.body for one in frozen(version, "snapshot")))
    begun, snapshots = check(records, 2), RedisSnapshots(view)
    assert Epochs(view).begin_epoch("new", 0, 2, restoring=True)
    who = snapshots.begin_restore("new")
    assert all(snapshots.restore_parts(who, parts_of(one)) for one in records if isinstance(one, Chunk))
    assert snapshots.end_restore(who, begun.cursors)
    assert shown(view) == STATES
