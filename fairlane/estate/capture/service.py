"""Fairlane's own view for a capture: tasks, workers, settings in force, versions and clocks."""

import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec

from backends.redis.view import open_view
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.wire.topics import topics_of_lane
from fairlane import __version__
from fairlane.settings import Settings
from fairlane.settings_sources import explain_settings
from producers.client import PushClient

ANSWER_S = 3.0
"""How long one answer of Redis may take."""
MAX_TASKS = 10
"""Maximum number of tasks that are explained."""
_LISTED = 200
"""Number of the newest tasks in the list of tasks."""

Document = tuple[str, Any]
"""Name and document, or the FairlaneError that took its place."""


class ServiceReader:
    """Reads Fairlane's view in Redis. What cannot be read becomes the reason."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Raises NotConfigured; Unreachable if the local stack's Redis has ended."""
        quick = {"socket_timeout_s": ANSWER_S, "connect_timeout_s": ANSWER_S}
        self._settings = settings.model_copy(update={"redis": settings.redis.model_copy(update=quick)})
        self._client = PushClient.connect(self._settings)
        self._clock = clock
        self._gone: Unreachable | None = None

    def close(self) -> None:
        self._client.close()

    def topics_of(self, task: str) -> list[str]:
        """Return the topics of a task's lane. Raises NotFound, NotReady, Unreachable."""
        view = self._client.task(task).progress()
        return topics_of_lane(view.lane, view.partitions)

    def documents(self, tasks: Sequence[str]) -> Iterator[Document]:
        """Yield what the view shows. tasks: those to explain."""
        yield "clock.json", self._read(self._clocks)
        yield "workers.json", self._read(lambda: msgspec.to_builtins(self._client.workers()))
        yield "service.json", self._read(lambda: msgspec.to_builtins(self._client.globals(), str_keys=True))
        yield "tasks.json", self._read(lambda: msgspec.to_builtins(self._client.task_page(limit=_LISTED)[0]))
        for task in tasks[:MAX_TASKS]:
            yield f"tasks/{task}/show.json", self._read(partial(self._shown, task))
            yield f"tasks/{task}/why.json", self._read(partial(self._explained, task))

    def _read(self, read: Callable[[], Any]) -> Any:
        """Return what is read, or the error. Once Redis has not answered it is asked nothing more."""
        if self._gone is not None:
            return self._gone
        try:
            return read()
        except Unreachable as error:
            self._gone = error
            return error
        except FairlaneError as error:
            return error

    def _shown(self, task: str) -> Any:
        return msgspec.to_builtins(self._client.task(task).progress())

    def _explained(self, task: str) -> dict[str, Any]:
        why = self._client.why(task)
        causes = {part.cause: part.ms for part in why.parts}
        return {"task": why.task, "state": why.state, "age_ms": why.age_ms, "now": why.now, "causes_ms": causes}

    def _clocks(self) -> dict[str, int]:
        with closing(open_view(self._settings.redis)) as view:
            asked_ms = self._clock.wall_ms()
            redis_ms = view.now_ms()
        return {"here_ms": asked_ms, "redis_ms": redis_ms, "redis_ahead_ms": redis_ms - asked_ms}


def own_documents(settings: Settings) -> Iterator[Document]:
    """Yield what this process knows without a server. Secrets are masked."""
    yield "settings.json", [asdict(row) for row in explain_settings(settings)]
    yield (
        "versions.json",
        {
            "fairlane": __version__,
            "python": sys.version,
            "platform": platform.platform(),
            **{name: _installed(name) for name in ("pulsar-client", "redis", "urllib3", "msgspec", "pydantic")},
        },
    )


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
