"""Where a task's time went."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dispatcher.analysis.send_errors import SendError
from dispatcher.analysis.served import Served
from dispatcher.analysis.task_times import Counted, Switch, TimeSpan, counted_of, flow_switches_of, switches_of
from dispatcher.analysis.why import CauseShare, HeldUp, held_now, unrecorded_by, why
from dispatcher.model.flow_pause import FlowPause, PauseKind
from dispatcher.model.service_settings import globals_of
from dispatcher.model.view import Globals, TargetCounts, TaskView, WorkerBeat
from tests import records
from tests.unit.dispatch.fairlane.test_what_if import SETTINGS, view
from tests.unit.tasks import task_view

CREATED = 1_000_000


def at(
    task: TaskView,
    seconds: float,
    *switches: Switch,
    counted: dict[str, int] | None = None,
    span_s: tuple[float, float] = (0, 0),
    **held_up: Any,
) -> dict[str, int]:
    """Return ms by cause, `seconds` after acceptance. span_s: when the ledger counted, from the same time."""
    counts = Counted(counted or {}, span(*span_s) if counted else TimeSpan())
    found = why(task, counts, HeldUp(switches, **held_up), SETTINGS, CREATED + round(seconds * 1000))
    return dict(found.parts)


def span(from_s: float, to_s: float) -> TimeSpan:
    return TimeSpan(CREATED + round(from_s * 1000), CREATED + round(to_s * 1000))


def pause(seconds: float) -> Switch:
    return Switch(CREATED + round(seconds * 1000), paused=True)


def resume(seconds: float) -> Switch:
    return Switch(CREATED + round(seconds * 1000), paused=False)


def task(**fields: object) -> TaskView:
    return view("t", created_ms=CREATED, **fields)  # type: ignore[arg-type]


def test_workers_that_hold_outcomes_of_the_task_are_named_while_they_live() -> None:
    def beat(worker: str, state: str, *tasks: str) -> WorkerBeat:
        extra = {"unrecorded": {"since_ms": 7, "targets": 1, "tasks": list(tasks)}} if tasks else {}
        return records.beat(worker, state, seen_ms=9_000, extra=extra)

    beats = [beat("a", "serving", "t", "u"), beat("b", "draining", "t"), beat("c", "lost", "t")]
    beats += [beat("d", "serving", "u"), beat("e", "serving"), beat("f", "stopped", "t")]
    assert unrecorded_by("t", beats) == [("a", 7), ("b", 7)]


PAUSED = FlowPause(kind=PauseKind.DOWN, since_ms=1)
switches = st.lists(st.builds(Switch, st.integers(0, 2 * CREATED), st.booleans()))


def test_the_registry_knows_of_start_times_and_pauses() -> None:
    late = task(start_ms=CREATED + 5_000)
    assert at(late, 3) == {"scheduled": 3_000}
    assert at(late, 12, pause(2), resume(7), pause(9)) == {"scheduled": 5_000, "paused": 5_000, "no_worker": 2_000}
    assert at(task(), 4, pause(1), pause(2), resume(3), resume(3.5)) == {"paused": 2_000, "no_worker": 2_000}


def test_while_the_task_is_paused_its_channel_holds_nothing_back() -> None:
    held_up = HeldUp([pause(1), resume(3), pause(6), resume(7)], [pause(-5), resume(2), pause(4), resume(8)])
    found = why(task(), Counted({"sending": 1_000}, span(8, 9)), held_up, SETTINGS, CREATED + 9_000)
    assert dict(found.parts) == {"paused": 3_000, "channel_paused": 4_000, "no_worker": 1_000, "sending": 1_000}
    late = why(task(), Counted(), HeldUp((), [pause(2)]), SETTINGS, CREATED + 9_000)
    assert dict(late.parts)["channel_paused"] == 7_000


def test_pauses_of_its_app_on_its_channel_count_where_nothing_else_paused_it() -> None:
    held_up = HeldUp([pause(1), resume(3)], [pause(2), resume(4)], [pause(0), resume(6)])
    found = why(task(), Counted({"sending": 2_000}, span(6, 8)), held_up, SETTINGS, CREATED + 8_000)
    assert dict(found.parts) == {"flow_paused": 3_000, "paused": 2_000, "channel_paused": 1_000, "sending": 2_000}


def test_a_task_that_waits_for_its_audience() -> None:
    assert at(task(hold_until_sealed=True, sealed=False), 4, pause(1), resume(2)) == {
        "held_until_sealed": 3_000,
        "paused": 1_000,
    }


def test_a_task_held_for_its_seal_has_waited_for_its_audience_after_it_too() -> None:
    """Idle workers take up no lane of a task that is held, and that was said to be their fault."""
    held = task(hold_until_sealed=True, sealed=True)
    assert at(held, 12, counted={"sending": 2_000}, span_s=(10, 12)) == {"held_until_sealed": 10_000, "sending": 2_000}
    assert at(held, 12) == {"no_worker": 12_000}
    done = replace(held, first_outcome_ms=CREATED + 9_000, finished_ms=CREATED + 10_000, state="completed")
    assert at(done, 12) == {"held_until_sealed": 9_000, "last_targets": 1_000}


def test_a_submission_that_has_not_begun_to_publish_is_waited_for() -> None:
    assert at(replace(task(sealed=False), targets=TargetCounts()), 5) == {"audience": 5_000}


def test_an_outage_of_pulsar_is_a_cause() -> None:
    lost = Counted({"sending": 9_000, "no_pulsar": 40_000}, span(0, 49))
    assert why(task(), lost, HeldUp(), SETTINGS, CREATED + 50_000).now == "no_pulsar"
    ended = replace(task(), finished_ms=CREATED + 50_000, state="completed")
    assert at(ended, 60, counted=dict(lost.causes), span_s=(0, 49)) == {
        "no_pulsar": 40_000,
        "sending": 9_000,
        "last_targets": 1_000,
    }


def test_what_the_ledger_counted_is_shown_and_the_rest_is_said_to_be_unknown() -> None:
    counted = {"tier_share": 3_000, "cap:app/shop": 1_000}
    assert at(task(), 10, counted=counted, span_s=(0, 10)) == {**counted, "unknown": 6_000}
    assert at(task(), 2, counted=counted, span_s=(0, 2)) == {"tier_share": 1_500, "cap:app/shop": 500}
    assert CauseShare("cap:app/shop", 1).meaning == "the cap of app shop held it back"
    assert CauseShare("cap:app_channel/shop/push", 1).meaning == "the cap of app shop on channel push held it back"


def test_before_a_worker_runs_and_before_one_has_the_channel() -> None:
    runs, has = [span(-100, 20)], [span(-100, 50)]
    assert at(task(), 60, no_worker_runs=runs, no_channel=has, counted={"sending": 8_000}, span_s=(52, 60)) == {
        "no_worker_runs": 20_000,
        "no_channel": 30_000,
        "no_worker": 2_000,
        "sending": 8_000,
    }


def test_the_time_without_redis_is_a_cause() -> None:
    gone = [span(20, 35), span(35, 48)]
    assert at(task(), 60, outages=gone, counted={"cap_total": 32_000}, span_s=(0, 60)) == {
        "cap_total": 32_000,
        "no_redis": 28_000,
    }


def test_after_the_last_count_comes_the_end_of_a_task() -> None:
    ended = task(finished_ms=CREATED + 9_000)
    assert at(ended, 60, counted={"sending": 6_000}, span_s=(1, 7)) == {
        "no_worker": 1_000,
        "sending": 6_000,
        "last_targets": 2_000,
    }


def test_what_was_counted_last_goes_on_for_as_long_as_the_ledger_counts_no_more_often() -> None:
    counted = {"tier_share": 5_000, "task_cap": 2_000}
    assert at(task(), 9.5, counted=counted, span_s=(0, 7)) == {"tier_share": 5_000, "task_cap": 4_500}
    assert at(task(), 19.5, counted=counted, span_s=(0, 7)) == {**counted, "unknown": 12_500}


def test_last_cause_is_known_while_the_ledger_counts() -> None:
    counted = Counted({"sending": 5_000, "cap:app/shop": 2_000}, span(0, 7))
    for seconds, last in ((8, "cap:app/shop"), (19, "")):
        assert why(task(), counted, HeldUp(), SETTINGS, CREATED + seconds * 1_000).last == last


def test_a_submission_that_gives_no_targets_is_waited_for() -> None:
    open_task = task(sealed=False, targets=TargetCounts(total=5, sent=5))
    assert at(open_task, 60, counted={"sending": 7_000}, span_s=(0, 7)) == {"sending": 7_000, "audience": 53_000}


def failed(at_s: float, retry_s: float) -> SendError:
    return SendError("HTTP 429", 5, CREATED + round(at_s * 1000), 2, CREATED + round(retry_s * 1000))


def test_until_its_next_attempt_is_due_a_task_waits_for_that() -> None:
    waits = task(last_error=failed(8, 80))
    assert at(waits, 60, counted={"sending": 7_000}, span_s=(0, 7)) == {
        "sending": 7_000,
        "provider": 1_000,
        "retry_wait": 52_000,
    }


@pytest.mark.parametrize(
    ("counted", "now_s", "now"),
    [
        (Counted({"sending": 7_000}, span(0, 7)), 60, "retry_wait"),
        (Counted({"sending": 7_000}, span(0, 7)), 90, ""),
        (Counted({"sending": 52_000}, span(0, 59)), 60, ""),
        (Counted({"sending": 52_000}, span(0, 50)), 60, "retry_wait"),
        (Counted({"sending": 7_000, "provider": 50_000}, span(0, 89)), 90, "provider"),
        (Counted({"sending": 7_000, "provider": 50_000}, span(0, 80)), 90, ""),
    ],
    ids=["not due yet", "due", "others of it are sent", "no others any more", "in the provider", "it was"],
)
def test_what_a_task_that_is_being_sent_waits_for(counted: Counted, now_s: float, now: str) -> None:
    found = why(task(last_error=failed(8, 80)), counted, HeldUp(), SETTINGS, CREATED + round(now_s * 1000))
    assert found.now == now
    assert found.last_error == failed(8, 80)


def test_an_ended_task_has_the_age_it_ended_with() -> None:
    ended = task(finished_ms=CREATED + 2_000)
    found = why(ended, Counted({"sending": 2_000}, span(0, 2)), HeldUp(), SETTINGS, CREATED + 90_000)
    assert (found.age_ms, found.parts, found.now) == (2_000, [CauseShare("sending", 2_000)], "")


@pytest.mark.parametrize(
    ("fields", "settings", "now"),
    [
        ({}, SETTINGS, ""),
        ({"state": "paused"}, SETTINGS, "paused"),
        ({"state": "scheduled"}, SETTINGS, "scheduled"),
        ({"hold_until_sealed": True, "sealed": False}, SETTINGS, "held_until_sealed"),
        ({}, replace(SETTINGS, paused_channels=frozenset({"null"})), "channel_paused"),
        ({}, replace(SETTINGS, flow_pauses={"null/shop": PAUSED}), "flow_paused"),
        ({}, replace(SETTINGS, flow_pauses={"null/bank": PAUSED}), ""),
    ],
)
def test_what_holds_it_back_now(fields: dict[str, object], settings: Globals, now: str) -> None:
    assert why(task(**fields), Counted(), HeldUp(), settings, CREATED + 1).now == now


def test_pauses_as_they_are_kept() -> None:
    assert switches_of("") == []
    assert switches_of("0001:02:03=1@1500 0001:02:04=0@1700") == [
        Switch(1_500, paused=True),
        Switch(1_700, paused=False),
    ]


def test_pauses_with_an_end_as_they_are_kept() -> None:
    assert flow_switches_of("") == []
    assert flow_switches_of("0001:02:03=1@1500:1600") == [Switch(1_500, paused=True), Switch(1_600, paused=False)]
    ended_early = flow_switches_of("0001:02:03=1@1500:1900 0001:02:04=0@1700")
    assert ended_early == [Switch(1_500, paused=True), Switch(1_700, paused=False)]
    ended_in_time = flow_switches_of("0001:02:03=1@1500:1600 0001:02:04=1@1700")
    assert ended_in_time == [Switch(1_500, paused=True), Switch(1_600, paused=False), Switch(1_700, paused=True)]


spans = st.builds(TimeSpan, st.integers(0, 2 * CREATED), st.integers(0, 2 * CREATED))
errors = st.builds(
    SendError,
    st.just("HTTP 500"),
    st.integers(1, 9),
    st.integers(0, 2 * CREATED),
    st.integers(1, 5),
    st.integers(0, 2 * CREATED),
)


@given(
    st.builds(HeldUp, switches, switches, st.lists(spans, max_size=3), st.lists(spans, max_size=3)),
    st.builds(
        Counted,
        st.dictionaries(st.sampled_from(["tier_share", "task_cap", "no_worker", "cap:x"]), st.integers(-5, 10**7)),
        spans,
    ),
    st.fixed_dictionaries(
        {
            "start_ms": st.integers(0, 2 * CREATED),
            "sealed": st.booleans(),
            "hold_until_sealed": st.booleans(),
            "first_outcome_ms": st.integers(0, 2 * CREATED),
            "finished_ms": st.just(0) | st.integers(0, 2 * CREATED),
            "last_error": st.none() | errors,
        }
    ),
    st.integers(-CREATED, CREATED),
)
def test_parts_add_up_to_the_age_whatever_was_noted(
    held_up: HeldUp, counted: Counted, fields: dict[str, object], age_ms: int
) -> None:
    noted = task(**fields)
    found = why(noted, counted, held_up, SETTINGS, CREATED + age_ms)
    assert found.age_ms == max(0, (noted.finished_ms or CREATED + age_ms) - CREATED)
    assert sum(part.ms for part in found.parts) == found.age_ms
    assert all(part.ms > 0 for part in found.parts)
    assert len({part.cause for part in found.parts}) == len(found.parts)


def test_what_the_ledger_counted_as_it_is_kept() -> None:
    assert counted_of("") == {}
    assert counted_of("tier_share=3000 cap:app_channel/a=b/c=7") == {"tier_share": 3_000, "cap:app_channel/a=b/c": 7}


def test_a_task_is_held_back_while_no_live_worker_has_its_channel() -> None:
    sms, settings = task_view("x", 10, channel="sms"), globals_of({})
    assert held_now(sms, settings, Served(1, frozenset({"null"}))) == "no_channel"
    assert held_now(sms, settings, Served(0, frozenset())) == "no_worker_runs"
    for served in (Served(1, frozenset({"sms"})), Served(1, None), None):
        assert held_now(sms, settings, served) == ""
    assert held_now(task_view("x", 10, channel="sms", state="paused"), settings, Served(1, frozenset())) == "paused"
    assert held_now(task_view("x", 0, channel="sms"), settings, Served(1, frozenset())) == "", "all is sent"
