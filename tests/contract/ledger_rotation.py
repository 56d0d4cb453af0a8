"""More backlogged lanes than workers hold at once: working sets change, and the lanes left out are announced."""

from collections import Counter

from dispatcher.wire.lease import LaneAsk, Status
from tests.contract.ledger_worlds import LawWorld, ask, own_lane, request, want

ANNOUNCE_MS = 1_000
WAITING_MS = 3_000
DEMAND_MS = 300


class Rotation:
    """One worker that holds `hold` of the lanes for hold_ms, those furthest behind first, and calls every period_ms.
    The demand of the others is announced every second, and at once for those that were let go of."""

    def __init__(
        self,
        world: LawWorld,
        tasks: list[str],
        *,
        hold: int,
        hold_ms: int,
        size: int,
        period_ms: int = 100,
        worker: str = "w",
    ) -> None:
        self.world, self.tasks, self.hold, self.hold_ms, self.size = world, tasks, hold, hold_ms, size
        self.period_ms, self.worker = period_ms, worker
        self.granted: Counter[str] = Counter()
        self._next: Counter[str] = Counter()
        self._number = 0
        self._now_ms = self._rotate_ms = 0
        self._held: list[str] = []
        self._announced_ms: dict[str, int] = {}

    def run(self, for_ms: int) -> None:
        until_ms = self._now_ms + for_ms
        while self._now_ms < until_ms:
            self.step(self._now_ms)
            self.world.advance(self.period_ms)
            self._now_ms += self.period_ms

    def step(self, now_ms: int) -> None:
        """One call, and before it a new working set if it is time for one."""
        self._now_ms = now_ms
        if now_ms >= self._rotate_ms:
            self._rotate_ms = now_ms + self.hold_ms
            self._rotate()
        self._call()

    def _rotate(self) -> None:
        for task in self._held:
            self._announced_ms[task] = -ANNOUNCE_MS
        behind = sorted(self.tasks, key=lambda task: (self.granted[task], self.tasks.index(task)))
        self._held = behind[: self.hold]

    def _call(self) -> None:
        held = set(self._held)
        left_out = [task for task in self.tasks if task not in held]
        due = [task for task in left_out if self._announced_ms.get(task, -ANNOUNCE_MS) + ANNOUNCE_MS <= self._now_ms]
        self._announced_ms.update(dict.fromkeys(due, self._now_ms))
        self._number += 1
        asks = [self._wanting(task) for task in self._held]
        asks += [ask(own_lane(task), demand=1_000, waiting=True) for task in due]
        asked = request(self._number, *asks, demand_ms=DEMAND_MS, waiting_ms=WAITING_MS, worker=self.worker)
        answer = self.world.ledger.lease(asked)
        for task, wants in zip(self._held, answer.lanes, strict=False):
            count = sum(piece.count for piece in wants[0] if piece.status == Status.GRANTED)
            self._next[task] += count
            self.granted[task] += count * self.size

    def _wanting(self, task: str) -> LaneAsk:
        return ask(own_lane(task), want(task, self._next[task], 10, size=self.size), demand=500)
