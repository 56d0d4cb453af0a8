"""Who is done sooner or later by a change; channels and apps as they are listed."""

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from dispatcher.analysis.send_errors import SendError
from dispatcher.analysis.situation import Situation
from dispatcher.analysis.what_if import effects
from dispatcher.model.pools import Cap, CapPhase, CapState, Limits
from dispatcher.model.view import Globals, TaskView, TierStats
from fairlane.figures.usage import apps, channels
from producers.control.steering import PlannedChange
from producers.control.task_changes import Changes
from producers.desk.board.groups import grouped
from tests.records import beat
from tests.unit.tasks import task_view

SETTINGS = Globals(capacity=100, tier_weights={"high": 6, "medium": 3, "low": 1})


def view(task: str, pending: int = 1_000, **fields: object) -> TaskView:
    return task_view(task, pending, **fields)


def changed(task: TaskView, **fields: Any) -> TaskView:
    return PlannedChange(task, Changes(**fields).controls()).after


def test_a_weight_helps_one_task_and_not_its_peer() -> None:
    before = Situation([view("a"), view("b"), view("c", tier="low")], SETTINGS, 0.0, 0)
    after = before._replace(tasks=[changed(before.tasks[0], weight=3), *before.tasks[1:]])
    [first] = effects(before, after)
    assert first.task == "a"
    assert first.eta_s == pytest.approx(2_000 / (100 * 6 / 7))
    assert first.eta_after_s == pytest.approx(1_333.3 / (100 * 6 / 7), rel=1e-3)


def test_what_ends_never_or_again_is_most_affected() -> None:
    before = Situation([view("a"), view("b", tier="low"), view("c", state="paused")], SETTINGS, 0.0, 0)
    tasks = [before.tasks[0], changed(before.tasks[1], tier="high"), changed(before.tasks[2], paused=False)]
    found = {
        effect.task: (effect.eta_s, effect.eta_after_s) for effect in effects(before, before._replace(tasks=tasks))
    }
    assert next(iter(found)) == "c"
    assert found["c"][0] is None
    assert found["c"][1] is not None
    off = before._replace(
        settings=Globals(capacity=100, tier_weights=SETTINGS.tier_weights, paused_channels=frozenset({"null"}))
    )
    assert [effect.eta_after_s for effect in effects(before, off)] == [None, None]


def test_task_whose_tries_fail_has_no_end_in_forecasts() -> None:
    error = SendError("", 0, 0, 0, 30_000, 9, 1_000, "Failed to connect")
    situation = Situation([view("a"), view("b", last_error=error)], SETTINGS, 100.0, 1_000)
    assert {task for task, end_s in situation.done_s().items() if end_s is None} == {"b"}
    assert situation.outlook().etas.keys() == {"a"}


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [({"weight": 1}, 10.0), ({"cap": "50:5"}, 20.0), ({"cancelled": True}, None), ({"paused": True}, None)],
)
def test_controls_of_a_task_alone(fields: dict[str, Any], seconds: float | None) -> None:
    alone = Situation([changed(view("a"), **fields)], SETTINGS, 0.0, 0)
    assert alone.done_s()["a"] == (None if seconds is None else pytest.approx(seconds))


UNLIMITED = Globals(capacity=0, tier_weights=SETTINGS.tier_weights, caps={"app/shop": Cap(10)})
NOW_MS = 1_000_000


def sent(task: str, pending: int = 10_000, **fields: object) -> TaskView:
    """Return a task that has been sent for a while."""
    return view(task, pending, **{"first_outcome_ms": NOW_MS - 60_000, "rate": 5.0} | fields)


def at_rate(rate: float, *tasks: TaskView, settings: Globals = UNLIMITED, **fields: Any) -> Situation:
    """Return the situation while one worker sends at a rate."""
    tiers = {"high": TierStats(rate=rate)}
    return Situation.of(tasks, settings, [beat("w", tiers=tiers, rate=rate, **fields)], NOW_MS)


@pytest.mark.parametrize(
    ("tasks", "rate", "shown"),
    [
        ([sent("free", app="news")], 50.0, 50.0),
        ([sent("capped")], 10.0, inf),
        ([sent("capped"), sent("free", app="news")], 50.0, 50.0),
        ([sent("capped"), sent("paused", app="news", state="paused")], 10.0, inf),
        ([sent("capped"), sent("trickle", 40, app="news", rate=40.0)], 50.0, inf),
        ([sent("capped"), sent("hung", app="news", rate=0.0)], 10.0, inf),
        ([sent("new", app="news", first_outcome_ms=NOW_MS - 1_000)], 50.0, inf),
        ([sent("own", app="news", cap=100)], 50.0, 50.0),
        ([sent("still", app="news", rate=0.0)], 0.0, 0.0),
        ([], 50.0, inf),
    ],
    ids=lambda given: " ".join(task.id for task in given) if isinstance(given, list) else "",
)
def test_rate_shows_what_workers_can_send_only_while_they_hold_back_what_waits(
    tasks: list[TaskView], rate: float, shown: float
) -> None:
    assert at_rate(rate, *tasks).workers_rate == shown


