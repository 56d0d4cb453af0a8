"""The local pick: among lanes with credit, the tier, then its fresh work or its retries, and then the lane with the
fewest targets sent per weight.

Start-time fair queueing on three levels, in integers. A tier, its retries or a lane that was idle re-enters at the
current virtual time, so that it neither waits for the others nor catches up on the past. A pick costs little more for a
hundred thousand lanes than for ten, as long as their times are spread.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from dispatcher.model.tier import DEFAULT_TIER_WEIGHTS, TIERS, Tier
from dispatcher.scheduling.sharing import WORK_WEIGHTS, Work

UNIT = 1_000_000
"""Virtual time of one target at a weight of one thousandth."""

T = TypeVar("T")
_MAX_SORTED = 512
"""Maximum positions that are sorted at once; more are first distributed to rungs."""
_RUNG_POSITIONS = 64
"""Minimum positions on a rung; up to twice as many if they are spread evenly."""
_SAMPLE = 256
"""Minimum sample size to find the time that nine tenths of all positions are below."""


class QueueEntry(Generic[T]):
    """One lane's entry in the scheduler. Scheduler.entry makes it, and only the scheduler changes it; `item` belongs to
    the caller."""

    __slots__ = ("active", "group", "item", "order", "queue", "rest", "time", "weight")

    def __init__(self, item: T, queue: "_WorkQueue[T]", weight: int, group: str) -> None:
        self.item = item
        self.queue = queue
        self.weight = weight
        self.group = group
        self.active = False
        self.time = 0
        self.rest = 0
        self.order = -1


_Position = tuple[int, int, QueueEntry[T]]


class _Group(Generic[T]):
    """The active entries of one tier that can be stopped together (those of one flow).

    Positions (time, order, entry) are kept as in a ladder queue (Tang, Goh and Thng, 2005). When the run is used up,
    the next rung is sorted and becomes the run. A served entry mostly goes behind the run, so a pick costs little more
    for many entries than for few. A position is outdated once its entry has left or entered again.
    """

    __slots__ = ("active", "closed", "early", "end", "floor", "horizon", "later", "positions", "run", "rungs", "shift")

    def __init__(self, *, closed: bool) -> None:
        self.run: list[_Position[T]] = []
        """In order of time, last first."""
        self.early: list[_Position[T]] = []
        """A heap of positions added since, with times before the `end` of the run."""
        self.rungs: list[list[_Position[T]]] = []
        """Lists for spans of equal length from `end` to `horizon`, the last span first."""
        self.later: list[_Position[T]] = []
        """Positions from `horizon` on."""
        self.positions = 0
        self.end = 0
        self.horizon = 0
        self.shift = 0
        """A rung spans a time of `1 << shift`."""
        self.active = 0
        self.closed = closed
        self.floor = 0
        """Minimum time of its entries: they do not catch up on what others sent while they were stopped."""

    def head(self) -> QueueEntry[T] | None:
        while True:
            run, early = self.run, self.early
            if run:
                _, order, entry = early[0] if early and early[0] < run[-1] else run[-1]
            elif early:
                _, order, entry = early[0]
            elif self.positions:
                self._go_on()
                continue
            else:
                return None
            if entry.active and entry.order == order:
                return entry
            self._pop()

    def _pop(self) -> None:
        """Remove the first position."""
        run, early = self.run, self.early
        if early and (not run or early[0] < run[-1]):
            heappop(early)
        else:
            run.pop()
        self.positions -= 1

    def push(self, entry: QueueEntry[T]) -> None:
        """Add a position."""
        self.put(entry)
        self.positions += 1
        if self.positions > 2 * self.active + 64:
            self._purge()

    def put(self, entry: QueueEntry[T]) -> None:
        """Add a position in place of a removed one."""
        time = entry.time
        if time >= self.horizon:
            self.later.append((time, entry.order, entry))
        elif time >= self.end:
            self.rungs[(self.horizon - 1 - time) >> self.shift].append((time, entry.order, entry))
        else:
            heappush(self.early, (time, entry.order, entry))

    def _purge(self) -> None:
        """Remove outdated positions."""
        self.positions = 0
        for positions in (self.run, self.early, *self.rungs, self.later):
            positions[:] = [
                position for position in positions if position[2].active and position[2].order == position[1]
            ]
            self.positions += len(positions)
        heapify(self.early)

    def _go_on(self) -> None:
        """Start the next run."""
        if not self.rungs and len(self.later) > _MAX_SORTED:
            self._lay_out()
        if self.rungs:
            self.run = self.rungs.pop()
            self.run.sort(reverse=True)
            self.end = self.horizon - (len(self.rungs) << self.shift)
        else:
            self._take_half()

    def _take_half(self) -> None:
        """Take the earlier half of the remaining positions, so that an entry much later than the others does not make
        the run long."""
        later = self.later
        later.sort(reverse=True)
        half = len(later) // 2
        self.run, self.later = later[half:], later[:half]
        self.end = self.horizon = self.run[0][0]

    def _lay_out(self) -> None:
        """Distribute positions to rungs, up to the time of nine tenths of them, so that a few that are much later do
        not make the rungs long."""
        positions = self.later
        sample = sorted([position[0] for position in positions[:: len(positions) // _SAMPLE]])
        begin, end = min(positions)[0], sample[len(sample) * 9 // 10]
        shift = ((end - begin) * _RUNG_POSITIONS // len(positions)).bit_length()
        count = ((end - begin) >> shift) + 1
        horizon = begin + (count << shift)
        rungs: list[list[_Position[T]]] = [[] for _ in range(count)]
        self.later = later = []
        for position in positions:
            time = position[0]
            if time < horizon:
                rungs[(horizon - 1 - time) >> shift].append(position)
            else:
                later.append(position)
        self.rungs, self.horizon, self.shift = rungs, horizon, shift


class _Tier(Generic[T]):
    """A tier: its share among the tiers, and the division of that share between its fresh work and its retries."""

    __slots__ = ("fresh", "only", "only_since", "open", "rest", "retries", "time", "weight")

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.time = 0
        self.rest = 0
        self.open = 0
        """Entries that can be picked."""
        self.fresh = _WorkQueue(self, Work.FRESH)
        self.retries = _WorkQueue(self, Work.RETRIES)
        self.only: _WorkQueue[T] | None = None
        """The queue that has all entries that can be picked; None if both have some."""
        self.only_since = 0
        """The tier's time up to which the time of `only` has been counted."""

    def queue(self, work: Work) -> "_WorkQueue[T]":
        return self.fresh if work is Work.FRESH else self.retries

    def behind(self) -> "_WorkQueue[T]":
        """Return the queue that was sent less for its weight."""
        return self.retries if self.retries.time < self.fresh.time else self.fresh

    def count_open(self, queue: "_WorkQueue[T]", count: int) -> None:
        """Count entries of a queue that can be picked from now on, or no longer (below zero)."""
        was_open = queue.open
        queue.open += count
        self.open += count
        if bool(was_open) == bool(queue.open):
            return
        self.catch_up()
        fresh, retries = self.fresh, self.retries
        if self.open and self.open == queue.open:
            fresh.time = retries.time = 0
        elif not was_open:
            # One unit before the other, which may have gone on before this one could be picked.
            queue.time = max(queue.time, max(fresh.time, retries.time) - 1)
        self.only = fresh if not retries.open else retries if not fresh.open else None

    def catch_up(self) -> None:
        """Count what was sent while one queue had the tier to itself. Counting it in every pick would cost more."""
        if self.only is not None:
            self.only.time += (self.time - self.only_since) * self.weight // UNIT * self.only.step
        self.only_since = self.time


