"""The audit for people: values as users give them."""

from typing import Any

import pytest

from backends.redis.registry.audit import AuditEntry
from dispatcher.access.app_policy import AppPolicy
from dispatcher.access.keys import AccessKey
from dispatcher.access.principal import Scope
from dispatcher.model.flow_pause import FlowPause, PauseKind
from dispatcher.model.pools import Cap
from dispatcher.model.service_settings import KEY, POLICY, Setting
from dispatcher.model.task_control import Control, Override
from fairlane.figures.audit_rows import audit_fields

PAUSE = FlowPause(kind=PauseKind.HAND, since_ms=1, reason="too many complaints")
READER = AccessKey.create("shop", frozenset({Scope.READ, Scope.SUBMIT}), 1).key


def shown(field: str, after: str, before: str = "", task: str = "") -> tuple[str, str]:
    entry = AuditEntry(
        app="shop", at_ms=1, by="cli:ana@ops", request="", task=task, field=field, before=before, after=after
    )
    row = audit_fields(entry)
    assert (row["by"], row["field"]) == ("cli:ana@ops", field)
    return row["before"], row["after"]


@pytest.mark.parametrize(
    ("control", "text"),
    [
        (Control.of("weight", 2), "2"),
        (Control.of("weight", 0.125), "0.125"),
        (Control.of("tier", "low"), "low"),
        (Control.of("cap", "500:100"), "500:100"),
        (Control.of("cap", 0), "none"),
        (Control.of("paused", True), "yes"),
        (Control.of("paused", False), "no"),
        (Control.of("cancelled", True), "yes"),
        (Control.of("stopped", "wrong text"), "wrong text"),
        (Control("override", Override(3, {"body": "Hi"})), '{"body":"Hi"}'),
    ],
)
def test_control_is_shown_as_it_is_given(control: Control, text: str) -> None:
    assert shown(control.name, control.text, task="t") == ("", text)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (Setting.of("capacity", Cap(0)), "none"),
        (Setting.of("capacity", Cap(5_000, 10)), "5000:10"),
        (Setting.of("tiers", {"high": 6, "medium": 2.5, "low": 1}), "high=6 medium=2.5 low=1"),
        (Setting.of("sharing", "apps"), "apps"),
        (Setting.of("cap", Cap(9), "app_channel/shop/http"), "9"),
        (Setting.of("channel_paused", given=True, name="http"), "yes"),
        (Setting.of("flow_paused", PAUSE, "http/shop"), "hand, too many complaints"),
        (Setting.of("app_weight", 2.5, "shop"), "2.5"),
        (Setting.of("limit:tasks", 0, "shop"), "none"),
        (Setting.of("limit:targets", 10_000, "*"), "10000"),
        (Setting.of("quota", "g", "fcm/shop"), "g"),
        (Setting.of("quota_unit", "request", "g"), "request"),
        (Setting.of(KEY, READER, "abc"), "shop: read, submit"),
        (Setting.of(KEY, READER.revoked(5), "abc"), "shop: read, submit, revoked"),
    ],
)
def test_setting_is_shown_as_it_is_given(setting: Setting, text: str) -> None:
    assert shown(setting.field, setting.text) == ("", text)


def test_policy_is_shown_by_its_bounds() -> None:
    _, text = shown("policy:shop", Setting.of(POLICY, AppPolicy(weight=2.0, channels=()), "shop").text)
    assert text.startswith("channels=none tier=high weight=2 targets=")


def test_both_values_are_shown_alike() -> None:
    assert shown("weight", "2000", "1000", task="t") == ("1", "2")
    assert shown("letters_drop", "3 letters", task="t") == ("", "3 letters")


@pytest.mark.parametrize(("field", "stored"), [("weight", "?"), ("later", "7"), ("key:abc", "{}"), ("override", "1:{")])
def test_value_that_this_version_cannot_read_is_shown_as_it_is_stored(field: str, stored: str) -> None:
    for task in ("", "t"):
        assert shown(field, stored, task=task)[1] in (stored, stored.partition(":")[2])


def test_digest_of_a_key_is_not_shown() -> None:
    fields: dict[str, Any] = {"before": READER.text, "after": READER.text}
    assert all(READER.digest not in text for text in shown("key:abc", **fields))
