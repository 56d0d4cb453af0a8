"""Checks of the view in `fairlane doctor` and `fairlane registry status`."""

from msgspec import structs

from backends.redis.keys import MAX_PASSED_OVER
from backends.redis.passed_over import Passed, note_of
from backends.redis.registry.task_rows import IdleTask
from dispatcher.model.view import WorkerBeat
from dispatcher.model.view_form import FORM
from fairlane.checks.view_checks import (
    STUCK_MS,
    channel_findings,
    form_findings,
    passed_over_findings,
    stuck_findings,
    unrecorded_findings,
)
from fairlane.cli.service.registry import MAX_SHOWN, shown_of
from tests.unit.tasks import task_view


def beat(form: int, state: str) -> WorkerBeat:
    return WorkerBeat(
        id=f"w-{form}",
        host="host",
        pid=1,
        state=state,
        started_ms=0,
        seen_ms=0,
        version="0.1.0",
        lanes=0,
        in_flight=0,
        buffered=0,
        rate=0.0,
        tiers={},
        form=form,
    )


def test_nothing_is_said_of_a_view_that_may_be_served() -> None:
    assert not list(form_findings(FORM, [beat(FORM, "serving")]))
    assert not list(form_findings(None, []))
    assert not list(passed_over_findings({}))


def test_workers_that_stand_by_are_told_and_for_whom() -> None:
    (finding,) = form_findings(1, [beat(1, "serving"), beat(FORM, "standby")])
    assert finding.level == "warn"
    assert finding.what == "1 workers are on standby: workers of an older version serve the view: stop w-1 (0.1.0)"


def test_records_that_were_passed_over_are_told_with_the_first_of_each_topic() -> None:
    kept = [Passed(f"{number:06d}", "0.2.0", "its tier is 'urgent'") for number in range(MAX_PASSED_OVER)]
    control, outcomes = passed_over_findings({"control": kept, "1": kept[:1]})
    assert control.what == (
        "1000 records of control could not be read and were skipped (the oldest of them); the first, at 000000: "
        "its tier is 'urgent'"
    )
    assert outcomes.what.startswith("1 records of outcomes-1 could not be read and were skipped; ")


def test_the_status_shows_the_first_of_them() -> None:
    kept = [Passed(f"{number:06d}", "0.2.0", "odd") for number in range(50)]
    shown = shown_of(kept)
    assert shown["records"] == 50
    assert len(shown) == MAX_SHOWN + 1
    assert shown["000000"] == "odd (by 0.2.0)"


def test_a_reason_is_kept_short_and_without_escape_sequences() -> None:
    note = note_of("0.2.0", "\x1b[31mred\n\ud800é" + "x" * 5_000)
    assert note.isascii()
    assert note.isprintable()
    assert len(note) < 300


def test_channels_of_live_tasks_that_no_live_worker_has_are_named() -> None:
    tasks = [task_view("a", 5, channel="sms"), task_view("b", 7, channel="sms"), task_view("c", 0, channel="mail")]
    tasks += [task_view("d", 9, channel="null"), task_view("e", 9, channel="fax", finished_ms=1)]
    gone = structs.replace(with_channels("sms"), state="stopped")
    (finding,) = channel_findings([with_channels("null"), gone], tasks)
    assert finding.level == "warn"
    assert finding.what == "no worker has channel sms: 2 tasks with 12 targets wait for it"
    assert "Live workers have: null." in finding.fix
    assert not list(channel_findings([with_channels("null"), beat(FORM, "serving")], tasks)), (
        "an old worker may have it"
    )


def test_tasks_that_wait_for_any_worker_are_counted() -> None:
    """`doctor` said that all is well."""
    tasks = [task_view("a", 5), task_view("b", 7, channel="sms"), task_view("c", 0), task_view("d", 9, finished_ms=1)]
    (finding,) = channel_findings([structs.replace(with_channels("sms"), state="stopped")], tasks)
    assert (finding.level, finding.what) == ("warn", "no worker is running: 2 tasks with 12 targets wait for one")
    assert "fairlane worker" in finding.fix
    assert not list(channel_findings([], tasks[2:]))
    assert not list(channel_findings([structs.replace(beat(FORM, "standby"))], tasks)), "that is said by itself"


def test_workers_that_cannot_record_outcomes_are_named_with_the_tasks_and_since_when() -> None:
    late = {"unrecorded": {"since_ms": 1_000, "targets": 1_200, "tasks": list("abcdefg")}}
    cut_off = structs.replace(beat(FORM, "serving"), seen_ms=74_000, extra=late)
    others = [structs.replace(cut_off, state=state) for state in ("stopped", "lost")] + [beat(FORM, "serving")]
    (finding,) = unrecorded_findings([*others, cut_off])
    assert finding.level == "warn"
    assert finding.what.startswith(
        f"worker {cut_off.id} holds outcomes of 1,200 targets that Pulsar has not stored, the oldest for 1 m 13 s "
        "(tasks a, b, c, d, e, …)"
    )
    assert "See whether host reaches Pulsar" in finding.fix


def test_tasks_to_which_nothing_happens_for_no_reason_are_named_with_the_way_out() -> None:
    lost, late = task_view("lost", 5), task_view("late", 7, state="cancelled")
    explained = [
        task_view("paused", 5, state="paused"),
        task_view("incomplete", 5, sealed=False),
        task_view("waiting", 5, channel="sms"),
        task_view("done", 0),
    ]
    beats = [with_channels("null")]
    tasks = [IdleTask(task, STUCK_MS) for task in (lost, late, *explained)]
    (finding,) = stuck_findings(beats, tasks)
    assert finding.level == "warn"
    assert finding.what == (
        "2 tasks cannot end by themselves: 12 targets have no outcome, and nothing has happened for 15 m 00 s "
        "or longer (lost, late)"
    )
    assert "`fairlane task close ID --reason TEXT`" in finding.fix
    assert not list(stuck_findings(beats, [IdleTask(lost, STUCK_MS - 1)]))
    assert not list(stuck_findings(beats, [IdleTask(lost, STUCK_MS)], {"null"})), "its channel is paused"
    assert not list(stuck_findings([], tasks)), "without workers nothing happens to any task"


def with_channels(*channels: str) -> WorkerBeat:
    return structs.replace(beat(FORM, "serving"), extra={"channels": list(channels)})
