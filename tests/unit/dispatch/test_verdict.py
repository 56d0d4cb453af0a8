"""The sentence on the whole service, and what needs attention."""

from typing import Any

import pytest

from dispatcher.analysis.failing import FAILING
from dispatcher.analysis.served import WaitingTasks
from dispatcher.analysis.verdict import Held, Scene, verdict
from dispatcher.model.flow_pause import FlowPause, PauseKind
from dispatcher.model.pools import Limits
from dispatcher.model.view import Globals, TaskView, WorkerBeat
from tests import records
from tests.unit.tasks import task_view

NOW_MS = 1_800_000_000_000
WEIGHTS = {"high": 6.0, "medium": 3.0, "low": 1.0}


def task(id_: str, eta_s: float | None = None) -> TaskView:
    return task_view(id_, 5, eta_s=eta_s)


def beat(state: str = "serving", **extra: Any) -> WorkerBeat:
    return records.beat("w1", state, seen_ms=NOW_MS, extra=extra)


def scene(**fields: Any) -> Scene:
    """A service that sends at its full capacity, and will be done in a minute."""
    given: dict[str, Any] = {
        "now_ms": NOW_MS, "waiting": 5, "scheduled": 0, "last": Held(task("sale", 60.0), "", ""),
        "settings": Globals(capacity=10, tier_weights=WEIGHTS), "beats": [beat()], "serving": 1,
        "limited_by": "capacity",
    }  # fmt: skip
    return Scene(**given | fields)


def sentence_of(given: Scene) -> str:
    found = verdict(given)
    return f"{found.before}{found.task}{found.after}"


def titles(given: Scene) -> list[tuple[str, str]]:
    return [(each.level, each.title) for each in verdict(given).concerns]


def test_verdict_says_when_all_is_done_and_who_is_last_and_why() -> None:
    cap = Held(task("sale", 60.0), "cap:app/shop", "the cap of app shop holds it back")
    found = verdict(scene(last=cap))
    assert (found.state, found.headline, found.concerns) == ("ok", "Sending at full capacity", [])
    assert sentence_of(scene(last=cap)) == (
        "All that waits will be sent by 08:01:00 UTC; sale is last: the cap of app shop holds it back."
    )


def test_verdict_names_channels_whose_tries_fail_with_the_reason() -> None:
    failing = [Held(task(id_), FAILING, "its tries fail: Failed to connect") for id_ in ("storm", "hail")]
    assert [each[:4] for each in verdict(scene(endless=failing[:1])).concerns] == [
        ("bad", "Channel null: tries fail: Failed to connect", "Task storm of app shop waits.", "/tasks/storm")
    ]
    assert verdict(scene(endless=failing, limited_by="workers")).headline.startswith("A channel fails: ")
    [concern] = verdict(scene(endless=failing, settings=None)).concerns
    assert concern.text == "Task storm of app shop waits, and others."
    assert sentence_of(scene(last=None, endless=failing)).endswith("for storm: its tries fail: Failed to connect.")


@pytest.mark.parametrize(
    ("cause", "runbook"),
    [
        (FAILING, "failing-provider"),
        ("held_until_sealed", "incomplete-submission"),
        ("audience", "incomplete-submission"),
        ("task_cap", "backlog-does-not-move"),
    ],
)
def test_runbook_of_a_task_without_an_end_is_that_of_its_cause(cause: str, runbook: str) -> None:
    [concern] = verdict(scene(endless=[Held(task("news"), cause, "its text")])).concerns
    assert concern.runbook == runbook


def test_verdict_leaves_out_a_cause_that_is_not_known() -> None:
    assert sentence_of(scene()) == "All that waits will be sent by 08:01:00 UTC; sale is last."


def test_verdict_of_an_idle_service_is_that_nothing_waits() -> None:
    idle = scene(waiting=0, last=None, limited_by="demand")
    assert (verdict(idle).state, verdict(idle).headline) == ("ok", "Nothing waits")
    assert sentence_of(idle) == "All that is due is sent."
    assert sentence_of(idle._replace(scheduled=1)) == "All that is due is sent; 1 task will start later."


def test_verdict_names_a_task_without_an_end_beside_the_last_one() -> None:
    stuck = scene(endless=[Held(task("news"), "paused", "it is paused")])
    assert sentence_of(stuck).startswith("All that can be sent will be sent by 08:01:00 UTC; ")
    assert titles(stuck) == [("warn", "Task news of app shop has no end in sight")]
    assert verdict(stuck).headline == "Sending at full capacity: 1 thing to look at"


