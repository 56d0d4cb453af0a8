"""Where a task's time went."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.served import Served
from dispatcher.view import Globals, TaskView, globals_of
from dispatcher.why import Part, Pauses, Switch, counted_of, held_now, switches_of, why
from tests.unit.fairlane.test_what_if import SETTINGS, view
from tests.unit.tasks import task_view

CREATED = 1_000_000


def at(task: TaskView, seconds: float, *switches: Switch, counted: dict[str, int] | None = None) -> dict[str, int]:
    """ms by cause, so many seconds after the task was accepted."""
    found = why(task, counted or {}, Pauses(switches), SETTINGS, CREATED + round(seconds * 1000))
    return dict(found.parts)


def pause(seconds: float) -> Switch:
    return Switch(CREATED + round(seconds * 1000), True)


def resume(seconds: float) -> Switch:
    return Switch(CREATED + round(seconds * 1000), False)


def task(**fields: object) -> TaskView:
    return view("t", created_ms=CREATED, **fields)  # type: ignore[arg-type]


switches = st.lists(st.builds(Switch, st.integers(0, 2 * CREATED), st.booleans()))


def test_the_registry_knows_of_start_times_and_pauses() -> None:
    late = task(start_ms=CREATED + 5_000)
    assert at(late, 3) == {"scheduled": 3_000}
    assert at(late, 12, pause(2), resume(7), pause(9)) == {"scheduled": 5_000, "paused": 5_000, "unknown": 2_000}
    assert at(task(), 4, pause(1), pause(2), resume(3), resume(3.5)) == {"paused": 2_000, "unknown": 2_000}


def test_while_the_task_is_paused_its_channel_holds_nothing_back() -> None:
    pauses = Pauses([pause(1), resume(3), pause(6), resume(7)], [pause(-5), resume(2), pause(4), resume(8)])
    found = why(task(), {"sending": 1_000}, pauses, SETTINGS, CREATED + 9_000)
    assert dict(found.parts) == {"paused": 3_000, "channel_paused": 4_000, "sending": 1_000, "unknown": 1_000}
    assert dict(why(task(), {}, Pauses((), [pause(2)]), SETTINGS, CREATED + 9_000).parts)["channel_paused"] == 7_000


def test_a_task_that_waits_for_its_audience() -> None:
    assert at(task(hold_until_sealed=True, sealed=False), 4, pause(1), resume(2)) == {
        "held_until_sealed": 3_000,
        "paused": 1_000,
    }


def test_what_the_ledger_counted_is_shown_and_the_rest_is_said_to_be_unknown() -> None:
    counted = {"tier_share": 3_000, "cap:app/shop": 1_000}
    assert at(task(), 10, counted=counted) == {"tier_share": 3_000, "cap:app/shop": 1_000, "unknown": 6_000}
    assert at(task(), 2, counted=counted) == {"tier_share": 1_500, "cap:app/shop": 500}
    assert Part("cap:app/shop", 1).meaning == "the cap of app shop held it back"
    assert Part("cap:app_channel/shop/push", 1).meaning == "the cap of app shop on channel push held it back"


def test_an_ended_task_has_the_age_it_ended_with() -> None:
    found = why(task(finished_ms=CREATED + 2_000), {"sending": 2_000}, Pauses(), SETTINGS, CREATED + 90_000)
    assert (found.age_ms, found.parts, found.now) == (2_000, [Part("sending", 2_000)], "")


@pytest.mark.parametrize(
    ("fields", "settings", "now"),
    [
        ({}, SETTINGS, ""),
        ({"state": "paused"}, SETTINGS, "paused"),
        ({"state": "scheduled"}, SETTINGS, "scheduled"),
        ({"hold_until_sealed": True, "sealed": False}, SETTINGS, "held_until_sealed"),
        ({}, Globals(1, SETTINGS.tier_weights, paused_channels=frozenset({"null"})), "channel_paused"),
    ],
)
def test_what_holds_it_back_now(fields: dict[str, object], settings: Globals, now: str) -> None:
    assert why(task(**fields), {}, Pauses(), settings, CREATED + 1).now == now


def test_pauses_as_they_are_kept() -> None:
    assert switches_of("") == []
    assert switches_of("0001:02:03=1@1500 0001:02:04=0@1700") == [Switch(1_500, True), Switch(1_700, False)]


@given(
    st.builds(Pauses, switches, switches),
    st.dictionaries(st.sampled_from(["tier_share", "task_cap", "paused", "cap:x"]), st.integers(-5, 10**7)),
    st.integers(0, 2 * CREATED),
    st.integers(-CREATED, CREATED),
    st.booleans(),
)
def test_parts_add_up_to_the_age_whatever_was_noted(
    pauses: Pauses, counted: dict[str, int], start_ms: int, age_ms: int, held: bool
) -> None:
    found = why(
        task(start_ms=start_ms, hold_until_sealed=held, sealed=not held), counted, pauses, SETTINGS, CREATED + age_ms
    )
    assert found.age_ms == max(0, age_ms)
    assert sum(part.ms for part in found.parts) == found.age_ms
    assert all(part.ms > 0 for part in found.parts)


def test_what_the_ledger_counted_as_it_is_kept() -> None:
    assert counted_of("") == {}
    assert counted_of("tier_share=3000 cap:app_channel/a=b/c=7") == {"tier_share": 3_000, "cap:app_channel/a=b/c": 7}


def test_a_task_is_held_back_while_no_live_worker_has_its_channel() -> None:
    sms, settings = task_view("x", 10, channel="sms"), globals_of({})
    assert held_now(sms, settings, Served(1, frozenset({"null"}))) == "no_channel"
    for served in (Served(1, frozenset({"sms"})), Served(1, None), Served(0, frozenset()), None):
        assert held_now(sms, settings, served) == ""
    assert held_now(task_view("x", 10, channel="sms", state="paused"), settings, Served(1, frozenset())) == "paused"
    assert held_now(task_view("x", 0, channel="sms"), settings, Served(1, frozenset())) == "", "all is sent"
