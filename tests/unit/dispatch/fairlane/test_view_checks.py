"""Checks of the view in `fairlane doctor` and `fairlane registry status`."""

from typing import Any

import pytest
from msgspec import structs

from backends.redis.keys import MAX_SKIPPED_RECORDS
from backends.redis.registry.task_rows import SILENT_MS, STUCK_MS, VIEW_FIELDS, IdleTask, TaskRow, idle_task
from backends.redis.skipped_records import SkippedRecord, note_of
from backends.redis.view import SET_APART
from dispatcher.analysis.send_errors import CAP_TEXT, SendError
from dispatcher.model.service_settings import globals_of
from dispatcher.model.view import WorkerBeat
from dispatcher.model.view_form import FORM
from fairlane.checks.view_checks import (
    apart_findings,
    channel_findings,
    flow_findings,
    form_findings,
    lacking_findings,
    silent_findings,
    skipped_findings,
    stuck_findings,
    unrecorded_findings,
)
from fairlane.cli.handlers.view import MAX_SHOWN, shown_of
from tests import records
from tests.unit.tasks import task_view


def beat(form: int, state: str, **fields: Any) -> WorkerBeat:
    return records.beat(f"w-{form}", state, form=form, **fields)


def test_nothing_is_said_of_a_view_that_may_be_served() -> None:
    assert not list(form_findings(FORM, [beat(FORM, "serving")]))
    assert not list(form_findings(None, []))
    assert not list(skipped_findings({}))


def test_workers_that_stand_by_are_told_and_for_whom() -> None:
    (finding,) = form_findings(1, [beat(1, "serving"), beat(FORM, "standby")])
    assert finding.level == "warn"
    assert finding.what == "1 workers are on standby: workers of an older version serve the view: stop w-1 (0.1.0)"


def test_records_that_were_passed_over_are_told_with_the_first_of_each_topic() -> None:
    kept = [SkippedRecord(f"{number:06d}", "0.2.0", "its tier is 'urgent'") for number in range(MAX_SKIPPED_RECORDS)]
    control, outcomes = skipped_findings({"control": kept, "1": kept[:1]})
    assert control.what == (
        "1000 records of control could not be read and were skipped (the oldest of them); the first, at 000000: "
        "its tier is 'urgent'"
    )
    assert outcomes.what.startswith("1 records of outcomes-1 could not be read and were skipped; ")


def test_the_status_shows_the_first_of_them() -> None:
    kept = [SkippedRecord(f"{number:06d}", "0.2.0", "odd") for number in range(50)]
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
    gone = with_channels("sms", state="stopped")
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
    (finding,) = channel_findings([with_channels("sms", state="stopped")], tasks)
    assert (finding.level, finding.what) == ("warn", "no worker is running: 2 tasks with 12 targets wait for one")
    assert "fairlane worker" in finding.fix
    assert not list(channel_findings([], tasks[2:]))
    assert not list(channel_findings([beat(FORM, "standby")], tasks)), "that is said by itself"