def test_verdict_of_tasks_without_an_end_names_the_first() -> None:
    stuck = scene(last=None, endless=[Held(task("news"), "paused", "it is paused")])
    assert sentence_of(stuck) == "5 targets wait, and nothing is sent of news: it is paused."


def test_task_that_nothing_explains_has_the_runbook_of_stuck_tasks() -> None:
    [concern] = verdict(scene(endless=[Held(task("news"), "", "")])).concerns
    assert (concern.runbook, concern.page) == ("stuck-task", "/tasks/news")


def test_tasks_with_one_cause_are_one_concern() -> None:
    held = [Held(task(id_), "paused", "it is paused") for id_ in ("news", "sale")]
    [concern] = verdict(scene(endless=held)).concerns
    assert concern.title == "Task news of app shop and others have no end in sight"
    assert concern.page == "/tasks?sort=-eta"
    assert concern.runbook == "forgotten-pause"


def test_cap_that_leaves_a_task_without_an_end_leads_to_its_form() -> None:
    held = [Held(task("news"), "cap:app_channel/shop/fcm", "the cap of app shop on channel fcm holds it back")]
    settings = Globals(capacity=0, tier_weights=WEIGHTS)
    assert verdict(scene(endless=held, settings=settings)).concerns[0].page == "/limits?app=shop&channel=fcm#change"
    assert verdict(scene(endless=held, settings=None)).concerns[0].page == "/tasks/news"


def test_service_without_a_worker_is_bad_if_something_waits() -> None:
    found = verdict(scene(serving=0, beats=[], last=None, limited_by="workers"))
    assert (found.state, found.headline) == ("bad", "Nothing is sent: 1 thing to look at")
    assert titles(scene(serving=0, beats=[], waiting=0)) == []
    half = Held(task("half"), "held_until_sealed", "its submission is not complete")
    for last in (None, Held(task("sale", 60.0), "", "")):
        assert sentence_of(scene(serving=0, beats=[], last=last, endless=[half])) == (
            "5 targets wait, and no worker serves."
        )


def test_bad_concerns_come_before_others() -> None:
    settings = Globals(
        capacity=0, tier_weights=WEIGHTS, paused_channels=frozenset({"fcm"}), limits={"shop": Limits(2, 0)},
        flow_pauses={
            "apns/shop": FlowPause(kind=PauseKind.CREDENTIALS, since_ms=1, reason="403"),
            "hms/shop": FlowPause(kind=PauseKind.HAND, since_ms=1),
        },
    )  # fmt: skip
    found = scene(settings=settings, missing=[WaitingTasks("huawei", 2, 40)], tasks_of={"shop": 2, "news": 9})
    assert titles(found) == [
        ("bad", "No worker has channel huawei"),
        ("bad", "App shop is paused on channel apns"),
        ("warn", "Channel fcm is paused"),
        ("warn", "App shop is paused on channel hms"),
        ("warn", "shop is at its limit"),
    ]
    assert verdict(found).state == "bad"
    assert [each.page for each in verdict(found).concerns][1:3] == [
        "/limits?app=shop&channel=apns#change",
        "/limits?channel=fcm#change",
    ]


def test_task_held_by_a_pause_that_is_named_is_not_named_again() -> None:
    held = [Held(task("news"), "channel_paused", "channel fcm is paused")]
    settings = Globals(capacity=0, tier_weights=WEIGHTS, paused_channels=frozenset({"fcm"}))
    assert titles(scene(settings=settings, endless=held)) == [("warn", "Channel fcm is paused")]
    assert titles(scene(settings=None, endless=held)) == [("warn", "Task news of app shop has no end in sight")]


@pytest.mark.parametrize("state", ["suspect", "lost"])
def test_silent_worker_needs_attention(state: str) -> None:
    assert titles(scene(beats=[beat(state)])) == [("warn", f"Worker w1 is {state}")]


def test_unstored_outcomes_need_attention() -> None:
    late = beat(unrecorded={"since_ms": NOW_MS - 60_000, "targets": 7})
    [concern] = verdict(scene(beats=[late])).concerns
    assert (concern.level, concern.runbook) == ("bad", "outcomes-not-stored")
