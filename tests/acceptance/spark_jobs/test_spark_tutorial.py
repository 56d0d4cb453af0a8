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
from tests.spark_document import begin, blocks_of, path_with_commands

pytest.importorskip("pyspark")

DEVICES = 5_000
PORTS = ("8099", "9000")
"""Of the provider and of the S3 service."""
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


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_every_command_of_the_tutorial(fresh_settings: Settings, tmp_path: Path) -> None:
    blocks = blocks_of("Tutorial") + blocks_of("A journal in a bucket")
    for block in blocks:
        if block.file:
            (tmp_path / block.file).write_text(block.text)
    commands = [block.text for block in blocks if block.kind == "sh"]
    for port in PORTS:
        own = str(free_port())
        commands = [command.replace(port, own) for command in commands]
    assert commands[0] == "fairlane stack up\n"  # which the fixture has done
    env = {**environment(fresh_settings), **nowhere(tmp_path)}
    env |= {"PATH": path_with_commands(tmp_path / "bin"), "BROWSER": "true"}

    printed = ["", *play(commands[1:], tmp_path, env)]

    typed = -1
    for block in blocks:
        typed += block.kind == "sh"
        if block.kind == "text":
            missing = [line for line in squeezed(block.text) if line not in squeezed(printed[typed])]
            assert missing == [], printed[typed]
    posts = [json.loads(line) for line in (tmp_path / "posts.jsonl").read_text().splitlines()]
    sent = Counter(target for post in posts if post["attempt"] == 0 for target in post["targets"])
    assert sent == Counter(f"device-{number}" for number in range(DEVICES))
    assert re.search(r"\bsent\b\D+\b4920\b", printed[-1])
    assert re.search(r"\bcap_total\b\D+\d", printed[-1])
    page = (tmp_path / "report.html").read_text()
    assert "<svg" in page
    assert 'src="http' not in page
