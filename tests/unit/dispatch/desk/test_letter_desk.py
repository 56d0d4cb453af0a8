"""Failed targets at the desk: a key sees and sends again what its app owns."""

from datetime import UTC, datetime, timedelta

import pytest

from dispatcher.model.errors import FairlaneError, InvalidInput, NotFound
from dispatcher.wire.control import TaskRecord
from producers.outcomes.record import TargetFilter
from tests.records import dead_letter
from tests.unit.dispatch.desk.desk_world import DeskWorld, new_task

ANY = TargetFilter(since=datetime.now(UTC) - timedelta(days=2))
NOW_MS = int(datetime.now(UTC).timestamp() * 1000)
LONG_AGO_MS = NOW_MS - 2 * 86_400_000


@pytest.fixture
def letters(world: DeskWorld) -> DeskWorld:
    """Letters of two apps, of a task that no key submitted, and of a message that was no envelope."""
    for app in ("shop", "news"):
        world.desks(app).tasks.submit(new_task(), ["a", "b"])
    world.submit("plain", "shop")
    world.connection.letters.topic += [
        dead_letter("shop--sale", ["shop-1", "shop-2"], app="shop", at_ms=NOW_MS, reasons=["HTTP 503", "HTTP 400"]),
        dead_letter("news--sale", ["news-1"], app="news", at_ms=NOW_MS, reasons=["HTTP 503"]),
        dead_letter("plain", ["plain-1"], at_ms=NOW_MS, reasons=["HTTP 503"]),
        dead_letter("", app="", at_ms=NOW_MS),
        dead_letter("shop--sale", ["old-1"], app="shop", at_ms=LONG_AGO_MS, sequence=7, reasons=["HTTP 503"]),
    ]
    return world


def listed(world: DeskWorld, chosen: TargetFilter = TargetFilter(), app: str = "shop") -> set[tuple[str, str, int]]:
    groups = world.desks(app).letters.letters(chosen, "all")
    return {(group.task, group.state, group.count) for group in groups}


def test_key_sees_letters_of_its_app_and_none_without_a_task(letters: DeskWorld) -> None:
    assert listed(letters) == {("sale", "open", 1), ("~plain", "open", 1)}
    assert listed(letters, TargetFilter(error="503"), "news") == {("sale", "open", 1)}
    assert "" in {group.task for group in letters.operator().letters.letters(TargetFilter(), "open")}


def test_letters_are_those_of_the_last_day_unless_a_task_or_a_time_is_named(letters: DeskWorld) -> None:
    for chosen in (TargetFilter(task="sale"), ANY):
        assert sum(count for task, _, count in listed(letters, chosen) if task == "sale") == 3


@pytest.mark.parametrize("task", ["~news--sale", "nowhere", "~nowhere", "news--sale", "<script>"])
def test_letters_of_a_foreign_task_do_not_exist(letters: DeskWorld, task: str) -> None:
    desk, chosen = letters.desks().letters, TargetFilter(task=task)
    for call in (
        lambda: desk.letters(chosen, "open"),
        lambda: desk.replay(chosen, None),
        lambda: desk.drop(chosen, None),
    ):
        with pytest.raises(NotFound) as refused:
            call()
        assert refused.value.cause == f"There is no task {task}."


def test_letters_of_a_foreign_app_do_not_exist(letters: DeskWorld) -> None:
    for app in ("news", "nowhere"):
        with pytest.raises(NotFound, match=f"There is no app {app}"):
            letters.desks().letters.letters(TargetFilter(app=app), "open")


def test_empty_filter_is_refused_before_it_is_clipped_to_the_app(letters: DeskWorld) -> None:
    desk = letters.desks().letters
    for call in (desk.replay, desk.drop):
        with pytest.raises(InvalidInput, match="The filter is empty"):
            call(TargetFilter(), None)


def test_replay_makes_a_task_of_the_app_that_its_key_can_read(letters: DeskWorld) -> None:
    made = letters.desks(request="req-9").letters.replay(TargetFilter(error="HTTP 503"), None)
    assert {each.task for each in made} == {"sale", "~plain"}
    for each in made:
        assert letters.desks().tasks.task(each.replay).app == "shop"
        assert each.replay.startswith(each.task)
    assert listed(letters, TargetFilter(error="HTTP 503")) == {("sale", "replayed", 1), ("~plain", "replayed", 1)}
    assert listed(letters, app="news") == {("sale", "open", 1)}
    entries = [entry for entry in letters.audit() if entry.field == "letters_replay"]
    assert {(entry.by, entry.request, entry.app) for entry in entries} == {("key:k-shop", "req-9", "shop")}


def test_replay_keeps_to_the_policy_of_the_app(letters: DeskWorld) -> None:
    letters.allow(tier="low")
    before = len(letters.service.records_of(TaskRecord))
    with pytest.raises(InvalidInput, match="tiers up to low"):
        letters.desks().letters.replay(TargetFilter(task="sale"), None)
    assert len(letters.service.records_of(TaskRecord)) == before
    assert {state for _, state, _ in listed(letters)} == {"open"}
    assert letters.operator().letters.replay(TargetFilter(task="shop--sale"), None)


def test_drop_marks_letters_of_the_app_only(letters: DeskWorld) -> None:
    assert letters.desks().letters.drop(TargetFilter(error="HTTP 503"), None) == 2
    assert listed(letters, TargetFilter(error="503"), "news") == {("sale", "open", 1)}


def test_error_of_a_replay_names_the_task_as_the_key_does(letters: DeskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters.connection, "_definition", letters.connection.letters.task_of)
    letters.connection.letters.unknown |= {"shop--sale"}
    with pytest.raises(FairlaneError) as refused:
        letters.desks().letters.replay(TargetFilter(task="sale"), None)
    assert refused.value.cause == "The record of task sale is gone."
