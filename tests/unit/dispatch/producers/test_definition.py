"""A replay is submitted with the message and the options of the task whose letters it sends."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from dispatcher.model.errors import NotFound
from dispatcher.model.task import PushTask
from dispatcher.wire.control import ControlChange, ControlRecord, Restated, encode_control
from dispatcher.wire.topics import Topics
from producers.outcomes.definition import push_task, read_definition
from producers.submit.acceptance import accept
from tests.contract.registry_records import change, position
from tests.records import edit_text
from tests.unit.dispatch.consumers.fakes import ControlTopic, Reader

NOW_MS = 1_800_000_000_000
OPTIONS: dict[str, Any] = {
    "app": "shop",
    "tier": "low",
    "channel": "fcm",
    "message": {"title": "Sale", "body": "Now"},
    "weight": 2.5,
    "cap": 300,
    "cap_burst": 40,
    "ttl_s": 3_600.5,
    "unknown": "give_up",
    "hold_until_sealed": True,
    "max_attempts": 7,
    "retry_for_s": 5_400.0,
}
"""A value of its own for each option that a replay keeps."""
LEFT_OUT = {"id", "expected_targets", "chunk", "start_at"}
"""The id and the size are a replay's own, and it starts at once."""
DELIVERY: dict[str, Any] = {
    "collapse": "sale",
    "category": "offers",
    "provider_ttl_s": 60.0,
    "options": {"fcm": {"android": {"direct_boot_ok": True}}},
    "locales": {"de": {"title": "Ausverkauf", "body": "Jetzt"}},
}
"""Options that travel within the message."""
TASK = PushTask(id="sale", start_at=datetime.fromtimestamp(NOW_MS / 1000 + 60, UTC), **OPTIONS)
RECORD = accept(TASK, "sale", 5, NOW_MS, Topics())


def test_every_option_is_kept() -> None:
    again = push_task(RECORD)
    assert {name: getattr(again, name) for name in OPTIONS} == {name: getattr(TASK, name) for name in OPTIONS}
    assert set(OPTIONS) | LEFT_OUT | set(DELIVERY) == set(PushTask.model_fields), (
        "a new option is kept or left out on purpose"
    )
    assert all(getattr(again, name) is None for name in LEFT_OUT)


def test_options_of_the_delivery_are_kept_in_the_message() -> None:
    task = PushTask(**OPTIONS, **DELIVERY)
    again = push_task(accept(task, "sale", 5, NOW_MS, Topics()))
    assert again.complete_message == task.complete_message
    assert {"collapse", "category", "provider_ttl_s", "locales", "fcm"} <= again.complete_message.keys()


def test_a_task_without_options_has_none_again() -> None:
    plain = PushTask(app="shop", tier="high", channel="log", message="Hi")
    assert push_task(accept(plain, "t", None, NOW_MS, Topics())) == plain


def reader(*records: ControlRecord) -> Reader:
    """Read a topic with these records behind one that cannot be read."""
    topic = ControlTopic()
    topic.store(b"\xc1")
    topic.append_many(records)
    return topic.open(None)


def edit(task: str, number: int, text: str) -> ControlChange:
    return change(task, "override", edit_text(number, {"body": text}))


def test_the_last_edit_of_the_message_counts() -> None:
    other = msgspec.structs.replace(RECORD, task="other", message=msgspec.Raw(msgspec.msgpack.encode({"body": "?"})))
    restated = Restated(format=1, position=position(1), record=msgspec.Raw(encode_control(edit("sale", 1, "first"))))
    topic = reader(other, RECORD, edit("sale", 2, "last"), edit("other", 3, "no"), restated)
    assert read_definition("sale", topic).message == {"body": "last"}
    assert read_definition("sale", reader(other, RECORD)).message == TASK.message


def test_a_task_whose_record_is_gone_is_named() -> None:
    with pytest.raises(NotFound, match="sale"):
        read_definition("sale", reader(edit("sale", 1, "x")))
