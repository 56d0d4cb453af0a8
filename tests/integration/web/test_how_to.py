"""Every command of the guide to the HTTP API works as it is written, and answers with the fields that are shown."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlane.settings import Settings
from tests.integration.web.calls import Api, serving
from tests.integration.worker_crew import Crew, environment, eventually

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "http.md"
BLOCKS = re.findall(r"^```sh\n(.*?)^```(?:\n\n```json\n(.*?)^```)?", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
VARYING = {"created_ms", "ends_ms", "at_ms", "request_id", "request", "key", "by", "field", "id"}
"""Fields whose values are not those of the guide."""
END_S = 30.0


@pytest.fixture(scope="module")
def server(module_settings: Settings, members: Crew, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serving(module_settings, tmp_path_factory.mktemp("api")) as api:
        yield api


class Shell:
    """A shell in which `fairlane` uses the servers of the test; its variables last from block to block."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        (folder / "fairlane").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fairlane "$@"\n')
        (folder / "fairlane").chmod(0o755)
        given = environment(settings)
        self._env = given | {"PATH": f"{folder}:{given['PATH']}", "PYTHONPATH": str(GUIDE.parents[2])}
        self._folder = folder
        self._variables = ""

    def run(self, block: str) -> list[Any]:
        """Run a block, and return the documents that it prints."""
        command = ["bash", "-c", f"set -e -o pipefail\n{self._variables}{block}"]
        done = subprocess.run(
            command, env=self._env, cwd=self._folder, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done
        self._variables += "".join(f"{line}\n" for line in block.splitlines() if re.match("API=", line))
        return list(documents(done.stdout))


def documents(text: str) -> Iterator[Any]:
    """Yield the JSON objects in a text."""
    while (begin := text.find("{")) >= 0:
        document, end = json.JSONDecoder().raw_decode(text, begin)
        yield document
        text = text[end:]


def has(actual: Any, shown: Any, name: str = "") -> bool:
    """Return whether an answer has what the guide shows of it."""
    if isinstance(shown, dict):
        return isinstance(actual, dict) and all(
            each in actual and has(actual[each], shown[each], each) for each in shown
        )
    if isinstance(shown, list):
        return isinstance(actual, list) and len(actual) >= len(shown) and all(map(has, actual, shown))
    return type(actual) is type(shown) and (name in VARYING or actual == shown)


def test_guide_leads_from_a_key_to_the_audit(server: Api, module_settings: Settings, tmp_path: Path) -> None:
    shell = Shell(module_settings, tmp_path)
    assert len(BLOCKS) > 10
    for block, shown in BLOCKS:
        answers = shell.run(command := block.replace("127.0.0.1:8480", f"127.0.0.1:{server.port}"))
        if not shown:
            assert not [answer for answer in answers if "next_step" in answer], answers  # a problem
        elif "--json" in block:
            assert has(answers[-1], json.loads(shown)), (block, answers[-1])
        else:  # it may be read again until it is so
            eventually(lambda: has(shell.run(command)[-1], json.loads(shown)), END_S, block)  # noqa: B023
