"""The local pick: among lanes with credit, the tier and then the lane with the fewest targets sent per weight.

Start-time fair queueing on two levels, in integers. A tier or lane that was idle re-enters at the current virtual time,
so that it neither waits for the others nor catches up on the past. A pick costs little more for a hundred thousand
lanes than for ten, as long as their times are spread.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from dispatcher.model.tier import DEFAULT_TIER_WEIGHTS, TIERS, Tier

UNIT = 1_000_000
"""Virtual time of one target at a weight of one thousandth."""

T = TypeVar("T")
_MAX_SORTED = 512
"""Maximum entries that are sorted at once; more are first distributed to rungs."""
_RUNG_ENTRIES = 64
"""Minimum entries on a rung; up to twice as many if they are spread evenly."""
_SAMPLE = 256
"""Minimum sample size to find the time that nine tenths of all entries are below."""


class QueueEntry(Generic[T]):
    """One lane's entry in the scheduler. Scheduler.flow makes it, and only the scheduler changes it; `item` belongs to
    the caller."""

    __slots__ = ("active", "group", "item", "order", "rest", "tier", "time", "weight")

    def __init__(self, item: T, tier: "_TierQueue[T]", weight: int, group: str) -> None:
        self.item = item
        self.tier = tier
        self.weight = weight
        self.group = group
        self.active = False
        self.time = 0
        self.rest = 0
        self.order = -1


_Entry = tuple[int, int, QueueEntry[T]]


class _Group(Generic[T]):
    """The active flows of one tier that can be stopped together (those of one channel).

    Entries (time, order, flow) are kept as in a ladder queue (Tang, Goh and Thng, 2005). When the run is used up, the
    next rung is sorted and becomes the run. A served flow mostly goes behind the run, so a pick costs little more for
    many flows than for few. An entry is outdated once its flow has left or entered again.
    """

    __slots__ = ("active", "closed", "early", "end", "entries", "floor", "horizon", "later", "run", "rungs", "shift")

    def __init__(self, *, closed: bool) -> None:
        self.run: list[_Entry[T]] = []
        """In order of time, last first."""
        self.early: list[_Entry[T]] = []
        """A heap of entries added since, with times before the `end` of the run."""
        self.rungs: list[list[_Entry[T]]] = []
        """Lists for spans of equal length from `end` to `horizon`, the last span first."""
        self.later: list[_Entry[T]] = []
        """Entries from `horizon` on."""
        self.entries = 0
        self.end = 0
        self.horizon = 0
        self.shift = 0
        """A rung spans a time of `1 << shift`."""
        self.active = 0
        self.closed = closed
        self.floor = 0
        """Minimum time of its flows: they do not catch up on what others sent while they were stopped."""

    def head(self) -> QueueEntry[T] | None:
        while True:
            run, early = self.run, self.early
            if run:
                _, order, flow = early[0] if early and early[0] < run[-1] else run[-1]
            elif early:
                _, order, flow = early[0]
            elif self.entries:
                self._go_on()
                continue
            else:
                return None
            if flow.active and flow.order == order:
                return flow
            self._pop()

    def _pop(self) -> None:
        """Remove the first entry."""
        run, early = self.run, self.early
        if early and (not run or early[0] < run[-1]):
            heappop(early)
        else:
            run.pop()
        self.entries -= 1

    def push(self, flow: QueueEntry[T]) -> None:
        """Add an entry."""
        self.put(flow)
        self.entries += 1
        if self.entries > 2 * self.active + 64:
            self._purge()

    def put(self, flow: QueueEntry[T]) -> None:
        """Add an entry in place of a removed one."""
        time = flow.time
        if time >= self.horizon:
            self.later.append((time, flow.order, flow))
        elif time >= self.end:
            self.rungs[(self.horizon - 1 - time) >> self.shift].append((time, flow.order, flow))
        else:
            heappush(self.early, (time, flow.order, flow))

    def _purge(self) -> None:
        """Remove outdated entries."""
        self.entries = 0
        for entries in (self.run, self.early, *self.rungs, self.later):
            entries[:] = [entry for entry in entries if entry[2].active and entry[2].order == entry[1]]
            self.entries += len(entries)
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
        """Take the earlier half of the remaining entries, so that a flow much later than the others does not make the
        run long."""
        later = self.later
        later.sort(reverse=True)
        half = len(later) // 2
        self.run, self.later = later[half:], later[:half]
        self.end = self.horizon = self.run[0][0]

    def _lay_out(self) -> None:
        """Distribute entries to rungs, up to the time of nine tenths of them, so that a few that are much later do not
        make the rungs long."""
        entries = self.later
        sample = sorted([entry[0] for entry in entries[:: len(entries) // _SAMPLE]])
        begin, end = min(entries)[0], sample[len(sample) * 9 // 10]
        shift = ((end - begin) * _RUNG_ENTRIES // len(entries)).bit_length()
        count = ((end - begin) >> shift) + 1
        horizon = begin + (count << shift)
        rungs: list[list[_Entry[T]]] = [[] for _ in range(count)]
        self.later = later = []
        for entry in entries:
            time = entry[0]
            if time < horizon:
                rungs[(horizon - 1 - time) >> shift].append(entry)
            else:
                later.append(entry)
        self.rungs, self.horizon, self.shift = rungs, horizon, shift


class _TierQueue(Generic[T]):
    __slots__ = ("groups", "now", "open", "rest", "time", "weight")

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.time = 0
        self.rest = 0
        self.now = 0
        self.open = 0
        """Flows that can be picked."""
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
            flow = group.head()
            if flow is not None:
                key = (max(flow.time, group.floor), flow.order)
                if best is None or key < best_key:
                    best, best_key = flow, key
        return best


class Scheduler(Generic[T]):
    """Picks flows. One thread. Weights are in thousandths and may change at any time."""

    def __init__(self, tier_weights: Mapping[Tier, int] = DEFAULT_TIER_WEIGHTS) -> None:
        self._tiers: dict[Tier, _TierQueue[T]] = {tier: _TierQueue(tier_weights[tier]) for tier in TIERS}
        self._queues = tuple(self._tiers.values())
        self._now = 0
        self._order = 0
        """Breaks ties: first come, first served."""
        self._closed: set[str] = set()

    def flow(self, item: T, tier: Tier, weight: int, group: str = "") -> QueueEntry[T]:
        """Return a new flow, idle until it enters. `group` is the name for `close` and `open` (its channel)."""
        return QueueEntry(item, self._tiers[tier], weight, group)

    def enter(self, flow: QueueEntry[T]) -> None:
        """Note that the flow has something to send. No effect if it already had."""
        if flow.active:
            return
        tier = flow.tier
        group = tier.groups.get(flow.group)
        if group is None:
            group = tier.groups[flow.group] = _Group(closed=flow.group in self._closed)
        flow.active = True
        if flow.time < tier.now:
            flow.time = tier.now
        self._order += 1
        flow.order = self._order
        group.active += 1
        group.push(flow)
        if not group.closed:
            self._raise_open(tier, 1)

    def leave(self, flow: QueueEntry[T]) -> None:
        """Note that the flow has nothing left to send. It keeps its virtual time. No effect if it had nothing."""
        if not flow.active:
            return
        flow.active = False
        tier = flow.tier
        group = tier.groups[flow.group]
        group.active -= 1
        if not group.closed:
            tier.open -= 1
        if not group.active:
            del tier.groups[flow.group]

    def change(self, flow: QueueEntry[T], tier: Tier, weight: int) -> None:
        """Change the flow's weight or tier at once. In another tier it starts at that tier's current time."""
        if flow.weight != weight:
            flow.weight, flow.rest = weight, 0
        queue = self._tiers[tier]
        if flow.tier is queue:
            return
        active = flow.active
        self.leave(flow)
        flow.tier, flow.time, flow.rest = queue, queue.now, 0
        if active:
            self.enter(flow)

    def set_tier_weights(self, weights: Mapping[Tier, int]) -> None:
        """Change the sharing between tiers at once."""
        for tier, weight in weights.items():
            queue = self._tiers[tier]
            if queue.weight != weight:
                queue.weight, queue.rest = weight, 0

    def close(self, group: str) -> None:
        """Stop a group: none of its flows is picked until `open`."""
        if group in self._closed:
            return
        self._closed.add(group)
        for tier in self._queues:
            flows = tier.groups.get(group)
            if flows is not None:
                flows.closed = True
                tier.open -= flows.active

    def open(self, group: str) -> None:
        """Resume a group that was stopped."""
        if group not in self._closed:
            return
        self._closed.discard(group)
        for tier in self._queues:
            flows = tier.groups.get(group)
            if flows is not None:
                flows.closed = False
                flows.floor = tier.now
                self._raise_open(tier, flows.active)

    def pick(self) -> QueueEntry[T] | None:
        """Return the flow whose turn it is; None if no flow has anything to send. Call `charge` after sending: until
        then the same flow is returned."""
        best: _TierQueue[T] | None = None
        for tier in self._queues:
            if tier.open and (best is None or tier.time < best.time):
                best = tier
        return None if best is None else best.head()

    def charge(self, flow: QueueEntry[T], targets: int) -> None:
        """Charge the flow for `targets` sent, which moves it behind flows that were sent less."""
        tier = flow.tier
        group = tier.groups.get(flow.group) if flow.active else None
        cost = targets * UNIT
        start = flow.time if group is None or flow.time > group.floor else group.floor
        if start > tier.now:
            tier.now = start
        step, flow.rest = divmod(cost + flow.rest, flow.weight)
        flow.time = start + step
        if group is not None:
            old_order, run, early = flow.order, group.run, group.early
            self._order += 1
            flow.order = self._order
            if run and run[-1][1] == old_order:
                run.pop()
                group.put(flow)
            elif early and early[0][1] == old_order:
                heappop(early)
                group.put(flow)
            else:
                group.push(flow)
        if tier.time > self._now:
            self._now = tier.time
        step, tier.rest = divmod(cost + tier.rest, tier.weight)
        tier.time += step

    def _raise_open(self, tier: _TierQueue[T], flows: int) -> None:
        if not tier.open and flows:
            tier.time = max(tier.time, self._now)
        tier.open += flows