def test_capacity_that_is_used_up_does_not_show_what_workers_can_send() -> None:
    assert at_rate(100.0, sent("a"), settings=SETTINGS).workers_rate == inf
    slow = at_rate(50.0, sent("a"), settings=SETTINGS)
    assert slow.workers_rate == 50.0
    assert slow.done_s() == {"a": pytest.approx(200.0)}
    failing = sent("b", tier="medium", rate=0.0, last_error=SendError("", 0, 0, 0, 0, 9, NOW_MS, "Failed to connect"))
    assert at_rate(65.0, sent("a"), failing, settings=SETTINGS).workers_rate == inf, "its tries use a third"
    coarse = sent("a", chunk=100)
    assert at_rate(70.0, coarse, settings=SETTINGS).workers_rate == inf, "an envelope more or less in three seconds"


def test_cap_removed_or_app_resumed_ends_a_task_as_fast_as_workers_can_and_nobody_knows_when() -> None:
    before = at_rate(10.0, sent("a"), sent("b", app="news", state="paused"))
    [freed] = effects(before, before._replace(settings=replace(UNLIMITED, caps={})))
    assert freed.task == "a"
    assert freed.eta_s == pytest.approx(1_000.0)
    assert freed.eta_after_s == 0.0
    resumed = before._replace(tasks=[before.tasks[0], changed(before.tasks[1], paused=False)])
    assert [(each.task, each.eta_s, each.eta_after_s) for each in effects(before, resumed)] == [("b", None, 0.0)]
    known = replace(UNLIMITED, caps={}, capacity=1_000)
    [first] = effects(before, before._replace(settings=known))
    assert first.eta_after_s == pytest.approx(10.0)


def test_while_the_workers_are_the_limit_what_is_resumed_shares_their_rate() -> None:
    before = at_rate(50.0, sent("a", app="news"), sent("b", app="news", state="paused"))
    resumed = before._replace(tasks=[before.tasks[0], changed(before.tasks[1], paused=False)])
    found = {each.task: each.eta_after_s for each in effects(before, resumed)}
    assert found == {"a": pytest.approx(400.0), "b": pytest.approx(400.0)}
    larger = before._replace(settings=replace(UNLIMITED, capacity=1_000))
    assert effects(before, larger) == []


def test_end_of_a_task_that_just_began_is_that_at_the_present_rate() -> None:
    new = sent("new", 1_000, app="news", first_outcome_ms=NOW_MS - 1_000, rate=0.0)
    later = sent("later", app="news", state="scheduled", start_ms=NOW_MS + 5_000)
    assert at_rate(50.0, new, later).outlook().etas == {"new": pytest.approx(20.0)}


def test_situation_leaves_out_tasks_whose_channel_no_worker_has() -> None:
    there = at_rate(10.0, sent("a"), sent("b", channel="fcm"), extra={"channels": ["null"]})
    assert [task.id for task in there.tasks] == ["a"]


def test_channels_and_apps_are_those_that_tasks_or_settings_name() -> None:
    settings = Globals(
        capacity=100,
        tier_weights=SETTINGS.tier_weights,
        caps={"channel/http": Cap(5), "app_channel/shop/log": Cap(7), "app/news": Cap(9, 3)},
        paused_channels=frozenset({"apns"}),
        app_weights={"shop": 2.5},
        limits={"*": Limits(tasks=4)},
    )
    tasks = [view("a", 40, channel="log", rate=3.0), view("b", 10, sealed=False, expected_targets=25)]
    groups = list(grouped(tasks))
    assert [(c.channel, c.paused, c.cap, c.tasks, c.queued) for c in channels(settings, groups)] == [
        ("apns", True, 0, 0, 0),
        ("http", False, 5, 0, 0),
        ("log", False, 0, 1, 40),
        ("null", False, 0, 1, 10),
    ]
    every, news, shop = apps(settings, groups)
    assert (every.app, every.task_limit, every.tasks) == ("*", 4, 0)
    assert (news.cap, news.cap_burst, news.task_limit, news.channel_caps) == (9, 3, 4, {})
    assert (shop.weight, shop.cap, shop.channel_caps, shop.tasks, shop.queued) == (2.5, 0, {"log": 7}, 2, 65)


def test_a_channel_names_the_caps_of_which_not_all_may_be_used() -> None:
    caps = {"app_channel/shop/fcm": Cap(100), "app_channel/shop/http": Cap(10), "quota/p": Cap(600), "quota/q": Cap(6)}
    settings = Globals(capacity=0, tier_weights={}, caps=caps, quotas={"fcm/news": "p"}, quota_units={"p": "request"})
    halved = CapState(phase=CapPhase.HALVED, part=0.5, until_ms=9)
    states = {"app_channel/shop/fcm": CapState(phase=CapPhase.FULL, part=1.0)} | dict.fromkeys(list(caps)[1:], halved)
    lowered = {usage.channel: usage.lowered_caps for usage in channels(settings, [], states)}
    assert lowered == {
        "fcm": {"quota/p": {"now": 300, "cap": 600, "unit": "request", "phase": "halved", "until_ms": 9}},
        "http": {"app_channel/shop/http": {"now": 5, "cap": 10, "unit": "target", "phase": "halved", "until_ms": 9}},
    }
