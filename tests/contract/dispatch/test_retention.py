"""The memory of an ended task outlasts every record of it, so that its id can be used again without harm."""

import itertools
import re
from typing import cast

import msgspec
import pytest

from backends.pulsar.policies import RETENTION_DAYS
from backends.redis.client import assemble, lua_folder, lua_texts
from backends.redis.registry.registry import Registry
from backends.redis.view import RedisView
from backends.redis.view_records import ViewRecords
from dispatcher.model.errors import AudienceMismatch
from dispatcher.model.task import DAY_MS, RECORDS_KEPT_MS, TOMBSTONE_MS, PushTask
from dispatcher.model.tier import Tier
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.control import ControlRecord, TaskRecord, encode_control
from dispatcher.wire.outcome import RETRY
from dispatcher.wire.topics import Topics
from producers.submit.acceptance import accept, check_same
from tests.contract.ledger_worlds import LawWorld, mixed, run
from tests.contract.registry_records import change, placed, position, ready, sealed, submission_of, task_record
from tests.records import edit_text, finished

ENDED = finished("t1", 10, at_ms=5)
SLACK_MS = 60_000


def test_the_scripts_remember_as_long_as_the_records_are_kept_and_two_days() -> None:
    text = assemble("keys", lua_texts(lua_folder("backends.redis")))
    (kept_ms,) = re.findall(r"^local TOMBSTONE_MS = (\d+)$", text, re.MULTILINE)
    assert int(kept_ms) == TOMBSTONE_MS == (RETENTION_DAYS + 2) * DAY_MS


def free_after_ms(view: RedisView, task: str) -> int:
    """When its id may be used again."""
    return int(view.client.pttl(view.keys.task(task)))


def test_an_id_that_is_used_again_is_not_lost_by_a_rebuild(registry: Registry, view: RedisView) -> None:
    ready(view)
    first: list[ControlRecord] = [task_record(), sealed("t1", 10), ENDED]
    registry.control.apply_all(placed(*first))
    again_ms = free_after_ms(view, "t1") - SLACK_MS
    view.wipe()  # as Redis forgets it then, and the topic what is as old as it keeps records
    log: list[tuple[int, ControlRecord]] = [*((0, record) for record in first), (again_ms, task_record(digest="again"))]
    kept = [record for at_ms, record in log if at_ms > again_ms - RECORDS_KEPT_MS]
    registry.control.apply_all(placed(*kept, first=9))
    again = submission_of(registry)
    assert (again.state, again.record.digest) == ("running", "again")


def test_an_end_that_is_restated_is_remembered_from_then_on(registry: Registry, view: RedisView) -> None:
    registry.control.apply_all(placed(task_record(), ENDED))
    restated = ViewRecords(view).of_tasks(["t1"])
    view.client.pexpire(view.keys.task("t1"), TOMBSTONE_MS - 5 * DAY_MS)  # five days later
    registry.control.apply_all([read_control("", encode_control(record)) for record in restated])
    assert free_after_ms(view, "t1") > TOMBSTONE_MS - SLACK_MS


def test_no_message_of_an_ended_task_is_kept_whatever_comes_last(registry: Registry, view: RedisView) -> None:
    """It may be most of a tombstone."""
    message = msgspec.Raw(msgspec.msgpack.encode({"body": "a message" * 1_000, "empty": {}, "deep": [[[{}]]]}))
    record = task_record(message=message, digest="x" * 32, expected_targets=-1, expires_ms=2**42)
    edit = change("t1", "override", edit_text(1, {"body": "another message" * 1_000}))
    records: list[ControlRecord] = [record, edit, ENDED]
    for order in itertools.permutations(list(enumerate(records))):
        view.wipe()
        registry.control.apply_all([(position(number), one) for number, one in order])
        stored = cast("dict[bytes, bytes]", view.client.hgetall(view.keys.task("t1")))
        assert b"message" not in b"".join(stored.values())
        kept = submission_of(registry)
        assert kept.edits == 1
        without = msgspec.structs.replace(record, message=msgspec.Raw(msgspec.msgpack.encode("")))
        assert encode_control(kept.record) == encode_control(without)
        again = [read_control("", encode_control(one)) for one in ViewRecords(view).of_tasks(["t1"])]
        assert isinstance(again[0][1], TaskRecord)


def test_an_ended_task_that_is_submitted_again_is_still_compared(registry: Registry) -> None:
    task = PushTask(id="t1", app="shop", tier=Tier.HIGH, channel="null", message="Sale")
    record = accept(task, "t1", 10, 1_700_000_000_000, Topics())
    registry.control.apply_all(placed(record, ENDED))
    stored = submission_of(registry).record
    check_same(task, stored)
    with pytest.raises(AudienceMismatch, match="another tier\\."):
        check_same(task.model_copy(update={"tier": Tier.LOW}), stored)
    with pytest.raises(AudienceMismatch, match="another message, chunk or ttl_s"):
        check_same(task.model_copy(update={"message": {"body": "Other"}}), stored)


@pytest.mark.parametrize("known_first", [True, False])
def test_what_was_folded_before_its_task_was_known_is_kept_as_long_as_the_task_lives(
    world: LawWorld, known_first: bool
) -> None:
    view = world.view
    if known_first:
        world.add("t")
    world.record("t", run(0, 4), mixed(4, [RETRY]))
    names = [f"{view.keys.prefix}:{kind}" for kind in ("final:t:0", "touched:t:0", "open:t")]
    if not known_first:
        assert all(TOMBSTONE_MS - SLACK_MS < view.client.pttl(name) <= TOMBSTONE_MS for name in names)
        world.add("t")
    assert [view.client.pttl(name) for name in [*names, view.keys.task("t")]] == [-1] * 4


def test_the_writers_of_a_seal_are_kept_too(world: LawWorld) -> None:
    view = world.view
    world.record("t", run(0, 4, writer="x"))
    world.add("t")
    world.seal("t", 4, ("x",))
    names = [f"{view.keys.prefix}:{kind}:t:x" for kind in ("final", "touched")]
    assert [view.client.pttl(name) for name in names] == [-1, -1]
