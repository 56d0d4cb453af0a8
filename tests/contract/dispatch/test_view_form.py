"""The form of the view in Redis: raised by making it again, never served by workers of another form."""

import threading
from collections.abc import Callable
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from backends.redis.epochs import Epochs
from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import TASK_VIEW
from backends.redis.registry.tasks import ANY
from backends.redis.view import RedisView
from backends.redis.workers import Workers
from consumers.upkeep.snapshots import Restorer
from dispatcher.model.errors import NotReady, Refused
from dispatcher.model.view_form import FORM
from dispatcher.wire.outcome import encode_record
from dispatcher.wire.snapshot import FORMAT as SNAPSHOT_FORMAT
from dispatcher.wire.snapshot import Begun, Cursors, Packer, Record, encode
from fairlane.worker.process.standby import FormWatch, Standby
from fairlane.worker.report.metrics import MetricsServer
from quotas.fold import RedisFold
from quotas.ledger import RedisLedger
from quotas.snapshots import RedisSnapshots
from tests.contract.ledger_worlds import TOPICS, ask_own, outcomes, request, run
from tests.contract.registry_records import epoch_of, position, task_of, task_record
from tests.records import beat
from tests.unit.dispatch.consumers.fakes import Topic


@pytest.fixture
def old_view(view: RedisView) -> RedisView:
    """The view of a version with the form before, whose worker has stopped."""
    Epochs(view).begin_epoch("3f2a", 0, 2)
    Registry(view).control.apply(position(1), task_record("t"))
    Workers(view).beat(beat("w-1", "stopped"))
    view.command("HSET", view.keys.epoch, "form", FORM - 1)
    return view


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
    assert Epochs(old_view).form() == FORM - 1


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
    watch = FormWatch(Epochs(newer(view)))
    watch.check()
    assert watch.closed.is_set()
    assert Epochs(view).form() == FORM + 1


def test_a_key_of_another_type_ends_no_worker(view: RedisView, caplog: pytest.LogCaptureFixture) -> None:
    view.command("SET", view.keys.epoch, "foreign")
    watch = FormWatch(Epochs(view))
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


def test_restore_keeps_the_counts_of_an_older_snapshot_and_reads_the_control_topic_again(view: RedisView) -> None:
    """The older version skipped control records that this one can read."""
    Epochs(view).begin_epoch("old", 0, 2)
    Registry(view).control.apply(position(1), task_record("t"))
    partition, sent = TOPICS.partition_of("t"), encode_record(outcomes("t", run(0, 3)))
    assert RedisFold(view).apply(partition, None, position(9), [sent]).applied
    topic = Topic()
    for record in older_snapshot(RedisSnapshots(view)):
        topic.store(encode(record))
    view.wipe()
    Epochs(view).begin_epoch("new", 0, 2, restoring=True)
    store: Any = SimpleNamespace(numbers=lambda: ["1"], reader=lambda _: topic.open(None))
    Restorer(RedisSnapshots(view), store, 2).restore("new")
    assert RedisSnapshots(view).cursors(2) == Cursors("", [position(9), position(9)])
    assert task_of(Registry(view), "t").targets.sent == 3


def older_snapshot(snapshots: RedisSnapshots) -> list[Record]:
    packer = Packer(1_000)
    begun = Begun(SNAPSHOT_FORMAT - 1, 0, Cursors(position(1), [position(9), position(9)]))
    return [begun, *packer.add(chain.from_iterable(snapshots.parts())), *packer.end()]
