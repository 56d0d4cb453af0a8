"""`fairlane backlog`: snapshots of real servers, and the report on them."""

import re
import signal
from collections.abc import Callable

import pytest

pytest.importorskip("deltalake")

from spark_jobs.backlog.snapshot_files import snapshot_table
from tests.acceptance.conftest import CommandLine, CommandResult
from tests.integration.worker_crew import Crew, eventually
from tests.unit.spark_jobs.backlog_rows import START, snapshot, task, write

SPARK_S = 240.0
Report = Callable[..., CommandResult]
pytestmark = pytest.mark.usefixtures("needs_spark")


def run(shell: CommandLine, *arguments: str) -> CommandResult:
    """A command that may take long, since it starts Spark."""
    with shell.begin(*arguments) as process:
        out, err = process.communicate(timeout=SPARK_S)
    return CommandResult(process.returncode, out, err)


def since() -> str:
    """Long enough for snapshots at START."""
    from datetime import UTC, datetime

    return f"{int((datetime.now(UTC) - START).total_seconds()) + 3_600}s"


@pytest.mark.timeout(SPARK_S + 60)
def test_snapshots_of_the_service_become_a_report(fairlane: CommandLine, workers: Crew) -> None:
    assert fairlane("capacity", "set", "200").code == 0
    targets = fairlane.file("targets.txt", "\n".join(f"target-{number}" for number in range(20_000)))
    task_id = fairlane.data(
        "task", "submit", "--app", "shop", "--tier", "high", "--channel", "log", "--body", "hi", "--targets", targets
    )[0]["id"]
    eventually(lambda: fairlane.data("task", "show", task_id)["targets"]["sent"] > 0, 60, "some is sent")
    first = fairlane.data("backlog", "snapshot", "--once", "--tables", "tables")
    assert (first["tasks"], first["workers"], first["brokers"]) == (1, 2, 1)
    eventually(lambda: fairlane.data("task", "show", task_id)["targets"]["sent"] > 400, 60, "more is sent")
    assert fairlane.data("backlog", "snapshot", "--once", "--tables", "tables")["queued"] < first["queued"]
    result = run(fairlane, "backlog", "report", "--tables", "tables", "--capacity", "1000", "-o", "json")
    assert result.code == 0, result
    report = result.data
    assert report["snapshots"] == 2
    assert report["total"]["backlog"] == report["tiers"][0]["backlog"] > 0
    assert report["tasks"][0]["task"] == task_id
    assert report["tasks"][0]["service_rate"] > 0
    assert report["tasks"][0]["held_back"]["share"] > 0.5
    assert report["total"]["done_at_capacity_s"] == pytest.approx(report["total"]["backlog"] / 1_000)
    assert fairlane("capacity", "set", "0").code == 0


def test_a_series_ends_when_it_is_asked_to_and_nothing_is_lost(fairlane: CommandLine, workers: Crew) -> None:
    table = snapshot_table(fairlane.folder / "series")
    series = ("backlog", "snapshot", "--every", "1s", "--tables", "series")
    process = fairlane.begin(*series)
    try:
        eventually(lambda: table.read().rows > 1, 60, "snapshots")
        assert fairlane("backlog", "snapshot", "--once", "--tables", "series").code == 0
        second = fairlane(*series)
        assert (second.code, "Another process writes snapshots" in second.err) == (5, True)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    written = int(re.findall(r"([\d,]+) snapshots$", err, re.MULTILINE)[-1].replace(",", ""))
    assert table.read().rows == written + 1


@pytest.mark.timeout(SPARK_S + 60)
def test_the_page_is_one_file(alone: CommandLine) -> None:
    write(
        alone.folder / "tables",
        snapshot(0, task("a", 1_000, 0)),
        snapshot(10, task("a", 1_000, 400, causes={"task_cap": 9_000})),
    )
    result = run(alone, "backlog", "report", "--tables", "tables", "--since", since(), "-o", "html")
    assert result.code == 0, result
    assert result.out.startswith("<!doctype html>")
    assert "600 targets of 1 task waited" in result.out


@pytest.mark.timeout(SPARK_S + 60)
def test_a_file_that_cannot_be_read_is_named(alone: CommandLine) -> None:
    folder = write(alone.folder / "tables", snapshot(0, task("a", 10, 0)))
    bad = next((folder / "backlog" / "day=2026-03-04").glob("*.parquet"))
    bad.write_text("no table")
    result = run(alone, "backlog", "report", "--tables", "tables", "--since", since())
    assert result.code == 1
    assert f"{bad.name} cannot be read: " in result.err
    assert "Restore it, or remove it" in result.err


def test_without_snapshots_it_says_what_makes_them(alone: CommandLine) -> None:
    result = alone("backlog", "report", "--tables", "tables")
    assert result.code == 3
    assert "holds no snapshots since" in result.err
    assert "Run `fairlane backlog snapshot`" in result.err


def test_without_java_it_says_how_to_get_it(alone: CommandLine) -> None:
    result = alone("backlog", "report", env={"JAVA_HOME": "/nowhere"})
    assert result.code == 2
    assert result.err.startswith("fairlane: Spark needs Java, which was not found. Install Java 17")


def test_without_the_packages_it_says_how_to_get_them(alone: CommandLine) -> None:
    (alone.folder / "sitecustomize.py").write_text("import sys\nsys.modules['pyarrow'] = None\n")
    for command in ("report", "snapshot"):
        result = alone("backlog", command, env={"PYTHONPATH": str(alone.folder)})
        how = "Run `pip install 'PATH[spark]'`, where PATH is Fairlane's checkout."
        assert (result.code, result.err) == (2, f"fairlane: This needs pyarrow installed. {how}\n")


def test_bad_options_are_refused(alone: CommandLine) -> None:
    assert alone("backlog", "snapshot", "--every", "10ms").code == 2
    assert alone("backlog", "report", "--since", "yesterday").code == 2


def test_servers_that_are_gone_are_told(alone: CommandLine) -> None:
    gone = {"FAIRLANE_PULSAR_ADMIN_URL": "http://127.0.0.1:1", "FAIRLANE_REDIS_URL": "redis://127.0.0.1:1/0"}
    result = alone("backlog", "snapshot", "--once", "--tables", "tables", env=gone)
    assert result.code == 4
    assert not (alone.folder / "tables").exists()
