"""Waiting for a task goes on through a rebuild of the view and an outage of Redis, but not for ever."""

import msgspec
import pytest

from dispatcher.errors import FairlaneError, NotReady, Unreachable
from dispatcher.view import TaskView
from producers import handle
from producers.handle import TaskHandle
from tests.unit.tasks import task_view


class Views:
    """What they answer, one after the other; the last again and again."""

    def __init__(self, *answers: TaskView | FairlaneError) -> None:
        self._answers = list(answers)

    def task(self, _: str) -> TaskView:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, FairlaneError):
            raise answer
        return answer


ENDED = msgspec.structs.replace(task_view("a"), state="completed", finished_ms=1)


def handle_of(monkeypatch: pytest.MonkeyPatch, *answers: TaskView | FairlaneError) -> TaskHandle:
    monkeypatch.setattr(handle, "_FIRST_POLL_S", 0.001)
    return TaskHandle("a", Views(*answers), None, None)  # type: ignore[arg-type]


def test_waiting_goes_on_while_the_view_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = handle_of(monkeypatch, NotReady("It is rebuilt."), Unreachable("Redis is gone."), task_view("a"), ENDED)
    assert waited.wait(10) == ENDED


def test_an_outage_that_lasts_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "_OUTAGE_S", 0.0)
    with pytest.raises(Unreachable, match="Redis is gone"):
        handle_of(monkeypatch, task_view("a"), Unreachable("Redis is gone.")).wait(10)
