"""Control records as they are applied: what workers are told of, what is kept, and how far the topic is read."""

import pytest

from backends.redis.registry.registry import Registry
from backends.redis.view import RedisView
from dispatcher.wire.control import ControlRecord
from tests.contract.registry_records import change, position, ready, sealed, setting, task_record
from tests.records import checkpoint, edit_text, finished

CHANGES: dict[str, ControlRecord] = {
    "weight": change("t1", "weight", "2500"),
    "tier": change("t1", "tier", "low"),
    "cap": change("t1", "cap", "40"),
    "pause": change("t1", "paused", "1"),
    "cancel": change("t1", "cancelled", "1"),
    "stop": change("t1", "stopped", "no credential"),
    "close": change("t1", "close", "envelopes were lost"),
    "edit": change("t1", "override", edit_text(1, {"title": "Sale"})),
    "more to send": checkpoint("t1", 1, targets=10),
    "seal": sealed("t1", 10),
    "end": finished("t1", 10, at_ms=77),
    "setting": setting("capacity", "500"),
}


@pytest.mark.parametrize("record", CHANGES.values(), ids=CHANGES)
def test_workers_hear_of_every_change_at_once(registry: Registry, record: ControlRecord) -> None:
    registry.control.apply(position(1), task_record())
    before = registry.service.read_state().version
    registry.control.apply(position(2), record)
    assert registry.service.read_state().version == before + 1


@pytest.mark.parametrize("seal_comes", ["before the end", "after it", "after it, and is stored before it"])
def test_nothing_of_its_envelopes_is_kept_of_an_ended_task(
    registry: Registry, view: RedisView, seal_comes: str
) -> None:
    """Two workers may apply the two records in either order."""
    end = finished("t1", 10, at_ms=77)
    log: list[tuple[int, ControlRecord]] = [(2, sealed("t1", 10, ("a",))), (3, end)]
    if seal_comes == "after it":
        log = [(2, end), (3, log[0][1])]
    elif seal_comes != "before the end":
        log.reverse()
    registry.control.apply(position(1), task_record())
    for key in (view.keys.final("t1", "a"), view.keys.touched("t1", "a")):
        view.command("SET", key, "x")
    for number, record in log:
        registry.control.apply(position(number), record)
    assert sorted(view.client.scan_iter("test:*:t1*")) == [view.keys.task("t1").encode()]


def test_a_reader_whose_place_another_has_moved_moves_nothing(registry: Registry, view: RedisView) -> None:
    ready(view)
    assert registry.control.move_cursor(None, position(1), "e", marked=False)
    assert not registry.control.move_cursor(None, position(9), "e", marked=False)
    assert not registry.control.move_cursor(position(1), position(9), "another view", marked=False)
    assert registry.control.cursor() == position(1)
    assert registry.control.move_cursor(position(1), position(2), "e", marked=False)
    assert registry.control.cursor() == position(2)
