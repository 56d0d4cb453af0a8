"""`fairlane task submit` where something fails on the way."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dispatcher.errors import LimitReached
from dispatcher.task import PushTask
from fairlane.cli import exit_codes, task_submit
from fairlane.cli.main import run


class Client:
    """Refuses the task named. stopped: why it takes only a part of the others."""

    def __init__(self, refuses: str) -> None:
        self.refuses = refuses
        self.stopped = ""
        self.submitted: list[str | None] = []

    def submit(self, task: PushTask, audience: list[str], **_: Any) -> Any:
        if task.id == self.refuses:
            raise LimitReached("App shop has 2 live tasks.", "Try again later.")
        self.submitted.append(task.id)
        counts = {"accepted": len(audience), "refused": 0, "refusals": [], "envelopes": 1, "stopped": self.stopped}
        return SimpleNamespace(id=task.id, result=SimpleNamespace(task=task.id, seconds=0.1, **counts))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client("second")

    @contextmanager
    def client_of(_: object) -> Iterator[Client]:
        yield made

    monkeypatch.setattr(task_submit, "client_of", client_of)
    return made


def tasks_file(folder: Path, *ids: str, tier: str = "high") -> str:
    file = folder / f"{'-'.join(ids)}.json"
    file.write_text(
        json.dumps([{"id": id_, "app": "shop", "tier": tier, "message": "Hi", "targets": ["t"]} for id_ in ids])
    )
    return str(file)


def test_what_was_accepted_before_a_task_that_fails_is_told(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["task", "submit", tasks_file(tmp_path, "first", "second"), "-o", "json"]) == exit_codes.REFUSED
    told = capsys.readouterr()
    assert [row["id"] for row in json.loads(told.out)] == ["first"]
    assert "2 live tasks" in told.err


def test_a_task_that_is_cancelled_meanwhile_is_not_submitted_well(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client.stopped = "cancelled"
    assert run(["task", "submit", tasks_file(tmp_path, "first")]) == exit_codes.FAILURE
    assert "first was cancelled meanwhile" in capsys.readouterr().err


def test_a_second_file_with_faults_keeps_the_first_from_being_submitted(client: Client, tmp_path: Path) -> None:
    good, bad = tasks_file(tmp_path, "first"), tasks_file(tmp_path, "third", tier="urgent")
    assert run(["task", "submit", good, bad]) == exit_codes.USAGE
    assert client.submitted == []