def test_workers_that_cannot_record_outcomes_are_named_with_the_tasks_and_since_when() -> None:
    late = {"unrecorded": {"since_ms": 1_000, "targets": 1_200, "tasks": list("abcdefg")}}
    cut_off = beat(FORM, "serving", seen_ms=74_000, extra=late)
    others = [structs.replace(cut_off, state=state) for state in ("stopped", "lost")] + [beat(FORM, "serving")]
    (finding,) = unrecorded_findings([*others, cut_off])
    assert finding.level == "warn"
    assert finding.what.startswith(
        f"worker {cut_off.id} holds outcomes of 1,200 targets that Pulsar has not stored, the oldest for 1 m 13 s "
        "(tasks a, b, c, d, e and 2 more)"
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
    paused = globals_of({"channel_paused:null": "1"})
    assert not list(stuck_findings(beats, [IdleTask(lost, STUCK_MS)], paused)), "its channel is paused"
    flow_paused = globals_of({"flow_paused:null:shop": "0|hand|1||"})
    assert not list(stuck_findings(beats, [IdleTask(lost, STUCK_MS)], flow_paused)), "its app is paused on the channel"
    assert not list(stuck_findings([], tasks)), "without workers nothing happens to any task"


@pytest.mark.parametrize(
    ("fields", "silent_s"),
    [
        ({"claims": "1"}, 900.0),
        ({"claims": "0"}, 0.0),
        ({"claims": "1", "rate_ms": "1500000"}, 300.0),
        ({"claims": "1", "start_ms": "1200000"}, 600.0),
        ({"claims": "1", "finals": "9"}, 0.0),
        ({"error": "HTTP 503", "errors": "9", "error_ms": "1700000", "error_attempt": "4"}, 0.0),
        ({"error": "HTTP 503", "errors": "9", "error_ms": "1750000", "error_attempt": "4"}, 900.0),
    ],
)
def test_task_is_silent_since_its_last_outcome_while_workers_have_it_or_its_tries_fail(
    fields: dict[str, str], silent_s: float
) -> None:
    stored = {"cap": "0", "sealed": "1", "total": "9", "created_ms": "900000", **fields}
    values = {name: stored.get(name, "").encode() or None for name in VIEW_FIELDS}
    assert idle_task(TaskRow("t", "running", values), 1_800_000).silent_ms == silent_s * 1_000
    assert idle_task(TaskRow("t", "paused", values), 1_800_000).silent_ms == 0


def test_silent_tasks_are_named_unless_a_pause_or_a_cap_explains_them() -> None:
    capped = SendError("", 0, 0, 0, 0, 9, 5, CAP_TEXT)
    tasks = [
        IdleTask(task_view("hung", 5), 0, silent_ms=SILENT_MS),
        IdleTask(task_view("new", 5), 0, silent_ms=SILENT_MS - 1),
        IdleTask(task_view("off", 5, channel="sms"), 0, silent_ms=SILENT_MS),
        IdleTask(task_view("capped", 5, last_error=capped), 0, silent_ms=SILENT_MS),
    ]
    [finding] = silent_findings(tasks, globals_of({"channel_paused:sms": "1"}))
    assert finding.what == ("workers send 1 task, and no target has had an outcome for 10 m 00 s or longer (hung)")
    assert not list(silent_findings(tasks[1:2]))


def test_an_envelope_that_lacks_an_open_target_is_named() -> None:
    task = task_view("t", 5)
    (finding,) = lacking_findings([IdleTask(task, 0), IdleTask(task, 0, "a:b:7:3")])
    assert finding.what.startswith("envelope 7 of writer a:b of task t, round 3, lacks a target that has no outcome")
    assert "`fairlane task close t --reason TEXT`" in finding.fix


@pytest.mark.parametrize(
    ("noted", "lacking"),
    [
        (b"", ""),
        (b"0:7:3 0 60000", "0:7:3"),
        (b"0:7:3 0 59999", ""),
        (b"0:7:3 0 45000", ""),
    ],
)
def test_an_envelope_lacks_a_target_for_a_minute_before_it_is_named(noted: bytes, lacking: str) -> None:
    values: dict[str, bytes | None] = {**dict.fromkeys(VIEW_FIELDS, b""), "lacking": noted, "cap": b"0"}
    assert idle_task(TaskRow("t", "running", values), 75_000).lacking == lacking
    assert not idle_task(TaskRow("t", "running", values), 76_000).lacking


def with_channels(*channels: str, state: str = "serving") -> WorkerBeat:
    return beat(FORM, state, extra={"channels": list(channels)})


def test_apps_that_something_paused_are_named_with_the_cause() -> None:
    fields = {
        "flow_paused:fcm:shop": "0|suspect|1||suspected wrong environment",
        "flow_paused:fcm:bank": "0|hand|1||by hand",
        "flow_paused:apns:shop": "60000|down|1||HTTP 503",
    }
    tasks = [task_view("a", 10, channel="fcm"), task_view("b", 7, channel="fcm", app="bank")]
    down, suspect = flow_findings(globals_of(fields, 2), tasks)
    assert "app shop is paused on channel apns until" in down.what
    assert "0 targets wait: down, HTTP 503" in down.what
    assert "app shop is paused on channel fcm without an end, and 10 targets wait: suspect, suspected" in suspect.what
    assert "`fairlane channel resume fcm --app shop`" in suspect.fix
    assert "--confirm-dead" in suspect.fix
    assert "--confirm-dead" not in down.fix


def test_doctor_names_the_tasks_with_envelopes_that_were_set_apart() -> None:
    (finding,) = apart_findings({f"{SET_APART}small": 4, f"{SET_APART}large": 1_500, "repeats": 7})
    assert finding.level == "warn"
    assert "1,504 targets failed" in finding.what
    assert "large (1,500), small (4)" in finding.what
    assert "dead-letters drop --task ID" in finding.fix
    assert list(apart_findings({"repeats": 7})) == []
