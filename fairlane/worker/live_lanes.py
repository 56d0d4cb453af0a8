"""The live tasks as this worker knows them, and which of their lanes it should be attached to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import msgspec

from backends.redis.task_rows import LiveTask
from dispatcher.model.tier import TIERS, Tier
from dispatcher.ports import LaneInfo, WaitingLane
from dispatcher.scheduling.division import Division, DivisionSettings, RoughCount, holders_for
from dispatcher.scheduling.rotation import LaneNeed, LaneRotation, RotationSettings
from dispatcher.wire.control import override_message
from dispatcher.wire.lease import LaneKind
from dispatcher.wire.topics import stable_hash

ALL_TIERS = tuple(map(str, TIERS))
_STALE_DUE = 1_000
"""Entries of tasks that have ended, which may stay among those that are due."""


class Peer(msgspec.Struct, frozen=True):
    """A live worker. tiers: those whose lanes it holds. newer: lanes that it leaves to newer workers. channels: those
    that it has; None if it does not say, so it may have any."""

    id: str
    tiers: tuple[str, ...] = ALL_TIERS
    newer: tuple[str, ...] = ()
    channels: frozenset[str] | None = None

    def may_serve(self, tier: str, channel: str) -> bool:
        """Return whether lanes of this tier and channel may be the worker's."""
        return tier in self.tiers and (self.channels is None or channel in self.channels)


@dataclass(frozen=True)
class LiveLaneSettings:
    """me: this worker. fresh_ms: a task just accepted is taken to have something to send for so long, though nothing is
    known to be published. late_ms: how long the other holders leave a new task of at most late_targets to the first
    one, which will be done with it before; attaching costs as much as sending it. light_targets: no more than so many
    are known to wait in a light lane."""

    me: str
    tiers: tuple[Tier, ...] = TIERS
    division: DivisionSettings = field(default_factory=DivisionSettings)
    rotation: RotationSettings = field(default_factory=RotationSettings)
    fresh_ms: int = 5_000
    late_ms: int = 2_000
    late_targets: int = 2_000
    light_targets: int = 200


class _Known:
    """What is known of one task. place: of this worker among the holders of its lane. holders: how many it
    needed at most for what was pending. open: may be sent now. due_ms: when it is to be looked at again, 0: never."""

    __slots__ = ("due_ms", "fresh_until_ms", "hash", "holders", "info", "late_until_ms", "open", "place", "task")

    def __init__(self, task: LiveTask) -> None:
        self.task = task
        self.hash = stable_hash(task.id)
        self.info = lane_of(task, light=True)
        self.place = 0
        self.holders = 0
        self.open = False
        self.fresh_until_ms = 0
        self.late_until_ms = 0
        self.due_ms = 0


