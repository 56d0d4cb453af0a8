"""The registry's lists, settings and pauses, over every Redis and Valkey there is on this machine."""

from itertools import chain
from typing import Any

from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import LIVE_TASK, MARKED_VIEW, TASK_TIMES, TASK_VIEW
from backends.redis.registry.tasks import ANY, LIVE, TaskSelection
from dispatcher.analysis.task_times import Switch
from dispatcher.model.tier import Tier
from tests.contract.registry_records import change, placed, position, setting, task_record
from tests.records import checkpoint, finished


def listed(registry: Registry, **wanted: Any) -> list[str]:
    """Return the ids of the selected tasks."""
    return [task.id for task in registry.tasks.page(TaskSelection(**wanted), TASK_VIEW).tasks]


def paged(registry: Registry, selection: TaskSelection) -> list[list[str]]:
    """Return the ids of the selected tasks, three to a page."""
    pages, cursor = list[list[str]](), None
    while cursor is not None or not pages:
        page = registry.tasks.page(selection, TASK_VIEW, limit=3, cursor=cursor)
        pages.append([task.id for task in page.tasks])
        cursor = page.cursor
    return pages


def test_lists_come_newest_first_in_pages(registry: Registry) -> None:
    for number in range(7):
        registry.control.apply(position(number), task_record(f"t{number}", created_ms=1_000 + number // 2))
    assert paged(registry, ANY) == [["t6", "t5", "t4"], ["t3", "t2", "t1"], ["t0"]]


def test_lists_are_filtered(registry: Registry) -> None:
    registry.control.apply_all(placed(task_record("a"), task_record("b", tier=Tier.LOW), task_record("c", app="bank")))
    registry.control.apply(position(4), finished("c"))
    assert listed(registry, tier="low") == ["b"]
    assert listed(registry, app="bank") == ["c"]
    assert listed(registry, state="running") == ["b", "a"]
    assert listed(registry, state="completed", app="shop") == []
    assert sorted(task.id for task in registry.tasks.live(TASK_VIEW)) == ["a", "b"]


def test_thousands_of_tasks_are_each_seen_once(registry: Registry) -> None:
    names = [f"t{number}" for number in range(2_500)]
    registry.control.apply_all(
        [(position(number), task_record(name, created_ms=5)) for number, name in enumerate(names)]
    )
    tasks = registry.tasks
    for found in (tasks.live(LIVE_TASK), tasks.page(ANY, LIVE_TASK, None).tasks, tasks.named(names, LIVE_TASK)):
        assert len(found) == len(names)
        assert {task.id for task in found} == set(names)


def test_the_last_word_on_the_whole_service_counts(registry: Registry) -> None:
    assert registry.service.globals().tier_weights == {"high": 6, "medium": 3, "low": 1}
    registry.control.apply(position(2), setting("capacity", "3000"))
    registry.control.apply(position(1), setting("capacity", "100"))
    registry.control.apply(position(3), setting("tiers", "5000:4000:500"))
    found = registry.service.globals()
    assert (found.capacity, found.tier_weights) == (3_000, {"high": 5, "medium": 4, "low": 0.5})


def test_tasks_are_listed_by_what_is_asked_for(registry: Registry) -> None:
    for number, name in enumerate(["sale-1", "sale-2", "news-1"]):
        record = task_record(name, channel="sms" if number == 1 else "null", created_ms=number)
        registry.control.apply(position(number), record)
    assert listed(registry, id_prefix="sale-") == ["sale-2", "sale-1"]
    assert listed(registry, channel="sms") == ["sale-2"]
    assert listed(registry, id_prefix="sale-", channel="null") == ["sale-1"]
    first = registry.tasks.page(TaskSelection(id_prefix="sale-"), TASK_VIEW, limit=1)
    second = registry.tasks.page(TaskSelection(id_prefix="sale-"), TASK_VIEW, limit=1, cursor=first.cursor)
    assert [task.id for task in [*first.tasks, *second.tasks]] == ["sale-2", "sale-1"]
    assert [task.channel for task in first.tasks] == ["sms"]


def test_live_tasks_are_read_by_pages(registry: Registry) -> None:
    for number in range(7):
        registry.control.apply(position(number), task_record(f"t{number}"))
    pages = paged(registry, LIVE)
    assert len(pages) == 3
    assert sorted(chain.from_iterable(pages)) == [f"t{number}" for number in range(7)]


def test_a_look_says_what_a_watch_goes_by(registry: Registry) -> None:
    before = registry.service.read_state()
    registry.control.apply_all(placed(task_record(), setting("channel_paused:sms", "1")))
    registry.sides.add("side")
    look = registry.service.read_state()
    assert look.version == before.version + 2
    assert look.paused == frozenset({"sms"})
    assert look.sides == frozenset({"side"}) == registry.sides.topics()
    registry.sides.drop("side")
    assert registry.service.read_state().sides == frozenset()


def test_a_checkpoint_is_announced_if_the_task_had_nothing_to_send(registry: Registry) -> None:
    registry.control.apply(position(1), task_record())
    version = registry.service.read_state().version
    registry.control.apply(position(2), checkpoint("t1", 1, targets=10))
    assert registry.service.read_state().version == version + 1
    registry.control.apply(position(3), checkpoint("t1", 2, targets=20))
    assert registry.service.read_state().version == version + 1


def test_pauses_are_known_in_the_order_of_the_topic(registry: Registry) -> None:
    changes = [change("t1", "paused", value, at_ms) for value, at_ms in (("1", 10), ("0", 30), ("1", 50))]
    stored = placed(*changes, first=2)
    registry.control.apply_all([stored[2], stored[0], (position(1), task_record()), stored[1], stored[0]])
    [times] = registry.tasks.named(["t1"], TASK_TIMES)
    assert times.pauses == [Switch(10, paused=True), Switch(30, paused=False), Switch(50, paused=True)]


def test_pauses_of_a_channel_are_known(registry: Registry) -> None:
    for at, value in ((3, "0"), (1, "1"), (4, "1"), (1, "1")):
        registry.control.apply(position(at), setting("channel_paused:sms", value, at))
    assert registry.service.channel_pauses("sms") == [
        Switch(1, paused=True),
        Switch(3, paused=False),
        Switch(4, paused=True),
    ]
    assert registry.service.channel_pauses("push") == []
    assert registry.service.globals().paused_channels == frozenset({"sms"})


def test_of_very_many_pauses_the_last_are_known(registry: Registry) -> None:
    registry.control.apply(position(1), task_record())
    changes = [change("t1", "paused", str(number % 2), number) for number in range(2, 250)]
    registry.control.apply_all(placed(*changes, first=2))
    [times] = registry.tasks.named(["t1"], TASK_TIMES)
    assert [switch.at_ms for switch in times.pauses] == list(range(150, 250))


def test_mark_that_comes_with_a_task_is_its_mark_until_the_task_changes(registry: Registry) -> None:
    registry.control.apply_all(placed(task_record("a"), task_record("b")))
    assert registry.tasks.live_ids(0, 10) == ["a", "b"]
    read = {task.id: mark for task, mark in registry.tasks.named(["a", "b"], MARKED_VIEW)}
    assert read == registry.tasks.live_marks(0, 10)
    registry.control.apply(position(3), change("a", "weight", "2000"))
    assert {id_ for id_, mark in registry.tasks.live_marks(0, 10).items() if mark != read[id_]} == {"a"}
