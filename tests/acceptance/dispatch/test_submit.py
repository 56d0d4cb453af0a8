"""`fairlane task submit` in all its forms, up to what the providers get."""

import json
import signal
from typing import Any

import pytest

from tests.acceptance.conftest import CommandLine, CommandResult
from tests.integration.worker_crew import Crew, eventually

pytestmark = pytest.mark.usefixtures("workers")
ONE = ("--app", "shop", "--channel", "log", "--body", "50 % off")


def delivered(workers: Crew, task: str) -> list[dict[str, Any]]:
    return [dict(line) for line in workers.lines() if line["task"] == task]


def variables(workers: Crew, task: str) -> dict[str, Any]:
    """Return the variables of each delivered target."""
    lines = delivered(workers, task)
    pairs = [
        zip(line["targets"], line.get("variables") or [None] * len(line["targets"]), strict=True) for line in lines
    ]
    return {target: own for pair in pairs for target, own in pair}


def waited(fairlane: CommandLine, task: str) -> Any:
    return fairlane.data("task", "wait", task, "--timeout", "30s")


def test_one_task_from_options_and_standard_input(fairlane: CommandLine, workers: Crew) -> None:
    options = ("--title", "Sale", "--tier", "high", "--chunk", "2", "--ttl", "1h", "--weight", "2.5", "--cap", "500")
    arguments = ("task", "submit", "--id", "stdin-1", *ONE, *options, "--targets", "-")
    [row] = fairlane.data(*arguments, stdin="one\ntwo\n\nthree\n")
    assert [row[name] for name in ("id", "accepted", "refused", "envelopes", "stopped")] == ["stdin-1", 3, 0, 2, ""]
    view = waited(fairlane, "stdin-1")
    assert (view["state"], view["weight"], view["cap"], view["chunk"]) == ("completed", 2.5, 500, 2)
    assert view["expires_ms"] - view["created_ms"] == 3_600_000
    lines = delivered(workers, "stdin-1")
    assert {json.dumps(line["message"]) for line in lines} == {json.dumps({"title": "Sale", "body": "50 % off"})}
    assert sorted(map(str, variables(workers, "stdin-1"))) == ["one", "three", "two"]
    again = fairlane(*arguments, stdin="one\ntwo\nthree\n")
    assert again.code == 0
    other = fairlane(*arguments, stdin="one\ntwo\nfour\n")
    assert (other.code, other.out) == (5, "")
    assert "another audience" in other.err
    assert workers.targets("stdin-1") == {"one": 1, "two": 1, "three": 1}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "token,locale\nd1,de\nd2,\n"),
        ("a.jsonl", '{"target": "d1", "variables": {"locale": "de"}}\n{"token": "d2", "locale": ""}\n'),
    ],
)
def test_targets_with_variables_from_a_file(fairlane: CommandLine, workers: Crew, name: str, text: str) -> None:
    task = name.replace(".", "-")
    result = fairlane("task", "submit", "--id", task, *ONE, "--tier", "low", "--targets", fairlane.file(name, text))
    assert result.code == 0, result
    assert task in result.out
    assert waited(fairlane, task)["targets"]["sent"] == 2
    assert variables(workers, task) == {"d1": {"locale": "de"}, "d2": {"locale": ""}}


def test_bad_targets_are_told_with_their_lines_and_do_not_stop_the_rest(fairlane: CommandLine) -> None:
    targets = fairlane.file("bad.txt", "one\nt wo\n" + "x" * 2_000 + "\nfour\n")
    result = fairlane("task", "submit", "--id", "bad-1", *ONE, "--targets", targets, "-o", "json")
    assert result.code == 1
    assert [(row["accepted"], row["refused"]) for row in result.data] == [(2, 2)]
    assert "line 2 refused" in result.err
    assert "line 3 refused" in result.err
    view = waited(fairlane, "bad-1")
    assert (view["targets"]["total"], view["targets"]["sent"], view["refused"]) == (2, 2, 2)