class LiveLanes:
    """Not safe for threads. Times are Redis' (ms), but for the turns of the rotation. overrides: by task, the edited
    message encoded as in an envelope."""

    def __init__(self, settings: LiveLaneSettings) -> None:
        self.overrides: dict[str, bytes] = {}
        self.rotation = LaneRotation(settings.rotation)
        self._news = True
        self.paused: frozenset[str] = frozenset()
        self._settings = settings
        self._known: dict[str, _Known] = {}
        self._due: list[tuple[int, str]] = []
        self._divisions = {str(tier): Division((), settings.me) for tier in TIERS}
        self._peers: frozenset[Peer] = frozenset()
        self._left: dict[str, set[str]] = {}
        """Lane -> the workers that leave it to newer ones."""
        self._by_channel: dict[tuple[str, str], Division] = {}
        """The division of lanes of a tier and channel, made when it is first asked for."""
        self._holders = dict.fromkeys(map(str, TIERS), 1)
        self._open = 0
        self._rough = RoughCount()

    def __len__(self) -> int:
        return len(self._known)

    def ids(self) -> set[str]:
        """Of all live tasks."""
        return set(self._known)

    # ------------------------------------------------------------- what is told
    def put(self, tasks: Iterable[LiveTask], now_ms: int, *, told: bool) -> None:
        """Tasks as they are now. told: something about them has changed just now, as the feed says."""
        for task in tasks:
            known = self._known.get(task.id)
            if known is None:
                known = self._known[task.id] = self._new(task, now_ms, told)
            else:
                self._renew(known, task, told)
            self._note_override(task)
            self._judge(known, now_ms)
        self._follow_count(now_ms)

    def drop(self, tasks: Iterable[str]) -> None:
        """Tasks that have ended."""
        for task in tasks:
            known = self._known.pop(task, None)
            if known is not None:
                self._open -= known.open
                self.rotation.drop(task)
                self._news |= self.overrides.pop(task, None) is not None
        if len(self._due) > 2 * len(self._known) + _STALE_DUE:
            self._due = [(known.due_ms, task) for task, known in self._known.items() if known.due_ms]
            heapify(self._due)

    def meet(self, peers: Sequence[Peer], now_ms: int) -> bool:
        """The workers there are, this one among them. Returns whether that is news."""
        if frozenset(peers) == self._peers:
            return False
        self._peers, self._left, self._by_channel = frozenset(peers), {}, {}
        for peer in peers:
            for lane in peer.newer:
                self._left.setdefault(lane, set()).add(peer.id)
        self._divisions = {
            str(tier): Division([peer.id for peer in peers if tier in peer.tiers], self._settings.me) for tier in TIERS
        }
        self._count_holders()
        for known in self._known.values():
            known.place = self._place(known)
            known.holders = 0
        self.judge_all(now_ms)
        return True

    def pause(self, channels: frozenset[str], now_ms: int) -> bool:
        """The channels that are paused. Returns whether that is news."""
        if channels == self.paused:
            return False
        self.paused = channels
        self.judge_all(now_ms)
        return True

    def wake(self, now_ms: int) -> None:
        """Looks again at what is due: starts, ends of a lifetime."""
        while self._due and self._due[0][0] <= now_ms:
            due_ms, task = heappop(self._due)
            known = self._known.get(task)
            if known is not None and known.due_ms == due_ms:
                known.due_ms = 0
                self._judge(known, now_ms)

    @property
    def next_ms(self) -> int | None:
        """When `wake` has something to do."""
        return self._due[0][0] if self._due else None

    # ------------------------------------------------------------- what follows
    @property
    def news(self) -> bool:
        """Whether the lanes, what is known of them or the edited messages may be others than at the last choice."""
        return self._news or self.rotation.news or self.rotation.more

    def choose(self, now_s: float, *, rotate: bool) -> None:
        """As Rotation.choose; until then there is news."""
        self._news = False
        self.rotation.choose(now_s, rotate=rotate)

    def attached(self) -> list[LaneInfo]:
        """The chosen lanes."""
        known = self._known
        return [known[name].info for name in self.rotation.chosen]

    def busy(self) -> list[str]:
        """The chosen ones of them that have something to send."""
        return [name for name, lane in self.rotation.chosen.items() if lane.need <= LaneNeed.BUSY]

    def waiting(self) -> list[WaitingLane]:
        """Lanes of which this worker is the first holder and that wait for their turn."""
        tasks = (self._known[name].task for name in self.rotation.waiting())
        return [WaitingLane(task.lane, task.id, task.tier, task.pending) for task in tasks if task.pending]

    def holds(self, lane: str, tier: Tier, channel: str) -> bool:
        """Whether this worker is a holder of a lane in which many tasks share a channel. One whose channel no worker
        has is held nevertheless: somebody must take out what is left of tasks that have ended."""
        division = self._division(tier, channel)
        if not division.workers:
            division = self._divisions[str(tier)]
        return division.place(stable_hash(lane)) < self._holders[str(tier)]

    def judge_all(self, now_ms: int) -> None:
        """Decides anew on every lane."""
        for known in self._known.values():
            self._judge(known, now_ms)

    # ------------------------------------------------------------- inside
    def _new(self, task: LiveTask, now_ms: int, told: bool) -> _Known:
        known = _Known(task)
        known.place = self._place(known)
        if told:
            known.fresh_until_ms = max(now_ms, task.start_ms) + self._settings.fresh_ms
            if 0 <= task.expected <= self._settings.late_targets:
                known.late_until_ms = max(now_ms, task.start_ms) + self._settings.late_ms
        return known

    def _place(self, known: _Known) -> int:
        """Return this worker's position at the lane, among those that have its channel and, if there are any such, can
        read it."""
        task = known.task
        division = self._division(task.tier, task.channel)
        left = self._left.get(task.lane, ())
        others = [worker for worker in division.workers if worker not in left] if left else ()
        return (Division(others, self._settings.me) if others else division).place(known.hash)

    def _division(self, tier: str, channel: str) -> Division:
        """Return the division of lanes of this tier and channel."""
        division = self._by_channel.get((tier, channel))
        if division is None:
            able = [peer.id for peer in self._peers if peer.may_serve(tier, channel)]
            division = self._by_channel[tier, channel] = Division(able, self._settings.me)
        return division

    def _renew(self, known: _Known, task: LiveTask, told: bool) -> None:
        """A lane of which the feed speaks is told of with another object, which unparks it."""
        before, known.task = known.task, task
        self.rotation.served(task.id, task.finals - before.finals)
        if task.tier != before.tier:
            known.place = self._place(known)
        if told or (task.tier, task.weight, task.lane) != (before.tier, before.weight, before.lane):
            self._describe(known, light=known.info.light)

    def _describe(self, known: _Known, *, light: bool) -> None:
        known.info = lane_of(known.task, light=light)
        self._news = True

    def _note_override(self, task: LiveTask) -> None:
        message = override_message(task.override) if task.override else None
        if message is not None and message != self.overrides.get(task.id):
            self.overrides[task.id] = message
            self._news = True

    def _judge(self, known: _Known, now_ms: int) -> None:
        task = known.task
        is_open = not task.shared and task.channel not in self.paused and dispatching(task, now_ms)
        self._open += is_open - known.open
        known.open = is_open
        need = self._need(known, now_ms) if is_open and task.tier in self._settings.tiers else None
        if need is None:
            self.rotation.drop(task.id)
        else:
            self._weigh(known, fresh=need <= LaneNeed.BUSY)
            self.rotation.put(task.id, need, Tier(task.tier), task.weight, task.chunk)
        self._look_again(known, now_ms)

    def _need(self, known: _Known, now_ms: int) -> LaneNeed | None:
        pending = known.task.pending
        known.holders = max(known.holders, holders_for(pending, self._settings.division))
        if known.place >= max(self._holders[known.task.tier], known.holders) or (
            known.place > 0 and known.late_until_ms > now_ms
        ):
            return None
        busy = pending > 0 or (known.fresh_until_ms > now_ms and not known.task.sealed)
        if known.place == 0:
            return LaneNeed.BUSY_FIRST if busy else LaneNeed.IDLE_FIRST
        return LaneNeed.BUSY if busy else LaneNeed.IDLE

    def _weigh(self, known: _Known, *, fresh: bool) -> None:
        """A lane that turned out to hold much stays heavy: exchanging its queue costs more than it saves. One of which
        much was expected, and to which nothing came, must not keep its part of the budget from the others."""
        task = known.task
        coming = 0 if task.sealed or not fresh else task.expected
        much = max(task.pending, coming) > self._settings.light_targets or coming < 0
        nothing = not (fresh or task.published)
        if (much and known.info.light) or (nothing and not known.info.light):
            self._describe(known, light=not much)

    def _look_again(self, known: _Known, now_ms: int) -> None:
        task = known.task
        times = (task.start_ms, task.expires_ms, known.late_until_ms, known.fresh_until_ms)
        due_ms = min((time_ms for time_ms in times if time_ms > now_ms), default=0)
        if due_ms and due_ms != known.due_ms:
            heappush(self._due, (due_ms, task.id))
        known.due_ms = due_ms

    def _follow_count(self, now_ms: int) -> None:
        if self._rough.follow(self._open) and self._count_holders():
            self.judge_all(now_ms)

    def _count_holders(self) -> bool:
        before, settings = dict(self._holders), self._settings.division
        for tier, division in self._divisions.items():
            self._holders[tier] = division.holders(self._rough.value, settings)
        return before != self._holders


def dispatching(task: LiveTask, now_ms: int) -> bool:
    """Whether envelopes of the task may be sent now, as far as time and controls say."""
    if task.state not in ("running", "scheduled") or task.start_ms > now_ms:
        return False
    if task.expires_ms and task.expires_ms <= now_ms:
        return False
    return task.sealed or not task.hold


def lane_of(task: LiveTask, *, light: bool) -> LaneInfo:
    """The lane of its own."""
    return LaneInfo(
        name=task.lane,
        kind=LaneKind.OWN,
        tier=task.tier,
        weight=max(1, task.weight),
        chunk=task.chunk,
        task=task.id,
        channel=task.channel,
        light=light,
        partitions=task.partitions,
    )
