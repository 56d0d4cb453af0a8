"""The audit: who changed what, kept by the view in the order of time, and bounded."""

import random

import msgspec
import pytest

from backends.redis.client import lua_folder
from backends.redis.keys import MAX_AUDIT_OF_APP
from backends.redis.registry.access import Access, AccessTable
from backends.redis.registry.audit import AuditEntry, AuditTable
from backends.redis.registry.registry import Registry
from backends.redis.view import RedisView
from backends.redis.view_records import ViewRecords
from dispatcher.access.app_policy import AppPolicy
from dispatcher.access.keys import AccessKey
from dispatcher.access.principal import Caller, Scope
from dispatcher.letters.marks import LetterMark, MarkedLetter, MarkKind
from dispatcher.model.service_settings import KEY, POLICY, Setting
from dispatcher.model.task_control import Control
from dispatcher.wire.control import ControlRecord
from quotas.snapshots import RedisSnapshots
from tests.contract.registry_records import placed, position, ready, task_record

ANA, BOB = Caller("cli:ana@ops"), Caller("key:0123456789ab", "req-1")
KEY_OF_SHOP = AccessKey.create("shop", frozenset({Scope.READ}), 10).key


@pytest.fixture
def registry(view: RedisView) -> Registry:
    ready(view)
    return Registry(view)


@pytest.fixture
def audit(view: RedisView) -> AuditTable:
    return AuditTable(view)


@pytest.fixture
def access(view: RedisView) -> AccessTable:
    return AccessTable(view)


def entries(audit: AuditTable, app: str | None = None) -> list[AuditEntry]:
    return list(audit.entries(1_000, app))


def weight(task: str, value: float, at_ms: int, caller: Caller = ANA) -> ControlRecord:
    return Control.of("weight", value).record(task, at_ms, caller)


def test_change_is_kept_with_who_made_it_and_both_values(registry: Registry, audit: AuditTable) -> None:
    registry.control.apply_all(placed(task_record("t1"), weight("t1", 2, 5, BOB)))
    (entry,) = entries(audit)
    assert (entry.by, entry.request, entry.app, entry.task) == ("key:0123456789ab", "req-1", "shop", "t1")
    assert (entry.field, entry.before, entry.after, entry.at_ms) == ("weight", "1000", "2000", 5)


def test_changes_come_newest_first_and_by_app(registry: Registry, audit: AuditTable) -> None:
    other = task_record("t2", app="news")
    records = (task_record("t1"), other, weight("t1", 2, 5), weight("t2", 3, 6), weight("t1", 4, 7))
    registry.control.apply_all(placed(*records))
    assert [entry.after for entry in entries(audit)] == ["4000", "3000", "2000"]
    assert [entry.after for entry in entries(audit, "shop")] == ["4000", "2000"]
    assert [entry.after for entry in audit.entries(1)] == ["4000"]


def test_what_workers_do_by_themselves_is_not_in_the_audit(registry: Registry, audit: AuditTable) -> None:
    stop = Control.of("stopped", "no credentials").record("t1", 5)
    registry.control.apply_all(placed(task_record("t1", by="key:a"), stop))
    assert entries(audit) == []


def test_records_read_again_in_any_order_change_nothing(registry: Registry, audit: AuditTable) -> None:
    placed_records = placed(task_record("t1"), *(weight("t1", value, value) for value in range(1, 9)))
    registry.control.apply_all(placed_records)
    known = entries(audit)
    random.Random(1).shuffle(placed_records)
    registry.control.apply_all(placed_records)
    assert entries(audit) == known


def test_setting_key_and_policy_are_kept_apart_from_the_settings_of_workers(
    registry: Registry, audit: AuditTable, access: AccessTable
) -> None:
    before = registry.service.globals()
    changes = [Setting(KEY, KEY_OF_SHOP, "abc"), Setting(POLICY, AppPolicy(weight=3.0), "shop")]
    registry.control.apply_all(placed(*(change.record(7, ANA) for change in changes)))
    assert registry.service.globals() == before
    assert access.read() == Access({"abc": KEY_OF_SHOP}, {"shop": AppPolicy(weight=3.0)})
    assert access.last() == position(2)
    assert [(entry.app, entry.field) for entry in entries(audit)] == [("shop", "policy:shop"), ("shop", "key:abc")]


