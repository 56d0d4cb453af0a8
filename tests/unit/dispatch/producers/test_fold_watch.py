"""The watch of the folds: Pulsar is asked rarely, and nobody waits for it twice."""

import threading

import pytest

from backends.settings import PulsarSettings
from dispatcher.model.errors import FairlaneError, Unreachable
from producers import fold_watch
from producers.fold_watch import FoldWatch, PulsarState
from tests.unit.views import view_of
from tests.virtual_clock import VirtualClock

WITHIN_S = 20.0


class Watch(FoldWatch):
    """Answers come from a list, the last again and again; `open`: they come at once."""

    def __init__(self, *answers: PulsarState | FairlaneError) -> None:
        super().__init__(view_of(VirtualClock()), PulsarSettings())
        self.answers = list(answers)
        self.asked = 0
        self.is_asked = threading.Event()
        self.open = threading.Event()
        self.open.set()

    def _ask(self) -> PulsarState:
        self.asked += 1
        self.is_asked.set()
        assert self.open.wait(WITHIN_S)
        answer = self.answers.pop(0) if self.answers[1:] else self.answers[0]
        if isinstance(answer, FairlaneError):
            raise answer
        return answer


def state(answer_ms: float) -> PulsarState:
    return PulsarState(1, answer_ms, {"control": 0})


def test_answer_is_kept_for_all_who_look() -> None:
    watch = Watch(state(1.0), state(2.0))
    assert [watch.read().answer_ms for _ in range(3)] == [1.0, 1.0, 1.0]
    assert watch.asked == 1


def test_error_is_kept_as_well() -> None:
    watch = Watch(Unreachable("Pulsar does not answer."), state(2.0))
    for _ in range(3):
        with pytest.raises(Unreachable, match="does not answer"):
            watch.read()
    assert watch.asked == 1


def test_older_answer_is_returned_while_pulsar_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_watch, "KEPT_S", 0.0)
    watch = Watch(state(1.0), state(2.0))
    watch.read()
    watch.open.clear()
    watch.is_asked.clear()
    asking = threading.Thread(target=watch.read)
    asking.start()
    assert watch.is_asked.wait(WITHIN_S)
    assert watch.read().answer_ms == 1.0
    watch.open.set()
    asking.join(WITHIN_S)
    assert watch.read().answer_ms == 2.0
