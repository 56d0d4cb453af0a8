"""Waiting for a task goes on through a rebuild of the view and an outage of Redis, but not for ever."""

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import msgspec
import pytest

from dispatcher.model.errors import FairlaneError, NotReady, Unreachable
from dispatcher.model.view import TaskView
from producers import handle
from producers.connection import Connection
from producers.control.controls import Controls
from producers.handle import TaskHandle
from tests.unit.tasks import task_view

ENDED = msgspec.structs.replace(task_view("a"), state="completed", finished_ms=1)


def foreseen(tasks: Sequence[TaskView]) -> list[TaskView]:
    return [task if task.ended else msgspec.structs.replace(task, eta_s=9.0) for task in tasks]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at once, and show every look."""
    monkeypatch.setattr(handle, "_FIRST_POLL_S", 0.001)
    monkeypatch.setattr(handle, "_SHOWN_EVERY_S", 0.0)


def handle_of(*answers: TaskView | FairlaneError, with_etas: Callable[..., list[TaskView]] = foreseen) -> TaskHandle:
    """A handle of a task of which these are the answers in order, and then the last one again and again."""
    known_tasks = SimpleNamespace(task=Mock(side_effect=chain(answers, repeat(answers[-1]))))
    connection = SimpleNamespace(known_tasks=known_tasks, foresight=SimpleNamespace(with_etas=with_etas))
    return TaskHandle("a", cast("Connection", connection), Controls(lambda: pytest.fail("nothing is changed")))


def test_waiting_goes_on_while_the_view_cannot_tell() -> None:
    waited = handle_of(NotReady("It is rebuilt."), Unreachable("Redis is gone."), task_view("a"), ENDED)
    assert waited.wait(10) == ENDED


def test_an_outage_that_lasts_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "_OUTAGE_S", 0.0)
    with pytest.raises(Unreachable, match="Redis is gone"):
        handle_of(task_view("a"), Unreachable("Redis is gone.")).wait(10)


def test_a_waiting_caller_hears_how_far_the_task_is() -> None:
    seen: list[TaskView] = []
    waited = handle_of(NotReady("It is rebuilt."), task_view("a", 7), task_view("a", 3), ENDED)
    assert waited.wait(10, on_progress=seen.append) == ENDED
    assert [(view.targets.pending, view.eta_s) for view in seen] == [(7, 9.0), (3, 9.0)]


def test_an_estimate_that_cannot_be_read_does_not_end_the_waiting() -> None:
    gone = Mock(side_effect=Unreachable("Redis is gone."))
    seen: list[TaskView] = []
    assert handle_of(task_view("a", 7), ENDED, with_etas=gone).wait(10, on_progress=seen.append) == ENDED
    assert [view.eta_s for view in seen] == [None]
