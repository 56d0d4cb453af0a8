"""The registry over every Redis and Valkey there is on this machine."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import LIVE_TASK, TASK_MESSAGE, TASK_VIEW
from backends.redis.registry.tasks import ANY, TaskSelection
from backends.redis.view import RedisView
from backends.redis.view_records import ViewRecords
from dispatcher.model.task import TOMBSTONE_MS
from dispatcher.model.task_control import Control, edited_message, edits_of
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.control import ControlRecord, encode_control
from tests.contract.dispatch.test_restated import plain_changes, tasks
from tests.contract.memory_twins import contents_of
from tests.contract.registry_records import (
    change,
    placed,
    position,
    ready,
    sealed,
    setting,
    submission_of,
    task_of,
    task_record,
)
from tests.records import checkpoint, edit_text, finished

# ------------------------------------------------------------------------------------------- one task's life


def test_a_task_is_shown_as_accepted(registry: Registry) -> None:
    record = task_record(weight=2_500, cap=40, hold_until_sealed=True, created_ms=123)
    registry.control.apply(position(1), record)

    shown = task_of(registry)
    assert (shown.state, shown.tier, shown.weight, shown.cap, shown.lane) == ("running", "high", 2.5, 40, record.lane)
    assert (shown.created_ms, shown.hold_until_sealed, shown.sealed, shown.ended) == (123, True, False, False)
    assert msgspec.msgpack.encode(submission_of(registry).record) == msgspec.msgpack.encode(record)
    assert registry.tasks.task("t2") is None
    assert registry.submissions.submission("t2") is None


def test_controls_change_what_workers_see(registry: Registry) -> None:
    registry.control.apply(position(1), task_record())
    for number, (field, value) in enumerate({"weight": "3000", "tier": "low", "cap": "7", "paused": "1"}.items(), 2):
        registry.control.apply(position(number), change("t1", field, value))
    (task,) = registry.tasks.live(LIVE_TASK)
    assert (task.weight, task.tier, task.cap, task.state) == (3_000, "low", 7, "paused")
    registry.control.apply(position(9), change("t1", "paused", "0"))
    assert registry.tasks.named(["t1", "t2"], LIVE_TASK, ended=False)[0].state == "running"


@pytest.mark.parametrize(
    ("start_ms", "expires_ms", "state"), [(2**42, 0, "scheduled"), (0, 1, "expired"), (1, 2**42, "running")]
)
def test_state_follows_the_time(registry: Registry, start_ms: int, expires_ms: int, state: str) -> None:
    registry.control.apply(position(1), task_record(start_ms=start_ms, expires_ms=expires_ms))
    assert [task.state for task in registry.tasks.live(LIVE_TASK)] == [state]
    assert [task.state for task in registry.tasks.page(TaskSelection(state=state), TASK_VIEW).tasks] == [state]


def test_a_task_that_leaves_its_shared_lane_weighs_there_no_more(registry: Registry, view: RedisView) -> None:
    shared, own = "persistent://fairlane/shared/low-1", "persistent://fairlane/tasks-01/t1"
    records: list[ControlRecord] = [task_record(shared=True), change("t1", "lane", own), change("t1", "weight", "5000")]
    for order in itertools.permutations(enumerate(records, 1)):
        view.wipe()
        registry.control.apply(position(9), task_record("t2", shared=True))
        for number, record in order:
            registry.control.apply(position(number), record)
        (first,) = registry.tasks.named(["t1"], LIVE_TASK, ended=False)
        assert (first.lane, first.shared, first.weight) == (own, False, 5_000)
        assert view.command("HMGET", f"test:lane:{shared}", "weight", "tasks") == [b"1000", b"1"]


def test_edits_are_numbered_in_the_order_of_the_topic(registry: Registry) -> None:
    registry.control.apply(position(1), task_record())
    first, second, third = (edit_text(number, {"body": text}) for number, text in ((1, "a"), (1, "b"), (2, "c")))
    for number, value in enumerate((first, second, third), 2):
        registry.control.apply(position(number), change("t1", "override", value))
        registry.control.apply(position(number), change("t1", "override", value))
    (task,) = registry.tasks.live(LIVE_TASK)
    assert edits_of(task.override.decode()) == 3
    assert msgspec.msgpack.decode(edited_message(task.override)) == {"body": "c"}
    registry.control.apply(position(3), change("t1", "override", second))
    assert registry.tasks.live(LIVE_TASK)[0].override == task.override


def test_the_present_message_is_the_last_edit_or_the_submitted_one(registry: Registry) -> None:
    def message() -> list[dict[str, Any]]:
        return registry.tasks.named(["t1"], TASK_MESSAGE)

    assert message() == []
    registry.control.apply(position(1), task_record())
    assert message() == [{"title": "Sale"}]
    registry.control.apply(position(2), change("t1", "override", edit_text(1, {"body": "b"})))
    assert message() == [{"body": "b"}]
    registry.control.apply(position(3), finished("t1"))
    assert message() == [{}]


def test_a_cancel_is_never_taken_back(registry: Registry) -> None:
    registry.control.apply_all(placed(task_record(), change("t1", "cancelled", "1"), change("t1", "cancelled", "0")))
    registry.control.apply(position(4), change("t1", "paused", "0"))
    assert [task.state for task in registry.tasks.live(LIVE_TASK)] == ["cancelled"]


def test_a_stop_is_never_taken_back_and_its_first_reason_counts(registry: Registry, view: RedisView) -> None:
    stops = [change("t1", "stopped", reason) for reason in ("first", "second", "")]
    records: list[ControlRecord] = [task_record(), *stops, change("t1", "paused", "1")]
    for order in itertools.permutations(list(enumerate(records, 1))):
        view.wipe()
        registry.control.apply_all([(position(number), record) for number, record in order])
        shown = task_of(registry)
        assert (shown.state, shown.reason) == ("failed", "first")
    registry.control.apply(position(9), change("t1", "cancelled", "1"))
    cancelled = task_of(registry)
    assert (cancelled.state, cancelled.reason) == ("cancelled", "")


def test_the_reason_for_which_a_task_failed_is_shown_and_restated(registry: Registry, view: RedisView) -> None:
    registry.control.apply_all(placed(task_record(), change("t1", "stopped", "stopped first")))
    ended = finished("t1", 1, 0, 0, 0, 2, state="failed", at_ms=5, reason="no credential")
    registry.control.apply(position(3), ended)
    before = task_of(registry)
    assert (before.state, before.reason) == ("failed", "no credential")
    assert [task.id for task in registry.tasks.page(TaskSelection(state="failed"), TASK_VIEW).tasks] == ["t1"]
    restated = ViewRecords(view).of_tasks(["t1"])
    view.wipe()
    registry.control.apply_all([read_control("", encode_control(record)) for record in restated])
    assert registry.tasks.task("t1") == before


@pytest.mark.parametrize(("reason", "stored"), [("é" * 2_000, 1_024), ("a\ud800b", 8)])
def test_a_reason_is_cut_to_what_a_record_can_hold(reason: str, stored: int) -> None:
    """A single surrogate is escaped."""
    assert len(Control.of("stopped", reason).text.encode()) == stored


def test_resuming_starts_from_the_furthest_checkpoint(registry: Registry) -> None:
    registry.control.apply(position(1), task_record())
    for number, sequence in enumerate((2, 7, 5), 2):
        counts = {"targets": sequence * 100, "refused": sequence, "consumed": sequence * 101}
        registry.control.apply(position(number), checkpoint("t1", sequence, digest=f"digest {sequence}", **counts))

    found = submission_of(registry)
    assert found.checkpoint is not None
    assert (found.checkpoint.sequence, found.checkpoint.digest) == (7, "digest 7")
    assert found.seal is None
    shown = task_of(registry)
    assert (shown.targets.total, shown.targets.pending, shown.refused) == (700, 700, 7)


def test_checkpoints_of_several_writers_add_up(registry: Registry) -> None:
    registry.control.apply(position(1), task_record())
    for number, writer in enumerate(("a", "b", "a"), 2):
        point = checkpoint("t1", number, writer=writer, targets=number * 10, refused=1)
        registry.control.apply(position(number), point)
    assert [task.published for task in registry.tasks.live(LIVE_TASK)] == [30 + 40]


def test_the_seal_that_counts_is_the_first(registry: Registry, view: RedisView) -> None:
    registry.control.apply(position(1), task_record())
    registry.control.apply(position(3), sealed("t1", 999, ("b",)))
    registry.control.apply(position(2), sealed("t1", 500, ("a", "c")))
    found = submission_of(registry)
    assert found.seal is not None
    assert (found.seal.targets, found.seal.writers, found.seal.refused) == (500, ["a", "c"], 3)
    assert view.command("HMGET", view.keys.task("t1"), "total", "writers", "sealed") == [b"500", b"a,c", b"1"]


def test_a_seal_that_was_read_completes_a_task_until_its_end_is_written(registry: Registry, view: RedisView) -> None:
    ready(view)
    registry.control.apply(position(1), task_record())
    view.command("HSET", view.keys.task("t1"), "sent", 10, "finals", 10)
    assert registry.tasks.complete() == []
    registry.control.apply(position(2), sealed("t1", 10))
    assert registry.tasks.complete() == registry.control.complete_among(["t1", "t2"]) == []
    view.command("HSET", view.keys.control, "cursor", position(2))
    assert registry.tasks.complete() == registry.control.complete_among(["t1", "t2"]) == ["t1"]
    registry.control.apply(position(3), finished("t1", 10, at_ms=5))
    registry.control.apply(position(2), sealed("t1", 10))
    assert registry.tasks.complete() == registry.control.complete_among(["t1", "t2"]) == []


def test_a_complete_task_is_found_among_many_live_ones(registry: Registry, view: RedisView) -> None:
    """Redis is asked for a page of them at a time."""
    ready(view)
    view.command("HSET", view.keys.control, "cursor", position(1_000))
    tasks = [f"t{number}" for number in range(450)]
    for number, task in enumerate(tasks):
        registry.control.apply(position(number), task_record(task, created_ms=1_700_000_000_000 + number))
    registry.control.apply(position(1_000), sealed(tasks[-1], 0))
    assert registry.tasks.complete() == [tasks[-1]]


def test_a_view_being_rebuilt_ends_no_task(registry: Registry, view: RedisView) -> None:
    registry.control.apply_all(placed(task_record(), sealed("t1", 0)))
    view.command("HSET", view.keys.control, "cursor", position(2))
    assert registry.tasks.complete() == registry.control.complete_among(["t1"]) == []


def test_an_ended_task_leaves_its_tombstone_only(registry: Registry, view: RedisView) -> None:
    registry.control.apply(position(1), task_record())
    keys = view.keys
    for key in (keys.final("t1", "a"), keys.touched("t1", "a"), keys.final("t1", "0"), keys.open("t1")):
        view.command("SET", key, "x")
    registry.control.apply(position(2), sealed("t1", 10, ("a", "b")))
    registry.control.apply(position(3), finished("t1", 4, 1, 0, 0, 5, state="cancelled", at_ms=77))

    shown = task_of(registry)
    assert (shown.state, shown.ended, shown.finished_ms, shown.eta_s) == ("cancelled", True, 77, 0.0)
    assert msgspec.structs.astuple(shown.targets) == (10, 4, 1, 0, 0, 5, 0)
    assert registry.tasks.live(LIVE_TASK) == []
    assert registry.tasks.ended_since(77) == ["t1"]
    assert registry.tasks.ended_since(78) == []
    assert [(task.id, task.finished_ms) for task in registry.tasks.named(["t1", "t2"], TASK_VIEW, ended=True)] == [
        ("t1", 77)
    ]
    assert registry.tasks.ends(["t1", "t2"]) == {"t1": True}
    assert [task.id for task in registry.tasks.page(TaskSelection(state="cancelled"), TASK_VIEW).tasks] == ["t1"]
    assert sorted(view.client.scan_iter("test:*:t1*")) == [keys.task("t1").encode()]
    assert 0 <= TOMBSTONE_MS - view.command("PTTL", keys.task("t1")) < 60_000


def test_a_task_of_thousands_of_writers_ends(registry: Registry, view: RedisView) -> None:
    writers = [f"part-{number}" for number in range(5_000)]
    registry.control.apply_all(placed(task_record(), sealed("t1", 10, tuple(writers))))
    view.command("SET", view.keys.final("t1", writers[-1]), "x")
    registry.control.apply(position(3), finished("t1", 10, at_ms=77))
    assert registry.tasks.ends(["t1"]) == {"t1": True}
    assert sorted(view.client.scan_iter("test:*:t1*")) == [view.keys.task("t1").encode()]


def test_a_tombstone_that_expired_leaves_the_lists(registry: Registry, view: RedisView) -> None:
    registry.control.apply_all(placed(task_record(), finished("t1", at_ms=77)))
    view.command("DEL", view.keys.task("t1"))
    assert registry.tasks.page(ANY, TASK_VIEW)[1:] == ([], None)
    assert registry.tasks.named(registry.tasks.ended_since(0), TASK_VIEW, ended=True) == []
    assert registry.tasks.prune() == 1
    assert view.command("EXISTS", view.keys.ended, view.keys.index) == 0


def test_what_comes_before_the_task_record_is_kept(registry: Registry, view: RedisView) -> None:
    registry.control.apply(position(2), change("t1", "paused", "1"))
    assert registry.tasks.task("t1") is None
    assert registry.tasks.page(ANY, TASK_VIEW)[1:] == ([], None)
    assert view.command("PTTL", view.keys.task("t1")) > 0
    registry.control.apply(position(1), task_record())
    assert [task.state for task in registry.tasks.live(LIVE_TASK)] == ["paused"]
    assert view.command("PTTL", view.keys.task("t1")) == -1


def test_a_shared_lane_weighs_what_its_live_tasks_weigh(registry: Registry, view: RedisView) -> None:
    lane = view.keys.lane(task_record(shared=True).lane)
    registry.control.apply_all(placed(task_record("a", shared=True), task_record("b", shared=True, weight=2_000)))
    registry.control.apply_all(placed(task_record("c", weight=5_000), change("a", "weight", "4000"), first=3))
    assert view.command("HGETALL", lane) == {b"weight": b"6000", b"tasks": b"2"}
    registry.control.apply(position(5), finished("b"))
    assert view.command("HGETALL", lane) == {b"weight": b"4000", b"tasks": b"1"}
    registry.control.apply(position(6), finished("a"))
    assert view.command("EXISTS", lane) == 0


def test_rate_is_nothing_once_it_is_stale(registry: Registry, view: RedisView) -> None:
    registry.control.apply_all(placed(task_record(), sealed("t1", 1_000)))
    key, now_ms = view.keys.task("t1"), view.now_ms()
    view.command("HSET", key, "finals", 400, "sent", 400, "rate", "120.5", "rate_ms", now_ms)
    shown = task_of(registry)
    assert (shown.rate, shown.eta_s) == (120.5, None)
    view.command("HSET", key, "rate_ms", now_ms - 3_500)
    shown = task_of(registry)
    assert (shown.rate, shown.eta_s) == (0.0, None)


# ------------------------------------------------------------------------------------------- the fold as a whole

_small = st.integers(0, 50)
RECORDS = st.one_of(
    st.builds(
        lambda task, shared, weight, created_ms, first: task_record(
            task, shared=shared, weight=weight, created_ms=created_ms, first=0 if shared else first
        ),
        tasks,
        st.booleans(),
        st.integers(1, 9_000),
        st.integers(1, 5),
        st.sampled_from([0, 0, 100]),
    ),
    plain_changes,
    st.builds(sealed, tasks, _small, st.sampled_from([("0",), ("w", "x")])),
    st.builds(
        lambda task, state, counts: finished(task, *counts, state=state, at_ms=9),
        tasks,
        st.sampled_from(["completed", "cancelled"]),
        st.lists(_small, min_size=5, max_size=5),
    ),
    st.builds(lambda low: setting("tiers", f"6000:3000:{low}"), st.integers(1, 999)),
)  # fmt: skip


def everything(view: RedisView) -> dict[bytes, object]:
    """All of Redis but the feed and the version, which tell how it came about."""
    found = contents_of(view.client, "test:*")
    return {key: value for key, value in found.items() if key not in (b"test:feed", b"test:version")}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), records=st.lists(RECORDS, min_size=1, max_size=12))
def test_any_order_and_any_copies_give_the_same_view(
    view: RedisView, registry: Registry, data: st.DataObject, records: list[ControlRecord]
) -> None:
    stored = placed(*records)
    view.wipe()
    registry.control.apply_all(stored)
    expected = everything(view)
    copies = data.draw(st.lists(st.sampled_from(stored), max_size=6))
    shuffled = data.draw(st.permutations([*stored, *copies]))

    view.wipe()
    for at, record in shuffled:
        registry.control.apply(at, record)
    assert everything(view) == expected


def test_wipe_leaves_other_prefixes_alone_and_applying_again_restores(registry: Registry, view: RedisView) -> None:
    view.command("SET", "testing:1", "mine")
    records: list[ControlRecord] = [
        task_record("t1"),
        task_record("t2", shared=True),
        change("t1", "paused", "1"),
        sealed("t1", 5),
        finished("t2", 1, at_ms=3),
        setting("capacity", "3000"),
    ]
    stored = placed(*records)
    registry.control.apply_all(stored)
    expected = everything(view)
    assert view.wipe() > len(expected)
    assert everything(view) == {}
    assert registry.service.globals().capacity == 0
    registry.control.apply_all(stored)
    assert everything(view) == expected
    assert view.command("GET", "testing:1") == b"mine"
    view.command("DEL", "testing:1")
