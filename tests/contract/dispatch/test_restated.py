"""Records repeated in the control topic change nothing in a view that has them, and restore one that has not."""

import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import LIVE_TASK, TASK_VIEW
from backends.redis.view import RedisView
from backends.redis.view_records import ViewRecords
from dispatcher.model.task import TOMBSTONE_MS
from dispatcher.model.task_control import edited_message
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.control import ControlRecord, Restated, encode_control
from tests.contract.memory_twins import contents_of
from tests.contract.registry_records import change, placed, position, sealed, setting, task_record
from tests.records import checkpoint, edit_text, finished

DAY_MS = 86_400_000
TASKS = ["t1", "t2"]
ACCEPTED: list[ControlRecord] = [task_record("t1", cap=40), task_record("t2", shared=True)]


numbers = st.integers(1, 99)
tasks = st.sampled_from(TASKS)
plain_changes: st.SearchStrategy[ControlRecord] = st.one_of(
    st.builds(lambda to: setting("capacity", str(to)), numbers),
    st.builds(lambda to: setting("cap:channel:null", f"{to}:5"), numbers),
    st.builds(lambda on, at: setting("channel_paused:null", on, at), st.sampled_from("01"), numbers),
    st.builds(lambda task, to: change(task, "weight", str(to)), tasks, numbers),
    st.builds(lambda task, to: change(task, "cap", f"{to}:3"), tasks, numbers),
    st.builds(lambda task, to: change(task, "tier", to), tasks, st.sampled_from(["high", "low"])),
    st.builds(change, tasks, st.just("paused"), st.sampled_from("01"), numbers),
    st.builds(lambda task: change(task, "cancelled", "1"), tasks),
    st.builds(lambda task, why: change(task, "stopped", str(why)), tasks, numbers),
    st.builds(lambda to: change("t2", "lane", f"persistent://fairlane/tasks-{to:02d}/t2"), numbers),
    st.builds(
        lambda task, writer, at: checkpoint(
            task, at, writer=writer, targets=at * 10, refused=at, consumed=at * 11, digest=f"of {writer}"
        ),
        tasks,
        st.sampled_from("0b"),
        numbers,
    ),
    st.builds(lambda task, at: sealed(task, at * 100, ("0", "b")), tasks, numbers),
    st.builds(lambda at: finished("t2", at, at_ms=at), numbers),
)
edits = st.builds(lambda task, to: change(task, "override", edit_text(1, {"n": to})), tasks, numbers)
logs = st.lists(plain_changes | edits, max_size=12)

LAWS = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def as_read(restated: Sequence[Restated]) -> list[tuple[str, ControlRecord]]:
    """Return the records as the fold reads them at the end of the topic."""
    return [read_control(position(999), encode_control(record)) for record in restated]


def restated_of(view: RedisView) -> list[Restated]:
    records = ViewRecords(view)
    return [*records.settings(), *records.of_tasks(TASKS)]


def contents(view: RedisView) -> dict[bytes, object]:
    """Every key but the feed, whose entries have times; the version counts them."""
    found = contents_of(view.client, f"{view.keys.prefix}:*")
    found.pop(view.keys.feed.encode(), None)
    return found


def shown(registry: Registry) -> object:
    """Settings, and all that is said of the tasks but how often their messages were edited."""
    known = registry.tasks.named(TASKS, TASK_VIEW)
    live = [
        task._replace(override=edited_message(task.override) if task.override else b"")
        for task in registry.tasks.named(TASKS, LIVE_TASK, ended=False)
    ]
    rows = [registry.submissions.submission(task) for task in TASKS]
    sealed_by = [(row.state, row.seal, row.shared, row.checkpoint) for row in rows if row]
    return registry.service.globals(), registry.service.channel_pauses("null")[-1:], known, live, sealed_by


@LAWS
@given(before=logs, meanwhile=logs)
def test_restated_records_change_nothing_whatever_is_changed_meanwhile(
    registry: Registry, view: RedisView, before: list[ControlRecord], meanwhile: list[ControlRecord]
) -> None:
    log = placed(*ACCEPTED, *before, *meanwhile)
    read_at = len(ACCEPTED) + len(before)
    view.wipe()
    registry.control.apply_all(log[:read_at])
    restated = as_read(restated_of(view))
    registry.control.apply_all(restated)
    registry.control.apply_all(log[read_at:])
    wanted = contents(view)
    registry.control.apply_all(restated)
    assert contents(view) == wanted

    view.wipe()
    registry.control.apply_all(log)
    assert contents(view) == wanted


