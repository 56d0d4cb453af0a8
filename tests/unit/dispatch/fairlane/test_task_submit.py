"""`fairlane task submit` where something fails on the way."""

import gzip
import json
import time
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dispatcher.model.errors import LimitReached
from dispatcher.model.task import PushTask
from fairlane.cli.base import exit_codes
from fairlane.cli.base.progress import submitted
from fairlane.cli.handlers import submit as task_submit
from fairlane.cli.main import run
from producers.files.targets_file import TargetsFile
from producers.submit.report import SubmitProgress
from tests.unit.command_line import CommandLine


class Client:
    """Refuses the task named. stopped: why it takes only a part of the others."""

    def __init__(self, refuses: str) -> None:
        self.refuses = refuses
        self.stopped = ""
        self.submitted: list[PushTask] = []
        self.targets: list[object] = []
        self.duplicates = 0
        self.options: dict[str, Any] = {}

    def submit(self, task: PushTask, audience: Iterable[object], **options: Any) -> Any:
        self.options = options
        if task.id == self.refuses:
            raise LimitReached("App shop has 2 live tasks.", "Try again later.")
        self.targets += audience
        self.submitted.append(task)
        counts = {"accepted": 1, "refused": 0, "refusals": [], "envelopes": 1, "stopped": self.stopped}
        counts |= {"duplicates": self.duplicates, "without_text": {}}
        return SimpleNamespace(id=task.id, result=SimpleNamespace(task=task.id, seconds=0.1, **counts))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client("second")
    monkeypatch.setattr(task_submit, "client_of", lambda _: nullcontext(made))
    return made


def tasks_file(folder: Path, *ids: str, tier: str = "high") -> str:
    file = folder / f"{'-'.join(ids)}.json"
    file.write_text(
        json.dumps(
            [
                {"id": id_, "app": "shop", "tier": tier, "channel": "fcm", "message": "Hi", "targets": ["t"]}
                for id_ in ids
            ]
        )
    )
    return str(file)


def test_what_was_accepted_before_a_task_that_fails_is_told(client: Client, tmp_path: Path, cli: CommandLine) -> None:
    reported = cli(["task", "submit", tasks_file(tmp_path, "first", "second"), "-o", "json"], exit_codes.REFUSED)
    assert [row["id"] for row in json.loads(reported.out)] == ["first"]
    assert "2 live tasks" in reported.err


def test_a_task_that_is_cancelled_meanwhile_is_not_submitted_well(
    client: Client, tmp_path: Path, cli: CommandLine
) -> None:
    client.stopped = "cancelled"
    assert (
        "first was cancelled during the submission"
        in cli(["task", "submit", tasks_file(tmp_path, "first")], exit_codes.FAILURE).err
    )


def test_a_second_file_with_faults_keeps_the_first_from_being_submitted(client: Client, tmp_path: Path) -> None:
    good, bad = tasks_file(tmp_path, "first"), tasks_file(tmp_path, "third", tier="urgent")
    assert run(["task", "submit", good, bad]) == exit_codes.USAGE
    assert client.submitted == []


def test_duplicates_are_counted_and_said_unless_they_are_removed(
    client: Client, tmp_path: Path, cli: CommandLine
) -> None:
    client.duplicates = 1_234
    shown = cli(["task", "submit", tasks_file(tmp_path, "first"), "-o", "json"])
    assert "first: 1,234 duplicates, sent again; --unique removes them" in shown.err
    assert json.loads(shown.out)[0]["duplicates"] == 1_234
    assert (client.options["duplicates"], client.options["allow_empty"]) == ("count", False)
    assert (
        "first: removed 1,234 duplicates"
        in cli(["task", "submit", tasks_file(tmp_path, "first"), "--unique", "--allow-empty"]).err
    )
    assert (client.options["duplicates"], client.options["allow_empty"]) == ("remove", True)


def to_targets(folder: Path, targets: str = "t\n") -> list[str]:
    """The command that submits a task to these targets."""
    (folder / "targets").write_text(targets)
    return ["task", "submit", "--app", "shop", "--channel", "fcm", "--body", "Hi", "--targets", str(folder / "targets")]


