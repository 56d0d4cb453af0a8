"""The tutorial of docs/spark.md, every command of it in order: a Parquet table is ingested, sent by workers to a
provider that refuses some, and its outcomes become a journal, a sum that adds up, a report, and a feed that the next
ingestion leaves out."""

import json
import os
import re
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.redis_server import free_port
from fairlane.settings import Settings
from tests.acceptance.conftest import nowhere
from tests.integration.worker_crew import environment
from tests.spark_document import Block, begin, blocks_of, path_with_commands

pytest.importorskip("pyspark")

DEVICES = 5_000
PORTS = ("8099", "9000")
"""The ports of the provider and of the S3 service."""
END_ALL = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
NEXT = "\n@\n"
TUTORIAL_S = 1_700.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]


def play(commands: list[str], folder: Path, env: dict[str, str]) -> list[str]:
    """Return the output of each command, all in one shell. No process outlives the call."""
    script = END_ALL + "".join(f"{block}printf {NEXT!r}\n" for block in commands)
    with begin(script, folder, env) as shell:
        try:
            out, err = shell.communicate(timeout=TUTORIAL_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, f"{out}\n{err}"
    return out.split(NEXT)[:-1]


def commands_of(blocks: list[Block], folder: Path) -> list[str]:
    """Return the commands, with free ports. The folder gets the files."""
    for block in blocks:
        if block.file:
            (folder / block.file).write_text(block.text)
    commands = [block.text for block in blocks if block.kind == "sh"]
    for port in PORTS:
        own = str(free_port())
        commands = [command.replace(port, own) for command in commands]
    return commands


def begun(settings: Settings, folder: Path) -> dict[str, str]:
    """Return the environment of the terminal."""
    env = {**environment(settings), **nowhere(folder)}
    return env | {"PATH": path_with_commands(folder / "bin"), "BROWSER": "true"}


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_every_command_of_the_tutorial(fresh_settings: Settings, tmp_path: Path) -> None:
    blocks = blocks_of("Tutorial")
    commands = commands_of(blocks, tmp_path)
    assert commands[0] == "fairlane stack up\n"  # which the fixture has done

    printed = ["", *play(commands[1:], tmp_path, begun(fresh_settings, tmp_path))]

    typed = -1
    for block in blocks:
        typed += block.kind == "sh"
        if block.kind == "text":
            missing = [line for line in squeezed(block.text) if line not in squeezed(printed[typed])]
            assert missing == [], printed[typed]
    posts = [json.loads(line) for line in (tmp_path / "posts.jsonl").read_text().splitlines()]
    sent = Counter(target for post in posts if post["attempt"] == 0 for target in post["targets"])
    assert sent == Counter(f"device-{number}" for number in range(DEVICES))
    page = (tmp_path / "report.html").read_text()
    assert "<svg" in page
    assert 'src="http' not in page


def test_journal_in_a_bucket_says_why_a_task_was_late(fresh_settings: Settings, tmp_path: Path) -> None:
    pytest.importorskip("moto")
    pytest.importorskip("duckdb")
    tutorial = blocks_of("Tutorial")
    before = [one for one in commands_of(tutorial, tmp_path) if one.startswith(("export", "python people.py"))]
    commands = commands_of(blocks_of("A journal in a bucket"), tmp_path)

    *_, answer, _ = play([*before, *commands], tmp_path, begun(fresh_settings, tmp_path))

    assert re.search(r"\bsent\b\D+\b4920\b", answer)
    assert re.search(r"\bcap_total\b\D+\d", answer)
    assert "task_weight" not in answer  # no other task is there