TASKS: list[dict[str, Any]] = [
    {"id": "f-1", "app": "news", "tier": "high", "channel": "log", "message": {"title": "T"}, "targets": "all.csv"},
    {"id": "f-2", "app": "shop", "tier": "low", "channel": "log", "message": "Hi", "targets": ["a", {"target": "b"}]},
    {
        "id": "f-3",
        "app": "bank",
        "tier": "medium",
        "channel": "log",
        "message": "Hi",
        "ttl_s": "2h",
        "targets": "all.csv",
        "filter": {"app": ["bank", "shop"]},
        "limit": 2,
    },
]


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_tasks_from_a_file(fairlane: CommandLine, workers: Crew, kind: str) -> None:
    import yaml

    fairlane.file("all.csv", "token,app\nn1,news\nb1,bank\ns1,shop\nb2,bank\n")
    tasks = {"tasks": [{**task, "id": f"{task['id']}-{kind}"} for task in TASKS]}
    text = yaml.safe_dump(tasks) if kind == "yaml" else json.dumps(tasks["tasks"])
    rows = fairlane.data("task", "submit", fairlane.file(f"tasks.{kind}", text))
    assert [(row["id"], row["accepted"]) for row in rows] == [
        (f"f-1-{kind}", 4),
        (f"f-2-{kind}", 2),
        (f"f-3-{kind}", 2),
    ]
    for row in rows:
        assert waited(fairlane, row["id"])["targets"]["sent"] == row["accepted"]
    assert set(workers.targets(f"f-3-{kind}")) == {"b1", "s1"}


def test_a_start_time_and_a_held_task(fairlane: CommandLine) -> None:
    result = fairlane("task", "submit", "--id", "later", *ONE, "--at", "+1h", "--targets", "-", stdin="a\n")
    assert result.code == 0
    held = fairlane("task", "submit", "--id", "held", *ONE, "--hold", "--targets", "-", stdin="a\n")
    assert held.code == 0
    assert waited(fairlane, "held")["hold_until_sealed"] is True
    view = fairlane.data("task", "show", "later")
    assert (view["state"], view["targets"]["pending"]) == ("scheduled", 1)
    assert abs(view["start_ms"] - view["created_ms"] - 3_600_000) < 60_000
    assert fairlane("task", "cancel", "later").code == 0
    assert fairlane("task", "wait", "later", "--timeout", "30s").code == 1
    assert fairlane("task", "cancel", "later").code == 0
    refused(fairlane("task", "cancel", "held"), 5, "held is completed and accepts no more changes")


def test_an_interrupted_submission_says_how_to_go_on_and_does(fairlane: CommandLine, workers: Crew) -> None:
    targets = [f"t{number:05d}" for number in range(6_000)]
    arguments = ("task", "submit", *ONE, "--app", "interrupted", "--targets", "-")

    def listed() -> list[str]:
        return [view["id"] for view in fairlane.data("task", "list", "--app", "interrupted")]

    with fairlane.begin(*arguments) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("\n".join(targets[:4_000]) + "\n")
        process.stdin.flush()
        eventually(listed, 30, "the task is there")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        message = process.stderr.read()
    [task] = listed()
    assert f"id='{task}'" in message
    result = fairlane(*arguments, "--id", task, stdin="\n".join(targets))
    assert result.code == 0, result
    assert waited(fairlane, task)["targets"]["sent"] == 6_000
    assert workers.targets(task) == dict.fromkeys(targets, 1)


def refused(result: CommandResult, code: int, *words: str) -> None:
    assert (result.code, result.out) == (code, ""), result
    for word in words:
        assert word in result.err
    assert "Traceback" not in result.err


def test_what_is_wrong_is_named_and_leaves_nothing_behind(fairlane: CommandLine) -> None:
    fairlane.file("ok.txt", "a\n")
    given = ("--targets", "ok.txt")
    refused(fairlane("task", "submit", *ONE), 2, "--targets")
    refused(fairlane("task", "submit", "--app", "shop", *given), 2, "--body")
    refused(fairlane("task", "submit", *ONE, *given, "--app", "no such"), 2, "app:")
    refused(fairlane("task", "submit", *ONE, *given, "--ttl", "9d"), 2, "ttl_s:")
    refused(fairlane("task", "submit", *ONE, *given, "--ttl", "soon"), 2, "is not a duration")
    refused(fairlane("task", "submit", *ONE, *given, "--at", "+90d"), 2, "start_at")
    refused(
        fairlane("task", "submit", *ONE, *given, "--at", "2020-01-31T18:00"),
        2,
        "start_at: 2020-01-31T18:00:00",
        "is past",
    )
    refused(fairlane("task", "submit", *ONE, *given, "--weight", "0"), 2, "weight:")
    refused(fairlane("task", "submit", *ONE, *given, "--body", "x" * 20_000), 2, "message:")
    refused(fairlane("task", "submit", *ONE, "--id", "wrong-1", "--targets", "missing.txt"), 2, "missing.txt")
    fairlane.file("odd.csv", "x,y\n1,2\n")
    refused(fairlane("task", "submit", *ONE, "--id", "wrong-1", "--targets", "odd.csv"), 2, "odd.csv has no column")
    refused(fairlane("task", "show", "wrong-1"), 3, "no task wrong-1")