@pytest.mark.usefixtures("client")
def test_a_start_time_without_a_zone_is_said_with_the_one_it_was_taken_for(
    tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        reported = cli([*to_targets(tmp_path), "--id", "later", "--at", "2030-01-31T18:00"]).err
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "later starts at 2030-01-31T18:00:00+09:00" in reported


@pytest.mark.usefixtures("client")
def test_of_a_past_start_time_nothing_is_promised(tmp_path: Path, cli: CommandLine) -> None:
    assert "starts at" not in cli([*to_targets(tmp_path), "--at", "2020-01-31T18:00"]).err


def test_progress_says_targets_part_and_rate(tmp_path: Path) -> None:
    assert submitted(SubmitProgress("t", 162_400, 0, 0.773), 0.451) == "162,400 targets, 45%, 210,091/s"
    assert submitted(SubmitProgress("t", 0, 0, 0.0), None) == "0 targets, 0/s"


@pytest.mark.parametrize("packed", [False, True])
def test_the_part_of_a_file_is_that_of_its_bytes(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "a.txt"
    text = "".join(f"target-{number * 7919 % 100_003}\n" for number in range(100_000)).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    audience = TargetsFile(path)
    parts = [audience.part_read, *(audience.part_read for _ in audience.slabs(1))]
    assert parts[0] is None
    read = [part or 0.0 for part in parts[1:]]
    assert read == sorted(read)
    assert read[0] < 0.5 < read[-1] == 1.0


def test_the_format_of_the_targets_can_be_said(client: Client, tmp_path: Path, cli: CommandLine) -> None:
    given = to_targets(tmp_path, "sip:a@b;x=1\nsip:c@d;x=1\n")
    assert "--format lines" in cli(given, exit_codes.USAGE).err
    assert run([*given, "--format", "lines"]) == exit_codes.OK
    assert client.targets == ["sip:a@b;x=1", "sip:c@d;x=1"]


def test_an_empty_audience_in_a_file_of_tasks_keeps_all_of_them_from_being_submitted(
    client: Client, tmp_path: Path, cli: CommandLine
) -> None:
    """Without ids, those before it would be sent again with the corrected file."""
    (tmp_path / "none.csv").write_text("target,country\na,fr\n")
    task = {"app": "shop", "tier": "low", "channel": "fcm", "message": "Hi"}
    audiences: list[dict[str, Any]] = [{"targets": ["a"]}, {"targets": []}, {"targets": "none.csv"}]
    audiences[2]["filter"] = {"country": "de"}
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([task | audience for audience in audiences]))
    reported = cli(["task", "submit", str(file)], exit_codes.USAGE).err
    assert "task 2: targets: is an empty list" in reported
    assert "none.csv has no rows that the filter keeps" in reported
    assert client.submitted == []
    assert run(["task", "submit", str(file), "--allow-empty"]) == exit_codes.OK
    assert len(client.submitted) == 3


def test_fields_for_the_provider_and_a_trial_send_are_options(client: Client, tmp_path: Path, cli: CommandLine) -> None:
    locales = tmp_path / "locales.json"
    locales.write_text('{"de": "Hallo"}')
    given = [*to_targets(tmp_path), "--first", "100", "--collapse", "c", "--category", "k", "--provider-ttl", "1h"]
    given += ["--locales", str(locales), "--options", '{"fcm": {"android": {"priority": "NORMAL"}}}']
    reported = cli(given)
    assert client.options["first"] == 100
    assert "only the first 100 targets will be sent until `fairlane task resume" in reported.err
    assert client.submitted[0].complete_message == {
        "body": "Hi",
        "collapse": "c",
        "category": "k",
        "provider_ttl_s": 3_600.0,
        "fcm": {"android": {"priority": "NORMAL"}},
        "locales": {"de": {"body": "Hallo"}},
    }


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--locales", "nowhere.json"], "locales: nowhere.json cannot be read"),
        (["--options", "{not json}"], "options: is not JSON"),
        (["--options", '{"fcm": 5}'], "task: options.fcm: it must be a mapping"),
    ],
)
def test_an_option_that_is_no_object_is_named(
    client: Client, tmp_path: Path, cli: CommandLine, options: list[str], complaint: str
) -> None:
    assert complaint in cli([*to_targets(tmp_path), *options], exit_codes.USAGE).err
    assert client.submitted == []


@pytest.fixture
def people(tmp_path: Path) -> list[str]:
    """Arguments of a task for two devices and a bad line."""
    file = tmp_path / "people.csv"
    file.write_text("token,name\n" + "".join(f"{'ab' * 31}{n:02d},N{n}\n" for n in (1, 2)) + "bad,x\n")
    task = ["--app", "shop", "--channel", "apns", "--title", "Hi {{name}}", "--body", "b"]
    return ["task", "submit", *task, "--targets", str(file), "--dry-run"]


def test_a_dry_run_prints_counts_and_requests_and_submits_nothing(
    client: Client, people: list[str], cli: CommandLine
) -> None:
    reported = cli([*people, "--sample", "1"], exit_codes.FAILURE)
    assert "apns-push-type: alert" in reported.out
    assert '"title": "Hi N1"' in reported.out
    assert "line 4 refused" in reported.err
    assert "nothing was submitted" in reported.err
    (row,) = json.loads(cli([*people, "--target", "AB" * 31 + "02", "-o", "json"], exit_codes.FAILURE).out)
    assert (row["accepted"], row["refused"], [one["target"] for one in row["requests"]]) == (2, 1, ["ab" * 31 + "02"])
    assert client.submitted == []


def test_a_dry_run_says_that_a_target_is_not_there(client: Client, people: list[str], cli: CommandLine) -> None:
    assert "zz is not among the accepted targets" in cli([*people, "--target", "zz"], exit_codes.FAILURE).err
    for wrong in ([*people[:-1], "--sample", "1"], [*people, "--sample", "1", "--target", "zz"]):
        assert "only with --dry-run" in cli(wrong, exit_codes.USAGE).err
    assert client.submitted == []


@pytest.mark.usefixtures("client")
def test_a_task_without_a_channel_is_refused_with_what_there_is(tmp_path: Path, cli: CommandLine) -> None:
    (tmp_path / "t.txt").write_text("t\n")
    given = ["task", "submit", "--app", "shop", "--body", "Hi", "--targets", str(tmp_path / "t.txt")]
    assert "--channel is missing; name fcm, apns, http" in cli(given, exit_codes.USAGE).err


@pytest.mark.usefixtures("client")
def test_a_dry_run_warns_of_fields_that_the_channel_ignores(tmp_path: Path, cli: CommandLine) -> None:
    task = {"app": "shop", "tier": "low", "channel": "fcm", "message": {"data": {"k": "v"}, "badge": 3}}
    (tmp_path / "t.json").write_text(json.dumps({**task, "targets": ["a" * 30]}))
    shown = cli(["task", "submit", str(tmp_path / "t.json"), "--dry-run"]).err
    assert "badge has no effect on Android devices" in shown
