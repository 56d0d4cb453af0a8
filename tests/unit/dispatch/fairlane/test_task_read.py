"""`fairlane task failures` of a task with very many, with a client in memory."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from dispatcher.model.service_settings import globals_of
from fairlane.cli.handlers import task as handlers
from producers.outcomes.record import ReasonGroup, TargetRecord, group_by_reason
from tests.records import target_record
from tests.unit.command_line import CommandLine

MANY = 1_500


class Task:
    taken = 0

    def failures(self) -> Iterator[TargetRecord]:
        for number in range(MANY):
            self.taken += 1
            yield target_record(f"target-{number}", reason="no route")

    def outcomes(self, target: str | None) -> Iterator[TargetRecord]:
        for number in range(MANY):
            if target in (None, f"target-{number}"):
                sent_id = f"projects/shop/messages/{number}"
                yield target_record(f"target-{number}", outcome="sent", position=number, provider_id=sent_id)

    def failures_by_reason(self) -> list[ReasonGroup]:
        return group_by_reason([*self.failures(), target_record("gone", outcome="invalid", reason="gone")])


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    found = Task()
    client = SimpleNamespace(task=lambda _: found)
    monkeypatch.setattr(handlers, "client_of", lambda _: nullcontext(client))
    return found


def test_a_table_shows_the_first_thousand_and_says_what_to_do(task: Task, cli: CommandLine) -> None:
    """300,000 took 97 s."""
    reported = cli(["task", "failures", "sale"])
    assert (reported.out.count("target-"), task.taken) == (1_000, 1_001)
    assert "more than 1,000" in reported.err
    assert "--by-reason" in reported.err


@pytest.mark.usefixtures("task")
def test_a_limit_counts_in_every_form_and_json_has_all_without_one(cli: CommandLine) -> None:
    assert cli(["task", "failures", "sale", "--limit", "3"]).out.count("target-") == 3
    assert len(json.loads(cli(["task", "failures", "sale", "--limit", "3", "-o", "json"]).out)) == 3
    assert len(json.loads(cli(["task", "failures", "sale", "-o", "json"]).out)) == MANY


@pytest.mark.parametrize(("only", "message"), [((), "knows no task"), (("--app", "shop"), "knows no such task")])
def test_an_empty_list_says_which_redis_was_asked(
    only: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    """With one wrong digit in its address another Redis answers, and knows nothing."""
    client = SimpleNamespace(task_page=lambda **_: ([], None), globals=lambda: globals_of({}))
    monkeypatch.setattr(handlers, "client_of", lambda _: nullcontext(client))
    printed = cli(["--redis-url", "redis://me:hush@wrong.example:6379/0", "task", "list", *only]).err
    assert "wrong.example:6379/0" in printed
    assert f"(from the command line) {message}" in printed
    assert "hush" not in printed


@pytest.mark.usefixtures("task")
def test_failures_are_counted_by_reason(cli: CommandLine) -> None:
    groups = json.loads(cli(["task", "failures", "sale", "--by-reason", "-o", "json"]).out)
    assert [(group["count"], group["reason"]) for group in groups] == [(MANY, "no route"), (1, "gone")]


@pytest.mark.usefixtures("task")
def test_the_outcome_of_a_target_has_the_providers_id_and_one_without_a_record_says_why(cli: CommandLine) -> None:
    (row,) = json.loads(cli(["task", "outcomes", "sale", "--target", "target-7", "-o", "json"]).out)
    assert (row["outcome"], row["provider_id"], row["position"]) == ("sent", "projects/shop/messages/7", 7)
    assert "more than 1,000" in cli(["task", "outcomes", "sale"]).err
    assert "journal.targets" in cli(["task", "outcomes", "sale", "--target", "nobody"]).err
