"""Notes of incidents and turns of captures, as Redis keeps them."""

from typing import Any

from msgspec.json import encode

from backends.redis.estate.incidents import FRESH_MS, MAX_NOTES, IncidentNote, Incidents
from backends.redis.view import RedisView

SPAN_MS = 600_000


def note(task: str, **fields: Any) -> IncidentNote:
    return IncidentNote(reason=f"task {task} stalls", task=task, **fields)


def test_a_note_is_taken_once_and_the_last_one_of_a_task_counts(view: RedisView) -> None:
    incidents = Incidents(view)
    assert not incidents.take()
    for who in ("a:1", "a:2"):
        assert incidents.note(note("sale", lane="persistent://t/n/sale", who=who))
    incidents.note(note("a task: with 'odd' |characters\n"))
    taken = sorted(incidents.take(), key=lambda one: -len(one.task))
    assert taken == [note("a task: with 'odd' |characters\n"), note("sale", lane="persistent://t/n/sale", who="a:2")]
    assert not Incidents(view).take()


def test_there_is_a_bound_and_notes_expire(view: RedisView) -> None:
    incidents = Incidents(view)
    assert [incidents.note(note(f"t{number}")) for number in range(MAX_NOTES + 1)] == [True] * MAX_NOTES + [False]
    assert incidents.note(note("t0", who="again"))
    assert 0 < view.command("PTTL", view.keys.incidents) <= FRESH_MS
    assert len(incidents.take()) == MAX_NOTES


def test_notes_that_are_old_or_cannot_be_read_are_left_out(view: RedisView) -> None:
    incidents = Incidents(view)
    now_ms = view.now_ms()
    old = encode(note("old")).decode()
    bodies = {
        "old": f"{now_ms - FRESH_MS - 5_000} {old}",
        "later": f"{now_ms + FRESH_MS + 5_000} {old}",
        "broken": f"{now_ms} {{",
        "nonsense": "x",
        "empty": "",
    }
    for subject, body in bodies.items():
        view.command("HSET", view.keys.incidents, subject, body)
    incidents.note(note("sale"))
    assert incidents.take() == [note("sale")]


def test_one_of_two_has_the_turn_until_its_time_is_over(view: RedisView) -> None:
    incidents = Incidents(view)
    assert incidents.take_turn("a", 60_000, SPAN_MS) == 0
    assert 0 < incidents.take_turn("b", 60_000, SPAN_MS) <= 60_000
    assert incidents.take_turn("a", SPAN_MS, SPAN_MS) == 0, "its owner may keep it for longer"
    assert 60_000 < incidents.take_turn("b", 60_000, SPAN_MS) <= SPAN_MS
    view.command("DEL", view.keys.lock("capture"))
    assert incidents.take_turn("b", 60_000, SPAN_MS) == 0


def test_a_turn_that_lasts_too_long_as_the_clock_was_set_back_is_shortened_and_not_given_away(view: RedisView) -> None:
    incidents = Incidents(view)
    incidents.take_turn("a", SPAN_MS + 3_600_000, SPAN_MS)
    assert incidents.take_turn("b", 60_000, SPAN_MS) == SPAN_MS
    assert 0 < incidents.take_turn("b", 60_000, SPAN_MS) <= SPAN_MS
