"""The command line as a user has it: processes of their own, and what they print."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairlane.settings import Settings
from tests.acceptance.command_server import CommandServer
from tests.integration.worker_crew import Crew, crew, environment

COMMAND_S = 60.0


@dataclass(frozen=True)
class CommandResult:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """stdout as JSON."""
        return json.loads(self.out)


@dataclass(frozen=True)
class CommandLine:
    """Runs `python -m fairlane ...` in a folder, with nothing of the environment's but what is given. server: runs
    those commands that end by themselves."""

    env: dict[str, str]
    folder: Path
    server: CommandServer | None = None

    def __call__(self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> CommandResult:
        environment = {**self.env, **(env or {})}
        if self.server is not None:
            return CommandResult(*self.server.run(arguments, stdin, environment, self.folder, COMMAND_S))
        done = subprocess.run(
            [sys.executable, "-m", "fairlane", *arguments],
            input=stdin,
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def begin(self, *arguments: str) -> "subprocess.Popen[str]":
        """A command that goes on; its ends of the pipes are to be closed."""
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "fairlane", *arguments]
        return subprocess.Popen(command, env=self.env, cwd=self.folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def data(self, *arguments: str, stdin: str = "") -> Any:
        """Return the JSON that a successful command prints; it prints nothing else."""
        result = self(*arguments, "-o", "json", stdin=stdin)
        assert result.code == 0, result
        return result.data

    def submit(self, task: str, count: int, *options: str, app: str = "shop") -> CommandResult:
        """Submit a task of targets TASK-000000 and so on, in chunks of 5 unless the options have another."""
        targets = "".join(f"{task}-{number:06d}\n" for number in range(count))
        given = ("--id", task, "--app", app, "--channel", "null", "--body", "Hi", "--chunk", "5", "--targets", "-")
        return self("task", "submit", *given, *options, stdin=targets)

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name


def nowhere(folder: Path) -> dict[str, str]:
    """An environment in which no stack runs."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLANE_")}
    return {**given, "FAIRLANE_HOME": str(folder / "no-stack")}


def command_line(settings: Settings, folder: Path, server: CommandServer | None = None) -> CommandLine:
    return CommandLine({**environment(settings), **nowhere(folder)}, folder, server)


@pytest.fixture
def alone(tmp_path: Path) -> CommandLine:
    """A command line that knows no servers."""
    return CommandLine(nowhere(tmp_path), tmp_path)


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    with closing(CommandServer(tmp_path_factory.mktemp("streams"))) as server:
        yield server


@pytest.fixture(scope="module")
def fairlane(
    module_settings: Settings, commands: CommandServer, tmp_path_factory: pytest.TempPathFactory
) -> CommandLine:
    """A command line on servers where nothing is sent unless the module starts workers."""
    return command_line(module_settings, tmp_path_factory.mktemp("shell"), commands)


@pytest.fixture(scope="module")
def workers(module_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """One worker command with two processes."""
    with crew(module_settings, tmp_path_factory.mktemp("crew")) as members:
        members.join("w", "--processes", "2")
        members.await_serving("w")
        yield members
