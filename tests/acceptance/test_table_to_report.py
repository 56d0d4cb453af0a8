"""The whole circle by commands: a Parquet table is ingested, sent by workers to a provider that refuses some, and its
outcomes become a journal, a sum that adds up, a report, and a feed that the next ingestion leaves out."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fairlane.settings import Settings
from tests.acceptance.conftest import CommandLine, Told, command_line
from tests.integration.provider import Body, provider
from tests.integration.worker_crew import crew, eventually

pytest.importorskip("pyspark")
import pyarrow as pa
import pyarrow.parquet as pq

ROWS, DEAD, FAILING, DOUBLES = 2_000, 40, 60, 25
SPARK_S = 240.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def name_of(number: int) -> str:
    kind = "dead" if number < DEAD else "failing" if number < DEAD + FAILING else "device"
    return f"{kind}-{number}"


async def answer(body: Body) -> web.Response:
    """Some are gone for good, some fail, each third of the others is busy at first."""
    failed: list[dict[str, Any]] = []
    for target in body["targets"]:
        if target.startswith("dead"):
            failed.append({"target": target, "reason": "unregistered", "invalid": True})
        elif target.startswith("failing"):
            failed.append({"target": target, "reason": "no"})
        elif body["attempt"] == 0 and int(target.partition("-")[2]) % 3 == 0:
            failed.append({"target": target, "reason": "busy", "retry": True})
    return web.json_response({"failed": failed})


def spark(shell: CommandLine, *arguments: str) -> Told:
    """A command that may take long, since it starts Spark."""
    with shell.begin(*arguments, "--tables", "tables", "-o", "json") as process:
        out, err = process.communicate(timeout=SPARK_S)
    return Told(process.returncode, out, err)


def table(shell: CommandLine) -> str:
    targets = (
        [name_of(number) for number in range(ROWS)] + [name_of(number) for number in range(DOUBLES)] + ["a b", None]
    )
    names = [f"name {number}" for number in range(len(targets))]
    pq.write_table(pa.table({"token": targets, "name": names}), shell.folder / "people.parquet")
    return "people.parquet"


def task(shell: CommandLine, name: str) -> str:
    fields = {"id": name, "app": "shop", "tier": "high", "channel": "http", "message": "Hi {name}", "chunk": 10}
    return shell.file(f"{name}.yaml", json.dumps({**fields, "variables": ["name"]}))


def test_from_a_table_to_a_report(fresh_settings: Settings, tmp_path: Path) -> None:
    shell = command_line(fresh_settings, tmp_path)
    ingest = ("ingest", task(shell, "sale"), "--audience", table(shell), "--map", "token=target")
    ingested = spark(shell, *ingest)
    assert ingested.code == 0, ingested
    counts = {name: ingested.data[name] for name in ("rows", "accepted", "duplicates", "suppressed", "refused")}
    assert counts == {
        "rows": ROWS + DOUBLES + 2, "accepted": ROWS, "duplicates": DOUBLES, "suppressed": 0, "refused": 2,
    }  # fmt: skip

    with provider() as there:
        there.answers["shop"] = answer
        config = f'[http]\nurl = {json.dumps(there.url)}\n[journal]\ntargets = "all"\n'
        with crew(fresh_settings, tmp_path / "crew", "one", "two", config=config):
            assert shell("backlog", "snapshot", "--once", "--tables", "tables").code == 0
            eventually(lambda: shell.data("task", "show", "sale")["state"] == "completed", 60, "all have an outcome")
            assert shell("backlog", "snapshot", "--once", "--tables", "tables").code == 0
        sent = [target for attempt in (0, 1) for target in there.targets_of("sale", attempt)]
        assert set(sent) == {name_of(number) for number in range(ROWS)}

    landed = spark(shell, "journal", "run", "--once")
    assert landed.code == 0, landed
    assert landed.data["outcomes"] == ROWS
    found = spark(shell, "reconcile", "sale", "--audience", "people.parquet", "--map", "token=target")
    assert found.code == 0, found
    (one,) = found.data["tasks"]
    assert (one["audience"], one["sent"], one["invalid"], one["failed"], one["pending"]) == (
        ROWS, ROWS - DEAD - FAILING, DEAD, FAILING, 0,
    )  # fmt: skip
    assert (one["adds_up"], one["live"], found.data["difference_count"]) == (True, "same", 0)

    with shell.begin("backlog", "report", "--tables", "tables", "-o", "html") as process:
        page, err = process.communicate(timeout=SPARK_S)
    assert process.returncode == 0, err
    assert "<svg" in page
    assert 'src="http' not in page

    again = spark(shell, "ingest", task(shell, "again"), *ingest[2:], "--dry-run")
    assert (again.data["accepted"], again.data["suppressed"]) == (ROWS - DEAD, DEAD + DOUBLES)  # their doubles as well
