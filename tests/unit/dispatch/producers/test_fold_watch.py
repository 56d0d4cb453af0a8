"""The watch of Pulsar and the folds: it asks in the background, and nobody waits for it."""

import threading

import pytest

from backends.settings import PulsarSettings
from dispatcher.model.errors import FairlaneError, NotReady, Refused, Unreachable
from producers.fold_watch import SILENT_S, FoldWatch, PulsarState
from tests.integration.worker_crew import eventually
from tests.unit.views import view_of
from tests.virtual_clock import VirtualClock

GONE = Unreachable("Pulsar at pulsar://10.0.0.1 does not answer.")


class Watch(FoldWatch):
    """Gets `answer`, once `open` is set."""

    def __init__(self, answer: PulsarState | FairlaneError) -> None:
        self.clock = VirtualClock()
        super().__init__(view_of(self.clock), PulsarSettings(), self.clock)
        self.answer = answer
        self.open = threading.Event()
        self.open.set()

    def _ask(self) -> PulsarState:
        assert self.open.wait(20)
        if isinstance(self.answer, FairlaneError):
            raise self.answer
        return self.answer

    def hear(self, answer: PulsarState | FairlaneError, after_s: float) -> None:
        """Let time go by, and get an answer then."""
        self.clock.advance(after_s)
        self.answer = answer
        self.follow()


def state(answer_ms: float) -> PulsarState:
    return PulsarState(1, answer_ms, {"control": (1, 0)})


def test_nobody_waits_for_pulsar_while_it_is_asked() -> None:
    watch = Watch(state(1.0))
    watch.open.clear()
    watch.start()
    try:
        with pytest.raises(NotReady, match="not asked yet"):
            watch.read()
        assert watch.silence is None
        watch.open.set()
        eventually(lambda: watch.age_s == 0, 20, "it was asked")
        assert watch.read() == state(1.0)
    finally:
        watch.close()


def test_pulsar_is_silent_some_seconds_after_its_last_answer_until_the_next() -> None:
    watch = Watch(state(1.0))
    watch.follow()
    watch.hear(GONE, SILENT_S)
    assert not watch.silence
    watch.hear(GONE, 1)
    assert watch.silence is not None
    assert "10.0.0.1" not in str(watch.silence), "apps see it as well"
    assert watch.age_s == SILENT_S + 1
    watch.hear(state(2.0), 60)
    assert watch.silence is None


def test_pulsar_that_never_answered_is_silent_once_it_was_asked() -> None:
    watch = Watch(GONE)
    watch.follow()
    assert watch.silence is not None
    with pytest.raises(Unreachable):
        watch.read()


def test_request_that_hangs_is_silence_as_well() -> None:
    watch = Watch(state(1.0))
    watch.follow()
    watch.clock.advance(SILENT_S + 1)
    assert watch.silence is not None


def test_refusal_is_an_answer() -> None:
    watch = Watch(Refused("No rights."))
    watch.follow()
    assert watch.silence is None
    with pytest.raises(Refused):
        watch.read()
