"""Submitters that stop, or die, before any of their steps; and the judge of what they reported."""

import threading
from collections.abc import Sequence

from msgspec import structs

from dispatcher.model.errors import FairlaneError
from dispatcher.model.task import PushTask
from producers.ports import WindowPace
from producers.submit.report import SubmitResult, Watchers
from producers.submit.submit import submit
from tests.unit.dispatch.producers.fake_service import LANE, Died, FakeService, Make

TASK = PushTask(id="t", app="shop", tier="high", channel="log", message="Hi", chunk=2)
WINDOWS = WindowPace(first_targets=2, targets=4)
_PATIENCE_S = 30.0


class Submitter:
    """A process of its own. stops_at: the number of the step before which it stops, with all its threads, until it
    `wakes`; it may die there instead."""

    def __init__(self, world: FakeService, targets: Sequence[str], make: Make = list, stops_at: int = 10**9) -> None:
        self.targets = list(targets)
        self.result: SubmitResult | None = None
        self.error: BaseException | None = None
        self._world = world
        self._audience = make(targets)
        self._stops_at = stops_at
        self._steps = 0
        self._counting = threading.Lock()
        self._rests = threading.Event()
        self._wakes = threading.Event()
        self._dies = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._rests.wait(_PATIENCE_S)

    @property
    def stopped(self) -> bool:
        return not self._ended and not self._wakes.is_set()

    def wakes(self) -> None:
        self._wakes.set()
        self._thread.join(_PATIENCE_S)
        assert not self._thread.is_alive()

    def dies(self) -> None:
        self._dies = True
        self.wakes()

    def _step(self, name: str) -> None:
        with self._counting:
            self._steps += 1
            stops = self._steps > self._stops_at
        if stops:
            self._rests.set()
            assert self._wakes.wait(_PATIENCE_S)
            if self._dies:
                raise Died
        self._world.step(name)

    def _run(self) -> None:
        services = self._world.services(windows=WINDOWS, step=self._step)
        try:
            self.result = submit(services, TASK, self._audience, Watchers())  # type: ignore[arg-type]
        except (FairlaneError, Died) as error:
            self.error = error
        finally:
            self._ended = True
            self._rests.set()


def complete(world: FakeService, audiences: Sequence[Sequence[str]]) -> list[Submitter]:
    """Submits the audiences until one is accepted; all who tried."""
    tried: list[Submitter] = []
    for targets in audiences:
        tried.append(Submitter(world, targets))
        if tried[-1].result is not None:
            return tried
    raise AssertionError([str(each.error) for each in tried])


def judge(world: FakeService, submitters: Sequence[Submitter]) -> None:
    """Check that workers get the targets reported as accepted and no others, and that view and topic agree."""
    delivered = judge_reports(world, submitters)
    world.fold()
    world.complete_view()
    records = []
    for _ in ("in the view", "in the topic"):
        known = world.services().known.submission("t")
        assert known is not None
        assert known.sealed
        assert known.published == len(delivered)
        records.append(structs.asdict(known.record))
        world.view.wipe()
    assert records[0] == records[1]


def judge_reports(world: FakeService, submitters: Sequence[Submitter]) -> list[str]:
    """Check that workers get the targets reported as accepted and no others. Returns them."""
    delivered = delivered_of(world)
    for each in submitters:
        if each.result is not None:
            assert delivered == each.targets
            assert each.result.accepted == len(each.targets)
    return delivered


def delivered_of(world: FakeService) -> list[str]:
    """The targets of all envelopes, copies once. No two envelopes of one identity differ."""
    by_sequence: dict[int, list[str]] = {}
    for envelope in world.envelopes(LANE):
        assert by_sequence.setdefault(envelope.sequence, envelope.targets) == envelope.targets
    assert sorted(by_sequence) == list(range(len(by_sequence)))
    return [target for sequence in sorted(by_sequence) for target in by_sequence[sequence]]