def test_revoked_key_stays_revoked_whatever_is_read_again(registry: Registry, access: AccessTable) -> None:
    records = placed(Setting(KEY, KEY_OF_SHOP, "abc").record(1), Setting(KEY, KEY_OF_SHOP.revoked(9), "abc").record(2))
    for log in (records, records[::-1], records[:1]):
        registry.control.apply_all(log)
    assert access.read().keys["abc"].state(10) == "revoked"


def test_restated_records_hold_keys_and_policies(registry: Registry, view: RedisView) -> None:
    registry.control.apply_all(placed(Setting(KEY, KEY_OF_SHOP, "abc").record(7, ANA)))
    restated = [(each.position, msgspec.msgpack.decode(each.record)[2:4]) for each in ViewRecords(view).settings()]
    assert restated == [(position(1), ["key:abc", KEY_OF_SHOP.text])]


def test_use_of_a_key_is_kept_to_the_minute(registry: Registry, access: AccessTable) -> None:
    access.note_use("abc", 125_000)
    assert access.last_uses() == {"abc": 120_000}


def test_what_is_done_with_dead_letters_is_in_the_audit(registry: Registry, audit: AuditTable) -> None:
    registry.control.apply_all(placed(task_record("t1")))
    mark = LetterMark(
        format=1, id="drop-1", kind=MarkKind.DROP, at_ms=9, since_ms=1, by="cli:ana@ops", part=0, parts=1,
        letters=[MarkedLetter("t1", "0", 1, [0, 4, 5])],
    )  # fmt: skip
    for each in (mark, mark, msgspec.structs.replace(mark, kind=MarkKind.REPLAYED, id="r")):
        audit.keep_mark(each)
    (entry,) = entries(audit, "shop")
    assert (entry.field, entry.after, entry.task, entry.by) == ("letters_drop", "3 letters", "t1", "cli:ana@ops")


def test_app_that_changes_much_drives_out_its_own_changes_only(registry: Registry, audit: AuditTable) -> None:
    other = (task_record("t2", app="news"), weight("t2", 3, 1), task_record("t1"))
    many = (weight("t1", 1, 2 + number) for number in range(MAX_AUDIT_OF_APP + 50))
    registry.control.apply_all(placed(*other, *many))
    kept = [entry.at_ms for entry in audit.entries(MAX_AUDIT_OF_APP + 10, "shop")]
    assert kept == list(range(MAX_AUDIT_OF_APP + 51, 51, -1))
    assert [entry.app for entry in audit.entries(2 * MAX_AUDIT_OF_APP)][-2:] == ["shop", "news"]


def test_next_page_begins_behind_the_last_change_that_was_seen(registry: Registry, audit: AuditTable) -> None:
    same_time = [weight("t1", 2 + number, 5) for number in range(3)]
    registry.control.apply_all(placed(task_record("t1"), weight("t1", 9, 4), *same_time, weight("t1", 8, 6)))
    known = entries(audit)
    assert [entry.at_ms for entry in known] == [6, 5, 5, 5, 4]
    for seen, before in ((0, (6, 0)), (1, (6, 1)), (2, (5, 1)), (4, (5, 3)), (4, (4, 0)), (5, (4, 1))):
        assert list(audit.entries(9, "shop", before)) == known[seen:]
    assert list(audit.entries(1, before=(5, 1))) == known[2:3]


def test_snapshot_holds_keys_policies_and_audit(
    registry: Registry, view: RedisView, audit: AuditTable, access: AccessTable
) -> None:
    records = (task_record("t1"), weight("t1", 2, 5), Setting(KEY, KEY_OF_SHOP, "abc").record(6, BOB))
    registry.control.apply_all(placed(*records))
    known, settings = entries(audit), access.read()
    snapshots = RedisSnapshots(view, lua_folder("quotas"))
    parts = [part for page in snapshots.parts() for part in page]
    for key in (view.keys.access, view.keys.audit, view.keys.audit_entry, view.keys.audit_of("shop")):
        view.command("UNLINK", key)
    view.command("HSET", view.keys.epoch, "restoring", "1")
    restorer = snapshots.begin_restore("e")
    for _ in range(2):
        assert snapshots.restore_parts(restorer, parts)
    assert (entries(audit), access.read()) == (known, settings)
    assert entries(audit, "shop") == known