@LAWS
@given(forgotten=logs, kept=logs, meanwhile=logs, chance=st.randoms(use_true_random=False))
def test_a_topic_that_forgot_the_beginning_still_makes_the_view(
    registry: Registry,
    view: RedisView,
    forgotten: list[ControlRecord],
    kept: list[ControlRecord],
    meanwhile: list[ControlRecord],
    chance: random.Random,
) -> None:
    log = placed(*ACCEPTED, *forgotten, *kept, *meanwhile)
    first_kept, read_at = len(ACCEPTED) + len(forgotten), len(ACCEPTED) + len(forgotten) + len(kept)
    view.wipe()
    registry.control.apply_all(log[:read_at])
    restated = as_read(restated_of(view))
    registry.control.apply_all(log[read_at:])
    wanted = shown(registry)

    view.wipe()
    left = [*log[first_kept:], *restated]
    chance.shuffle(left)
    registry.control.apply_all(left)
    assert shown(registry) == wanted


def test_what_is_restated_late_never_undoes_what_was_restated_since(registry: Registry, view: RedisView) -> None:
    """The change itself, which stood between the two, is forgotten."""
    registry.control.apply_all(placed(*ACCEPTED, setting("capacity", "100")))
    late = as_read(restated_of(view))
    registry.control.apply_all(placed(setting("capacity", "200"), change("t1", "paused", "1", 5), first=7))
    since = as_read(restated_of(view))
    for order in itertools.permutations([late, since]):
        view.wipe()
        registry.control.apply_all(list(itertools.chain.from_iterable(order)))
        assert registry.service.globals().capacity == 200
        assert [task.state for task in registry.tasks.named(["t1"], LIVE_TASK, ended=False)] == ["paused"]


def test_a_task_whose_end_is_restated_behind_it_has_ended(registry: Registry, view: RedisView) -> None:
    """It ended while it was read and written; the topic has forgotten its end, but not that it was restated."""
    registry.control.apply_all(placed(*ACCEPTED))
    first = as_read(restated_of(view))
    registry.control.apply(position(5), finished("t1", 7, at_ms=77))
    second = as_read(restated_of(view))
    for order in itertools.permutations([first, second]):
        view.wipe()
        registry.control.apply_all(list(itertools.chain.from_iterable(order)))
        (ended, _) = registry.tasks.named(TASKS, TASK_VIEW)
        assert (ended.state, ended.finished_ms, ended.targets.sent) == ("completed", 77, 7)
        assert [task.id for task in registry.tasks.live(LIVE_TASK)] == ["t2"]


@pytest.fixture
def old_and_new(registry: Registry, view: RedisView) -> ViewRecords:
    """Accepted on day 0, 1 or 9; ended on day 10, on day 3, or not."""
    lives = {"old": (0, None), "new": (9, None), "old-ended": (0, 10), "new-ended": (10, 10), "long-ended": (1, 3)}
    for task, (accepted, ended) in lives.items():
        registry.control.apply(position(1), task_record(task, created_ms=accepted * DAY_MS))
        if ended is not None:
            registry.control.apply(position(2), finished(task, at_ms=ended * DAY_MS))
    return ViewRecords(view)


def test_tasks_that_live_long_are_restated_and_their_ends(old_and_new: ViewRecords) -> None:
    found = old_and_new.tasks(accepted_before_ms=8 * DAY_MS, ended_since_ms=9 * DAY_MS, lived_ms=DAY_MS)
    assert sorted(found) == ["old", "old-ended"]
    assert old_and_new.of_tasks(["nobody-knows"]) == []


def test_when_it_was_done_is_remembered_for_days(view: RedisView) -> None:
    records = ViewRecords(view)
    assert records.last_ms() == 0
    records.restated(123)
    assert records.last_ms() == 123
    assert 14 * DAY_MS < view.client.pttl(view.keys.restated) <= TOMBSTONE_MS
