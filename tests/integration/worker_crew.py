"""Real worker processes for the tests, and what was delivered by them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from backends.redis.epochs import Epochs
from backends.redis.view import open_view
from dispatcher.model.task import PushTask
from dispatcher.model.view import TargetCounts
from fairlane.cli.base import exit_codes
from fairlane.settings import Settings
from lab.isolation import variables
from producers.handle import TaskHandle
from tests.unit.command_line import CommandLine

START_S = 60.0


def eventually(condition: Callable[[], object], within_s: float, what: str) -> None:
    """Waits for a condition with a deadline."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {within_s:g} s: {what}"
        time.sleep(0.05)


def environment(settings: Settings) -> dict[str, str]:
    """Return an environment in which a process uses the same servers and names, and no other setting."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLANE_")}
    return {**others, **variables(settings)}


def let_commands_use(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give commands that run in this process the same servers and names."""
    for name, value in variables(settings).items():
        monkeypatch.setenv(name, value)


def text_of(cli: CommandLine, *command: str, code: int = exit_codes.OK) -> str:
    """All that a command prints, on one line."""
    return " ".join("".join(cli(command, code)).split())


@dataclass
class Crew:
    """folder: of the logs, and of the file that all `log` channels append to. config: more TOML for the workers."""

    settings: Settings
    folder: Path
    config: str = ""
    members: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def delivered(self) -> Path:
        return self.folder / "delivered.jsonl"

    def join(self, name: str, *options: str) -> None:
        config = self.folder / "crew.toml"
        config.write_text(f"[channels.log]\npath = {json.dumps(str(self.delivered))}\n{self.config}")
        command = [sys.executable, "-m", "fairlane", "--config", str(config), "worker", "--name", name, *options]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.members[name] = subprocess.Popen(
                command, env=environment(self.settings), cwd=self.folder, stdout=log, stderr=log
            )

    def log_of(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def logged(self, words: str) -> bool:
        """Return whether a worker has these words in its log."""
        return any(words in self.log_of(name) for name in self.members)

    def await_serving(self, name: str) -> None:
        """And until the view is ready: before that, no question that sums over it is answered."""

        def serving() -> bool:
            assert self.members[name].poll() is None, self.log_of(name)
            return " serves" in self.log_of(name)

        eventually(serving, START_S, f"{name} serves")
        self.await_view()

    def await_view(self) -> None:
        with closing(open_view(self.settings.redis)) as view:
            eventually(Epochs(view).ready, START_S, "the view is ready")

    def kill(self, name: str) -> None:
        self.members[name].kill()
        self.members[name].wait()

    def leave(self, name: str, within_s: float = 30.0) -> int:
        self.members[name].send_signal(signal.SIGTERM)
        return self.members[name].wait(within_s)

    @contextmanager
    def halted(self) -> Iterator[None]:
        """Stops all workers (SIGSTOP) while the block runs."""
        for process in self.members.values():
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in self.members.values():
                process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        for process in self.members.values():
            process.kill()
            process.wait()

    # ------------------------------------------------------------- what was delivered
    def lines(self) -> list[dict[str, Any]]:
        return list(self.each_line())

    def each_line(self) -> Iterator[dict[str, Any]]:
        """For logs of millions of targets."""
        if self.delivered.exists():
            with self.delivered.open() as log:
                yield from (json.loads(line) for line in log if line.strip())

    def targets(self, task: str) -> Counter[str]:
        """How often each target of a task was delivered."""
        counts: Counter[str] = Counter()
        for line in self.lines():
            if line["task"] == task:
                counts.update(line["targets"])
        return counts

    def check_sent_once(self, handle: TaskHandle, targets: Iterable[str], within_s: float) -> None:
        """Wait for the end of a task. Each of these targets was sent once, and no other."""
        expected = Counter(targets)
        view, size = handle.wait(within_s), expected.total()
        assert (view.state, view.targets) == ("completed", TargetCounts(total=size, sent=size)), view
        assert self.targets(handle.id) == expected


def delivered_at_s(members: Crew) -> list[tuple[float, str, int]]:
    """(wall time, task, targets) of each delivery."""
    return [
        (datetime.fromisoformat(str(line["ts"])).timestamp(), str(line["task"]), len(line["targets"]))
        for line in members.each_line()
    ]


@contextmanager
def crew(settings: Settings, folder: Path, *names: str, config: str = "") -> Iterator[Crew]:
    """Workers by name, serving, and the view ready. config: more TOML for them."""
    folder.mkdir(parents=True, exist_ok=True)
    members = Crew(settings, folder, config)
    try:
        for name in names:
            members.join(name)
        for name in names:
            members.await_serving(name)
        yield members
    finally:
        members.end()


def push(**fields: Any) -> PushTask:
    """A task in envelopes of ten, which workers write to the log of all."""
    return PushTask(**{"app": "a", "tier": "high", "channel": "log", "message": "Hi", "chunk": 10, **fields})


def on_redis(settings: Settings, url: str, **fields: Any) -> Settings:
    """The same installation with another Redis."""
    return settings.model_copy(update={"redis": settings.redis.model_copy(update={"url": url, **fields})})


def audience(count: int, prefix: str = "device") -> list[str]:
    return [f"{prefix}-{number:06d}" for number in range(count)]


def devices(count: int, first: int = 0) -> list[str]:
    """Targets of tables, which SQL makes of numbers."""
    return [f"device-{number}" for number in range(first, first + count)]
