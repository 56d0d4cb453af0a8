"""The form of the view in Redis: raised by making it again, never served by workers of another form."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from backends.redis.epochs import Epochs
from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import TASK_VIEW
from backends.redis.registry.tasks import ANY
from backends.redis.view import RedisView
from backends.redis.view_records import ViewRecords
from backends.redis.workers import Workers
from consumers.upkeep.snapshots import Restorer
from dispatcher.model.errors import NotReady, Refused
from dispatcher.model.pools import Cap, Limits
from dispatcher.model.view import WorkerBeat
from dispatcher.model.view_form import FORM
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.control import encode_control
from dispatcher.wire.older_snapshot import checked
from dispatcher.wire.outcome import encode_record
from dispatcher.wire.snapshot import FORMAT as SNAPSHOT_FORMAT
from dispatcher.wire.snapshot import Begun, Chunk, Cursors, SettingsPart, TaskPart, check, encode, parts_of, records_of
from fairlane.worker.process.standby import FormWatch, Standby
from fairlane.worker.report.metrics import MetricsServer
from quotas.fold import RedisFold
from quotas.ledger import RedisLedger
from quotas.snapshots import RedisSnapshots
from tests.contract.ledger_worlds import TOPICS, ask_own, outcomes, request, run
from tests.contract.registry_records import epoch_of, position, submission_of, task_of, task_record
from tests.formats.frozen import VERSIONS, frozen, put_view
from tests.records import beat
from tests.unit.consumers.fakes import Topic


@pytest.fixture(params=VERSIONS)
def frozen_view(request: pytest.FixtureRequest, view: RedisView) -> RedisView:
    """As an older version left it."""
    put_view(request.param, view)
    view.command("HSET", view.keys.epoch, "run_id", view.run().run_id)  # else Redis counts as restarted
    return view


@pytest.fixture
def old_view(frozen_view: RedisView) -> RedisView:
    """The same, its worker having stopped."""
    Workers(frozen_view).beat(beat("w-1", "stopped"))
    return frozen_view


class EachSecond(threading.Event):
    """A stop signal that lets a second pass at once; then `each` is called."""

    def __init__(self, *each: Callable[[], object]) -> None:
        super().__init__()
        self._each = list(each)

    def wait(self, timeout: float | None = None) -> bool:
        self._each.pop(0)() if self._each else self.set()
        return self.is_set()


def standby(view: RedisView) -> Standby:
    return Standby(Epochs(view), Workers(view), "new", 2)


def state_of(view: RedisView, worker: str) -> str:
    return next((beat.state for beat in Workers(view).workers() if beat.id == worker), "")


def test_an_older_view_without_older_workers_is_made_again(old_view: RedisView) -> None:
    old_view.command("HSET", old_view.keys.epoch, "claim_ms", "60000")
    assert standby(old_view).wait(threading.Event())
    epoch = epoch_of(Epochs(old_view))
    assert (epoch.form, epoch.ready, epoch.restoring, epoch.id != "3f2a") == (FORM, False, True, True)
    assert epoch.wait_ms > 50_000  # the longest claim of the view before
    assert Registry(old_view).tasks.page(ANY, TASK_VIEW).tasks == []


def test_it_stands_by_while_an_older_worker_is_there(old_view: RedisView) -> None:
    workers = Workers(old_view)
    workers.beat(beat("old"))
    before = Registry(old_view).tasks.page(ANY, TASK_VIEW).tasks

    def look() -> None:
        assert state_of(old_view, "new") == "standby"
        assert Registry(old_view).tasks.page(ANY, TASK_VIEW).tasks == before

    assert standby(old_view).wait(EachSecond(look, look, lambda: workers.beat(beat("old", "stopped")), lambda: None))
    assert Epochs(old_view).form() == FORM
    assert state_of(old_view, "new") == "stopped"


def test_metrics_are_served_while_it_stands_by_and_its_port_is_free_for_the_worker(old_view: RedisView) -> None:
    """A rollout waits for them before it stops the older workers."""
    reported: list[str] = []

    class Server(MetricsServer):
        def __init__(self) -> None: ...

        def close(self) -> None:
            reported.append("closed")

    def serve() -> Server:
        reported.append("served")
        return Server()

    workers = Workers(old_view)
    workers.beat(beat("old"))
    waiting = Standby(Epochs(old_view), workers, "new", 2, serve)
    gone = lambda: workers.beat(beat("old", "stopped"))  # noqa: E731
    assert waiting.wait(
        EachSecond(lambda: reported.append("waits"), lambda: reported.append("waits"), gone, lambda: None)
    )
    assert reported == ["served", "waits", "waits", "closed"]


def test_it_leaves_when_it_is_told_to_while_it_stands_by(old_view: RedisView) -> None:
    Workers(old_view).beat(beat("old"))
    assert not standby(old_view).wait(EachSecond(lambda: None))
    assert Epochs(old_view).form() == 1


def test_a_heartbeat_that_cannot_be_read_is_one_without_a_version(old_view: RedisView) -> None:
    old_view.call("beat", "odd", b"\xc1", 60_000)
    assert not standby(old_view).wait(EachSecond(lambda: None))


def test_of_two_that_raise_a_view_at_once_one_does(old_view: RedisView) -> None:
    epochs = Epochs(old_view)
    assert epochs.begin_epoch("first", 0, 2, replaces="3f2a")
    assert not epochs.begin_epoch("second", 0, 2, replaces="3f2a")
    assert not epochs.begin_epoch("third", 0, 2, replaces="first")
    assert not epochs.begin_epoch("fourth", 0, 2)


def newer(view: RedisView) -> RedisView:
    """A view that a later version has raised under this one."""
    Epochs(view).begin_epoch("e", 0, 2)
    view.command("HSET", view.keys.epoch, "ready", "1", "grants_after_ms", 0, "form", FORM + 1)
    Registry(view).control.apply(position(1), task_record("t"))
    return view


@pytest.mark.parametrize(("field", "closed", "served"), [("form", FORM + 1, FORM), ("foreign", "b:6379/0", "")])
def test_nothing_is_granted_or_folded_in_a_view_of_a_higher_form_or_beside_another_redis(
    view: RedisView, field: str, closed: str | int, served: str | int
) -> None:
    newer(view)
    view.command("HSET", view.keys.epoch, "form", FORM, field, closed)
    fold, ask = RedisFold(view), ask_own("t", 0, 1)
    body = encode_record(outcomes("t", run(0, 1)))
    assert not RedisLedger(view, TOPICS).lease(request(1, ask)).ready
    assert not fold.apply(0, None, position(1), [body]).applied
    assert not Registry(view).control.move_cursor(None, position(1), "e", marked=False)
    view.command("HSET", view.keys.epoch, field, served)
    assert RedisLedger(view, TOPICS).lease(request(2, ask)).ready
    assert fold.apply(0, None, position(1), [body]).applied
    assert Registry(view).control.move_cursor(None, position(1), "e", marked=False)


def test_a_worker_leaves_a_view_that_a_newer_version_has_raised(view: RedisView) -> None:
    watch = FormWatch(Epochs(newer(view)), list)
    watch.check()
    assert watch.closed.is_set()
    assert Epochs(view).form() == FORM + 1


def test_a_worker_leaves_its_view_to_an_older_one_that_comes_and_has_it_made_again_after_that(view: RedisView) -> None:
    Epochs(view).begin_epoch("e", 0, 2)
    there: list[WorkerBeat] = []
    watch = FormWatch(Epochs(view), lambda: there)
    watch.check()
    assert not watch.closed.is_set()
    there.append(beat("old"))
    watch.check()
    assert watch.closed.is_set()
    assert Epochs(view).form() == FORM - 1


def test_a_key_of_another_type_ends_no_worker(view: RedisView, caplog: pytest.LogCaptureFixture) -> None:
    view.command("SET", view.keys.epoch, "foreign")
    watch = FormWatch(Epochs(view), list)
    watch.run(EachSecond(lambda: None, lambda: None))
    assert not watch.closed.is_set()
    assert "the form of the view cannot be read: Redis" in caplog.text


@pytest.mark.parametrize(("form", "error"), [(FORM - 1, NotReady), (FORM + 1, Refused)])
def test_a_client_is_told_that_the_view_is_of_another_version(view: RedisView, form: int, error: type) -> None:
    Epochs(view).check_form()
    Epochs(view).begin_epoch("e", 0, 2)
    Epochs(view).check_form()
    view.command("HSET", view.keys.epoch, "form", form)
    with pytest.raises(error, match=f"has form {form}"):
        Epochs(view).check_form()


# ----------------------------------------------------------------- snapshots


def test_of_an_older_snapshot_the_counts_are_kept_and_the_control_topic_is_read_again(view: RedisView) -> None:
    Epochs(view).begin_epoch("new", 0, 2, restoring=True)
    topic = Topic()
    for one in frozen("0.1.0", "snapshot"):
        topic.store(one.body)
    shelf: Any = SimpleNamespace(numbers=lambda: ["1"], reader=lambda _: topic.open(None))
    Restorer(RedisSnapshots(view), shelf, 2).restore("new")
    assert RedisSnapshots(view).cursors(2).control == ""
    assert RedisSnapshots(view).cursors(2).outcomes == [position(99), position(99)]
    task = task_of(Registry(view), "running")
    assert (task.targets.sent, task.cap, task.tier) == (27, 400, "high")


def with_nonsense(kind: type[TaskPart | SettingsPart], field: bytes, text: bytes) -> TaskPart | SettingsPart:
    """The part of the task `running`, or of the settings, with one field replaced."""
    records = records_of(one.body for one in frozen("0.1.0", "snapshot"))
    parts = [part for record in records if isinstance(record, Chunk) for part in parts_of(record)]
    part = next(one for one in parts if isinstance(one, kind) and getattr(one, "task", "running") == "running")
    part.fields[part.fields.index(field) + 1] = text
    return part


@pytest.mark.parametrize(("field", "text"), [(b"tier", b"urgent"), (b"cap", b"x:y"), (b"weight", b"\xff")])
def test_controls_that_make_no_sense_go_and_come_back_from_the_control_topic(
    view: RedisView, field: bytes, text: bytes
) -> None:
    part = with_nonsense(TaskPart, field, text)
    Epochs(view).begin_epoch("new", 0, 2, restoring=True)
    snapshots = RedisSnapshots(view)
    assert snapshots.restore_parts(snapshots.begin_restore("new"), checked([part]))
    records = [read_control(position(at), one.body) for at, one in enumerate(frozen("0.1.0", "control"))]
    Registry(view).control.apply_all(records)
    task = task_of(Registry(view), "running")
    assert (task.tier, task.cap, task.weight, task.targets.sent) == ("high", 400, 1.5, 27)


def test_settings_that_make_no_sense_are_not_restored() -> None:
    part = with_nonsense(SettingsPart, b"capacity", b"1" * 30)
    (sound,) = checked([part])
    assert isinstance(sound, SettingsPart)
    assert not {b"capacity", b"pos|capacity"} & set(sound.fields)
    assert len(sound.fields) == len(part.fields) - 4


def test_a_snapshot_of_today_is_not_used_by_0_1_0() -> None:
    """It reads those of format 1 only."""
    assert msgspec.msgpack.decode(encode(Begun(SNAPSHOT_FORMAT, 0, Cursors("", []))))[1] == FORM > 1


# --------------------- a view that an older version left in Redis, and a snapshot it made, are read by today's code
STATES = {
    "cancelled": "cancelled", "cancelling": "cancelled", "completed": "completed", "expired": "expired",
    "held": "running", "lapsed": "expired", "moved": "running", "paused": "paused", "running": "running",
    "scheduled": "scheduled", "small": "running", "spark": "running",
}  # fmt: skip


def shown(view: RedisView) -> dict[str, str]:
    return {task.id: task.state for task in Registry(view).tasks.page(ANY, TASK_VIEW).tasks}


def test_every_task_is_shown_in_its_state(frozen_view: RedisView) -> None:
    assert shown(frozen_view) == STATES


def test_a_task_is_shown_as_it_was(frozen_view: RedisView) -> None:
    task = task_of(Registry(frozen_view), "running")
    assert (task.tier, task.weight, task.cap, task.cap_burst) == ("high", 1.5, 400, 50)
    assert (task.targets.total, task.targets.sent, task.targets.pending) == (60, 27, 31)
    [moved] = Registry(frozen_view).tasks.named(["moved"], TASK_VIEW)
    assert moved.lane == TOPICS.own_lane("moved")


def test_the_settings_of_the_service_are_read(frozen_view: RedisView) -> None:
    stored = Registry(frozen_view).service.globals()
    assert (stored.capacity, stored.burst, stored.sharing) == (5_000, 1_000, "apps")
    assert stored.tier_weights == {"high": 5, "medium": 3, "low": 2}
    assert stored.cap("app_channel/news/http") == Cap(50)
    assert stored.paused_channels == {"log"}
    assert stored.limits_of("shop") == Limits(50, 10_000_000)


def test_its_epoch_workers_and_submissions_are_read(frozen_view: RedisView) -> None:
    epoch = epoch_of(Epochs(frozen_view))
    assert (epoch.id, epoch.ready, epoch.partitions) == ("3f2a", True, 2)
    (beat,) = Workers(frozen_view).workers()
    assert (beat.id, beat.version) == ("w-1", "0.1.0")
    row = submission_of(Registry(frozen_view), "running")
    assert row.seal is not None
    assert row.checkpoint is not None
    assert (row.seal.targets, row.checkpoint.sequence, row.edits) == (60, 6, 1)


def test_restated_it_makes_the_same_tasks_and_settings(frozen_view: RedisView) -> None:
    records, settings = ViewRecords(frozen_view), Registry(frozen_view).service.globals()
    restated = [*records.settings(), *records.of_tasks(list(STATES))]
    frozen_view.wipe()
    Registry(frozen_view).control.apply_all([read_control("", encode_control(one)) for one in restated])
    assert (shown(frozen_view), Registry(frozen_view).service.globals()) == (STATES, settings)


def test_its_envelopes_are_folded_and_leased(frozen_view: RedisView) -> None:
    fold, ledger = RedisFold(frozen_view), RedisLedger(frozen_view, TOPICS)
    partition = TOPICS.partition_of("running")
    record = outcomes("running", run(4, 2, size=10), claim="w-1.2")
    assert fold.apply(partition, fold.cursor(partition), "9", [encode_record(record)]).applied
    [running] = Registry(frozen_view).tasks.named(["running"], TASK_VIEW)
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