class _WorkQueue(Generic[T]):
    """The fresh work of a tier, or its retries."""

    __slots__ = ("groups", "now", "open", "step", "tier", "time", "work")

    def __init__(self, tier: _Tier[T], work: Work) -> None:
        self.tier = tier
        self.work = work
        self.step = WORK_WEIGHTS[Work.FRESH] // WORK_WEIGHTS[work]
        """How far a target moves `time`."""
        self.time = 0
        """Targets sent per weight, since the tier last had nothing to send."""
        self.now = 0
        """The virtual time of its entries."""
        self.open = 0
        """Entries that can be picked."""
        self.groups: dict[str, _Group[T]] = {}

    def head(self) -> QueueEntry[T] | None:
        if len(self.groups) == 1:
            (group,) = self.groups.values()
            return group.head()
        best: QueueEntry[T] | None = None
        best_key = (0, 0)
        for group in self.groups.values():
            if group.closed:
                continue
            entry = group.head()
            if entry is not None:
                key = (max(entry.time, group.floor), entry.order)
                if best is None or key < best_key:
                    best, best_key = entry, key
        return best


class Scheduler(Generic[T]):
    """Picks entries. One thread. Weights are in thousandths and may change at any time."""

    def __init__(self, tier_weights: Mapping[Tier, int] = DEFAULT_TIER_WEIGHTS) -> None:
        self._by_name: dict[Tier, _Tier[T]] = {tier: _Tier(tier_weights[tier]) for tier in TIERS}
        self._tiers = tuple(self._by_name.values())
        self._queues = tuple(queue for tier in self._tiers for queue in (tier.fresh, tier.retries))
        self._now = 0
        self._order = 0
        """Breaks ties: first come, first served."""
        self._closed: set[str] = set()

    def entry(self, item: T, tier: Tier, weight: int, group: str = "", work: Work = Work.FRESH) -> QueueEntry[T]:
        """Return a new entry, idle until it enters. group: the name for `close` and `open`, such as a flow."""
        return QueueEntry(item, self._by_name[tier].queue(work), weight, group)

    def enter(self, entry: QueueEntry[T]) -> None:
        """Record that the entry has something to send. No effect if it already had."""
        if entry.active:
            return
        queue = entry.queue
        group = queue.groups.get(entry.group)
        if group is None:
            group = queue.groups[entry.group] = _Group(closed=entry.group in self._closed)
        entry.active = True
        if entry.time < queue.now:
            entry.time = queue.now
        self._order += 1
        entry.order = self._order
        group.active += 1
        group.push(entry)
        if not group.closed:
            self._raise_open(queue, 1)

    def leave(self, entry: QueueEntry[T]) -> None:
        """Record that the entry has nothing left to send. It keeps its virtual time. No effect if it had nothing."""
        if not entry.active:
            return
        entry.active = False
        queue = entry.queue
        group = queue.groups[entry.group]
        group.active -= 1
        if not group.closed:
            queue.tier.count_open(queue, -1)
        if not group.active:
            del queue.groups[entry.group]

    def change(self, entry: QueueEntry[T], tier: Tier, weight: int) -> None:
        """Change the entry's weight or tier at once. In another tier it starts at that tier's current time."""
        if entry.weight != weight:
            entry.weight, entry.rest = weight, 0
        queue = self._by_name[tier].queue(entry.queue.work)
        if entry.queue is queue:
            return
        active = entry.active
        self.leave(entry)
        entry.queue, entry.time, entry.rest = queue, queue.now, 0
        if active:
            self.enter(entry)

    def set_tier_weights(self, weights: Mapping[Tier, int]) -> None:
        """Change the sharing between tiers at once."""
        for name, weight in weights.items():
            tier = self._by_name[name]
            if tier.weight != weight:
                tier.catch_up()
                tier.weight, tier.rest = weight, 0

    def close(self, group: str) -> None:
        """Stop a group: none of its entries is picked until `open`."""
        if group in self._closed:
            return
        self._closed.add(group)
        for queue in self._queues:
            members = queue.groups.get(group)
            if members is not None:
                members.closed = True
                queue.tier.count_open(queue, -members.active)

    def open(self, group: str) -> None:
        """Resume a group that was stopped."""
        if group not in self._closed:
            return
        self._closed.discard(group)
        for queue in self._queues:
            members = queue.groups.get(group)
            if members is not None:
                members.closed = False
                members.floor = queue.now
                self._raise_open(queue, members.active)

    def pick(self) -> QueueEntry[T] | None:
        """Return the entry whose turn it is; None if no entry has anything to send. Call `charge` after sending: until
        then the same entry is returned."""
        best: _Tier[T] | None = None
        for tier in self._tiers:
            if tier.open and (best is None or tier.time < best.time):
                best = tier
        if best is None:
            return None
        return (best.only or best.behind()).head()

    def charge(self, entry: QueueEntry[T], targets: int) -> None:
        """Charge the entry for `targets` sent, which moves it behind entries that were sent less."""
        queue = entry.queue
        group = queue.groups.get(entry.group) if entry.active else None
        cost = targets * UNIT
        start = entry.time
        if group is not None and start < group.floor:
            start = group.floor
        if start > queue.now:
            queue.now = start
        step, entry.rest = divmod(cost + entry.rest, entry.weight)
        entry.time = start + step
        if group is not None:
            old_order, run, early = entry.order, group.run, group.early
            entry.order = self._order = self._order + 1
            if run and run[-1][1] == old_order:
                run.pop()
                group.put(entry)
            elif early and early[0][1] == old_order:
                heappop(early)
                group.put(entry)
            else:
                group.push(entry)
        tier = queue.tier
        if tier.only is None:
            queue.time += targets * queue.step
        if tier.time > self._now:
            self._now = tier.time
        step, tier.rest = divmod(cost + tier.rest, tier.weight)
        tier.time += step

    def _raise_open(self, queue: _WorkQueue[T], count: int) -> None:
        tier = queue.tier
        if not tier.open and count:
            tier.time = max(tier.time, self._now)
        tier.count_open(queue, count)
