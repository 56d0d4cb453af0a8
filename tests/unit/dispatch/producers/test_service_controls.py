"""Settings of the whole service: stored under the fields that all read, refused where they make no sense."""

from collections.abc import Callable, Sequence

import pytest

from dispatcher.model.errors import InvalidInput
from dispatcher.model.pools import Cap
from dispatcher.model.service_settings import Setting
from dispatcher.wire.control import GlobalChange
from producers.control.change import change_service
from producers.control.service_controls import ServiceControls
from tests.unit.dispatch.producers.fake_service import FakeService

NOW_MS = 1_700_000_000_000
Change = Callable[[ServiceControls], None]


def controls_of(world: FakeService) -> ServiceControls:
    def put(settings: Sequence[Setting]) -> None:
        change_service(world.services(), settings)

    return ServiceControls(put, lambda: NOW_MS)


@pytest.mark.parametrize(
    ("change", "stored"),
    [
        (lambda c: c.set_capacity(3_000), {"capacity": "3000"}),
        (lambda c: c.set_capacity(3_000, 50), {"capacity": "3000:50"}),
        (lambda c: c.set_capacity(0), {"capacity": "0"}),
        (lambda c: c.set_tiers(6, 3, 0.5), {"tiers": "6000:3000:500"}),
        (lambda c: c.set_sharing("apps"), {"sharing": "apps"}),
        (lambda c: c.cap_channel("http", Cap(500, 20)), {"cap:channel:http": "500:20"}),
        (lambda c: c.cap_channel("http", Cap(0)), {"cap:channel:http": "0"}),
        (lambda c: c.cap_app("shop", Cap(9)), {"cap:app:shop": "9"}),
        (lambda c: c.cap_app("shop", Cap(9), "http"), {"cap:app_channel:shop/http": "9"}),
        (lambda c: c.pause_channel("http", paused=True), {"channel_paused:http": "1"}),
        (lambda c: c.pause_channel("http", paused=False), {"channel_paused:http": "0"}),
        (lambda c: c.pause_flow("fcm", "shop"), {"flow_paused:fcm:shop": "0|hand|1700000000000||"}),
        (
            lambda c: c.pause_flow("fcm", "shop", 60, "key is revoked"),
            {"flow_paused:fcm:shop": "1700000060000|hand|1700000000000||key is revoked"},
        ),
        (
            lambda c: c.resume_flow("fcm", "shop"),
            {"flow_paused:fcm:shop": "0|ended|1700000000000||resumed by an operator"},
        ),
        (
            lambda c: c.resume_flow("fcm", "shop", confirm_dead=True),
            {"flow_paused:fcm:shop": "1700086400000|confirmed|1700000000000||resumed by an operator"},
        ),
        (
            lambda c: c.cap_quota("project-1", Cap(900)),
            {"cap:quota:project-1": "900", "quota_unit:project-1": "target"},
        ),
        (
            lambda c: c.cap_quota("project-1", Cap(9), "request"),
            {"cap:quota:project-1": "9", "quota_unit:project-1": "request"},
        ),
        (lambda c: c.join_quota("project-1", "fcm", "shop"), {"quota:fcm:shop": "project-1"}),
        (lambda c: c.leave_quota("fcm", "shop"), {"quota:fcm:shop": ""}),
        (lambda c: c.weigh_app("shop", 2.5), {"app_weight:shop": "2500"}),
        (lambda c: c.limit_app("shop", tasks=3), {"limit:tasks:shop": "3"}),
        (lambda c: c.limit_app("*", tasks=0, targets=10**9), {"limit:tasks:*": "0", "limit:targets:*": "1000000000"}),
    ],
)
def test_a_setting_is_stored_and_then_applied(world: FakeService, change: Change, stored: dict[str, str]) -> None:
    change(controls_of(world))
    assert {r.field: r.value for r in world.records_of(GlobalChange)} == stored
    read = [Setting.parse(field, text) for field, text in stored.items()]
    assert {setting.field: setting.text for setting in read} == stored
    assert [step.partition(" ")[0] for step in world.steps] == ["append"] * len(stored) + ["apply"] * len(stored)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.set_capacity(-1),
        lambda c: c.set_capacity(1.5),
        lambda c: c.set_capacity(10**10),
        lambda c: c.set_capacity(0, 5),
        lambda c: c.set_tiers(1, 0, 1),
        lambda c: c.set_tiers(1, float("nan"), 1),
        lambda c: c.set_sharing("teams"),
        lambda c: c.cap_channel("a/b", Cap(1)),
        lambda c: c.cap_channel("http", Cap(-1)),
        lambda c: c.cap_channel("http", Cap.of("9" * 5_000)),
        lambda c: c.cap_channel("http", Cap.of("9:" + "9" * 5_000)),
        lambda c: c.cap_app("", Cap(1)),
        lambda c: c.cap_app("*", Cap(1)),
        lambda c: c.cap_app("shop", Cap(1), "x:y"),
        lambda c: c.pause_channel("-", paused=True),
        lambda c: c.cap_quota("a/b", Cap(1)),
        lambda c: c.cap_quota("a", Cap(1), "requests"),
        lambda c: c.join_quota("a/b", "fcm", "shop"),
        lambda c: c.join_quota("project-1", "fcm", "*"),
        lambda c: c.join_quota("", "fcm", "shop"),
        lambda c: c.pause_flow("fcm", "a/b"),
        lambda c: c.pause_flow("fcm", "shop", 0),
        lambda c: c.pause_flow("fcm", "shop", -1),
        lambda c: c.pause_flow("fcm", "shop", float("nan")),
        lambda c: c.pause_flow("fcm", "shop", float("inf")),
        lambda c: c.pause_flow("fcm", "shop", 31 * 86_400),
        lambda c: c.pause_flow("fcm", "shop", 1, "two\nlines"),
        lambda c: c.pause_flow("fcm", "shop", 1, "x" * 501),
        lambda c: c.resume_flow("fcm", ""),
        lambda c: c.weigh_app("shop", 0),
        lambda c: c.limit_app("shop"),
        lambda c: c.limit_app("shop", tasks=-1),
        lambda c: c.limit_app("shop", targets=1.5),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_stored(world: FakeService, change: Change) -> None:
    with pytest.raises(InvalidInput):
        change(controls_of(world))
    assert world.records == []


@pytest.mark.parametrize("text", ["", "many", "1.5", "-1", "1:", ":1", "1:2:3", "0:5", "10000000000", "1e3"])
def test_caps_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InvalidInput, match="cap"):
        Cap.parse(text)
