"""What the ledger granted a worker last, and under which caps: what the grace goes by."""

from collections import Counter, deque
from collections.abc import Iterable
from itertools import pairwise

from dispatcher.buffers import Stretch
from dispatcher.known_tasks import TOTAL, Controls, cap_of_pool
from dispatcher.lease import GivenBack
from dispatcher.service_settings import pools_of

SPAN_S, STEP_S = 4.0, 0.25
"""The last granted rate is a mean over this span, counted in these steps."""
WINDOW_S = 0.25
"""What the ledger may have granted at once, beside the rate: a window's worth."""
APPLIED_WITHIN_S = 1.0
"""The ledger may go by a cap so long after the control topic has another."""

UnderCaps = dict[int, int]
"""Targets by the cap in targets/s that they may have been granted under (0: none)."""


class GrantMeter:
    """Targets granted by task in the last SPAN_S, and the caps since then. Without controls no cap is known."""

    def __init__(self, controls: Controls | None = None) -> None:
        self._controls = controls
        self._steps: deque[tuple[float, Counter[str]]] = deque()
        self._places: dict[str, tuple[str, str]] = {}
        self._caps: dict[str, list[tuple[float, int]]] = {}
        """By pool: since when (the first one: since ever) there is which cap, as far as that mattered to a grant."""
        self._noted: set[str] = set()
        """Pools whose caps were looked at in this step."""

    def granted(self, part: Stretch, now_s: float) -> None:
        """`part` came with an answer of the ledger."""
        counts = self._step(now_s)
        if part.task not in self._places:
            self._places[part.task] = (part.deliveries[0].envelope.app, part.channel)
        if part.task not in counts:
            self._note_caps(part.task, now_s)
        counts[part.task] += part.targets

    def given_back(self, given: Iterable[GivenBack], now_s: float) -> None:
        for one in given:
            counts = self._step(now_s)
            if one.task in self._places:
                counts[one.task] -= one.count * one.size

    def under_caps(self, until_s: float) -> dict[str, UnderCaps]:
        """What was granted in the span that ends at until_s, by pool (`task/ID` among them)."""
        found: dict[str, Counter[int]] = {}
        for at_s, counts in self._steps:
            if until_s - SPAN_S - STEP_S < at_s <= until_s:
                for task, targets in counts.items():
                    for pool in pools_of_task(task, *self._places[task]):
                        found.setdefault(pool, Counter())[self._loosest(pool, at_s)] += targets
        return {pool: dict(targets) for pool, targets in found.items()}

    def _loosest(self, pool: str, at_s: float) -> int:
        """The highest cap that a grant of the step at at_s may have been under."""
        entries = self._caps.get(pool, [(0.0, 0)])
        late = [cap for (_, cap), (until_s, _) in pairwise(entries) if until_s > at_s - APPLIED_WITHIN_S]
        caps = [*late, entries[-1][1]]
        return 0 if 0 in caps else max(caps)

    def _note_caps(self, task: str, now_s: float) -> None:
        if self._controls is None:
            return
        for pool in pools_of_task(task, *self._places[task]):
            if pool not in self._noted:
                self._noted.add(pool)
                self._note(pool, cap_now(self._controls, pool, task), now_s)

    def _note(self, pool: str, cap: int, now_s: float) -> None:
        entries = self._caps.setdefault(pool, [(now_s, cap)])
        if entries[-1][1] != cap:
            entries.append((now_s, cap))
            while len(entries) > 1 and entries[1][0] < now_s - 4 * SPAN_S:
                del entries[0]

    def _step(self, now_s: float) -> Counter[str]:
        """The present one. What is known of tasks that are in none may be forgotten by this."""
        if not self._steps or now_s - self._steps[-1][0] >= STEP_S:
            self._forget(now_s)
            self._noted.clear()
            self._steps.append((now_s, Counter()))
        return self._steps[-1][1]

    def _forget(self, now_s: float) -> None:
        while self._steps and self._steps[0][0] < now_s - 4 * SPAN_S:
            self._steps.popleft()
        if len(self._places) > 1_000 and len(self._places) > 2 * len(kept := {t for _, c in self._steps for t in c}):
            self._places = {task: place for task, place in self._places.items() if task in kept}
            pools = {pool for task, place in self._places.items() for pool in pools_of_task(task, *place)}
            self._caps = {pool: entries for pool, entries in self._caps.items() if pool in pools}


def rate_under(granted: UnderCaps, cap: int) -> float:
    """The mean rate in targets/s of what was granted, as if this cap (0: none) had been there: what was granted under
    a higher one counts for its part of it, and what was granted under none for nothing, for nobody knows which part of
    the new one is ours."""
    if not cap:
        targets = float(sum(granted.values()))
    else:
        targets = sum(count * min(1.0, cap / before) for before, count in granted.items() if before)
    rate = max(0.0, targets) / (SPAN_S + WINDOW_S)
    return min(rate, float(cap)) if cap else rate


def cap_now(controls: Controls, pool: str, task: str) -> int:
    """Of one of the task's pools, in targets/s; 0: it has none."""
    if pool != _task_pool(task):
        return cap_of_pool(controls, pool)
    known = controls.task(task)
    return known.cap if known is not None else 0


def pools_of_task(task: str, app: str, channel: str) -> tuple[str, ...]:
    """All whose caps bind it, its own among them."""
    return (TOTAL, *pools_of(app, channel), _task_pool(task))


def _task_pool(task: str) -> str:
    return f"task/{task}"
