"""Policies of apps: each bound is said with the value that breaks it."""

from typing import Any

import pytest

from dispatcher.access.app_policy import AppPolicy
from dispatcher.model.errors import InvalidInput, Malformed
from dispatcher.model.task import PushTask

BOUNDED = AppPolicy.of(
    {"channels": ["fcm", "crm"], "tier": "medium", "weight": 2, "targets": 1_000, "ttl_s": 60, "requests_s": 5}
)


def task(**fields: Any) -> PushTask:
    within: dict[str, Any] = {"app": "shop", "tier": "low", "channel": "crm", "message": "m", "ttl_s": 60}
    return PushTask(**within | fields)


def test_task_within_the_policy_is_accepted() -> None:
    BOUNDED.check_task(task(tier="medium", weight=2, ttl_s=60, expected_targets=1_000), "shop")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"channel": "http"}, "channel: is 'http'; the policy of app shop allows channels: fcm, crm."),
        ({"tier": "high"}, "tier: is high; the policy of app shop allows tiers up to medium."),
        ({"weight": 2.5}, "weight: is 2.5; the policy of app shop allows weight up to 2."),
        ({"ttl_s": 61}, "ttl_s: is 61; the policy of app shop allows ttl_s up to 60."),
        ({"ttl_s": None}, "ttl_s: is not set; the policy of app shop allows ttl_s up to 60."),
        ({"expected_targets": 1_001}, "targets: is 1,001; the policy of app shop allows targets up to 1,000."),
    ],
)
def test_task_beyond_the_policy_is_refused_with_the_bound(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        BOUNDED.check_task(task(**fields), "shop")
    assert refused.value.cause == named


def test_all_bounds_that_a_task_breaks_are_named() -> None:
    with pytest.raises(InvalidInput) as refused:
        BOUNDED.check_task(task(channel="http", tier="high", weight=9), "shop")
    assert len(refused.value.cause.splitlines()) == 3


def test_change_beyond_the_policy_is_refused() -> None:
    BOUNDED.check("shop", tier="low", weight=None)
    with pytest.raises(InvalidInput, match="tiers up to medium"):
        BOUNDED.check("shop", tier="high", weight=None)
    with pytest.raises(InvalidInput, match="weight up to 2"):
        BOUNDED.check("shop", tier=None, weight=3)


def test_audience_larger_than_the_policy_is_refused() -> None:
    BOUNDED.check("shop", audience=1_000)
    with pytest.raises(InvalidInput, match=r"audience: is 1,001; .* up to 1,000"):
        BOUNDED.check("shop", audience=1_001)


def test_without_a_policy_channels_with_shared_credentials_must_be_named() -> None:
    AppPolicy().check_task(task(channel="fcm", tier="high", message={"title": "t"}, ttl_s=None), "shop")
    with pytest.raises(InvalidInput, match="allows channels: fcm, apns"):
        AppPolicy().check_task(task(channel="http"), "shop")


@pytest.mark.parametrize(
    "fields", [{"weight": 0}, {"weight": "2"}, {"tier": "top"}, {"requests_s": 0}, {"targets": -1}, {"colour": 1}]
)
def test_policy_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="policy"):
        AppPolicy.of(fields)


def test_policy_is_stored_and_read_back() -> None:
    assert AppPolicy.parse(BOUNDED.text) == BOUNDED
    assert AppPolicy.parse(AppPolicy().text) == AppPolicy()
    for text in ("", "[]", '{"weight": 0}', '{"tier": 1}'):
        with pytest.raises(Malformed):
            AppPolicy.parse(text)
