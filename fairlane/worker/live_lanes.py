"""The live tasks as this worker knows them, and which of their lanes it should attach to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import msgspec

from backends.redis.registry.task_rows import LiveTask
from dispatcher.model.flow_pause import flow_name
from dispatcher.model.task_control import edited_message
from dispatcher.model.tier import TIERS, Tier
from dispatcher.ports import LaneInfo, WaitingLane
from dispatcher.scheduling.division import Division, DivisionSettings, RoughCount, holders_for
from dispatcher.scheduling.rotation import LaneNeed, LaneRotation, RotationSettings
from dispatcher.wire.lease import LaneKind
from dispatcher.wire.topics import stable_hash

ALL_TIERS = tuple(map(str, TIERS))
_STALE_DUE = 1_000
"""Maximum number of stale entries (of ended tasks) kept among the due ones."""


class Peer(msgspec.Struct, frozen=True):
    """A live worker."""

    id: str
    tiers: tuple[str, ...] = ALL_TIERS
    """Tiers whose lanes it holds."""
    newer: tuple[str, ...] = ()
    """Lanes that it leaves to newer workers."""
    channels: frozenset[str] | None = None
    """Channels that it has. None: it does not report them, so it may have any."""

    def may_serve(self, tier: str, channel: str) -> bool:
        """Return whether lanes of this tier and channel may be the worker's."""
        return tier in self.tiers and (self.channels is None or channel in self.channels)


@dataclass(frozen=True, kw_only=True)
class LiveLaneSettings:
    """Settings of LiveLanes."""

    me: str
    """This worker's id."""
    tiers: tuple[Tier, ...] = TIERS
    division: DivisionSettings = field(default_factory=DivisionSettings)
    rotation: RotationSettings = field(default_factory=RotationSettings)
    fresh_ms: int = 5_000
    """How long a newly accepted task is assumed to have something to send, although nothing is known to be published.
    """
    late_ms: int = 2_000
    """How long the other holders leave a new small task to the first one.

    The first holder will finish it before that; attaching costs as much as sending it.
    """
    late_targets: int = 2_000
    """Maximum targets of such a task."""
    light_targets: int = 200
    """Maximum targets known to wait in a light lane."""


class _Known:
    """The known state of one task.

    position: position of this worker among the holders of its lane.
    holders: the most holders it has needed so far for its pending targets.
    open: may be sent now.
    due_ms: when to check it again; 0: never.
    """

    __slots__ = ("due_ms", "fresh_until_ms", "hash", "holders", "info", "late_until_ms", "open", "position", "task")

    def __init__(self, task: LiveTask) -> None:
        self.task = task
        self.hash = stable_hash(task.id)
        self.info = lane_of(task, nearly_empty=True)
        self.position = 0
        self.holders = 0
        self.open = False
        self.fresh_until_ms = 0
        self.late_until_ms = 0
        self.due_ms = 0


class LiveLanes:
    """The live tasks and their lanes, by what the registry and the heartbeats report.

    Not thread-safe. Times are Redis' (ms), except for the turns of the rotation. `overrides` has the edited message of
    each edited task, encoded as in an envelope.
    """

    def __init__(self, settings: LiveLaneSettings) -> None:
        self.overrides: dict[str, bytes] = {}
        self.rotation = LaneRotation(settings.rotation)
        self._changed = True
        self.paused: frozenset[str] = frozenset()
        self.paused_flows: frozenset[str] = frozenset()
        self._settings = settings
        self._known: dict[str, _Known] = {}
        self._due: list[tuple[int, str]] = []
        self._divisions = {str(tier): Division((), settings.me) for tier in TIERS}
        self._peers: frozenset[Peer] = frozenset()
        self._left: dict[str, set[str]] = {}
        """By lane: the workers that leave it to newer ones."""
        self._by_channel: dict[tuple[str, str], Division] = {}
        """The division of the lanes of a tier and channel, created on first use."""
        self._holders = dict.fromkeys(map(str, TIERS), 1)
        self._open = 0
        self._rough = RoughCount()

    def __len__(self) -> int:
        return len(self._known)

    def ids(self) -> set[str]:
        """Return the ids of all live tasks."""
        return set(self._known)

    # ------------------------------------------------------------- updates
    def put(self, tasks: Iterable[LiveTask], now_ms: int, *, is_reported: bool) -> None:
        """Store the present state of tasks. `is_reported`: the feed has just reported a change of them."""
        for task in tasks:
            known = self._known.get(task.id)
            if known is None:
                known = self._known[task.id] = self._new(task, now_ms, is_reported=is_reported)
            else:
                self._renew(known, task, is_reported=is_reported)
            self._note_override(task)
            self._judge(known, now_ms)
        self._follow_count(now_ms)

    def drop(self, tasks: Iterable[str]) -> None:
        """Remove tasks that have ended."""
        for task in tasks:
            known = self._known.pop(task, None)
            if known is not None:
                self._open -= known.open
                self.rotation.drop(task)
                self._changed |= self.overrides.pop(task, None) is not None
        if len(self._due) > 2 * len(self._known) + _STALE_DUE:
            self._due = [(known.due_ms, task) for task, known in self._known.items() if known.due_ms]
            heapify(self._due)

    def set_peers(self, peers: Sequence[Peer], now_ms: int) -> bool:
        """Set the live workers, this one among them. Return whether they have changed."""
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
            known.position = self._position_at(known)
            known.holders = 0
        self.judge_all(now_ms)
        return True

    def pause(self, channels: frozenset[str], now_ms: int, flows: frozenset[str] = frozenset()) -> bool:
        """Set the paused channels, and the apps that are paused on a channel. Return whether they have changed."""
        if (channels, flows) == (self.paused, self.paused_flows):
            return False
        self.paused, self.paused_flows = channels, flows
        self.judge_all(now_ms)
        return True

    def stops(self, channel: str, app: str) -> bool:
        """Return whether a pause stops an app on a channel."""
        return channel in self.paused or (bool(self.paused_flows) and flow_name(channel, app) in self.paused_flows)

    def wake(self, now_ms: int) -> None:
        """Check the tasks that are due: those that start, and those whose lifetime ends."""
        while self._due and self._due[0][0] <= now_ms:
            due_ms, task = heappop(self._due)
            known = self._known.get(task)
            if known is not None and known.due_ms == due_ms:
                known.due_ms = 0
                self._judge(known, now_ms)

    @property
    def next_ms(self) -> int | None:
        """Return when `wake` next has something to do."""
        return self._due[0][0] if self._due else None

    # ------------------------------------------------------------- results
    @property
    def changed(self) -> bool:
        """Return whether the lanes, their descriptions or the edited messages may have changed since `choose`."""
        return self._changed or self.rotation.changed or self.rotation.more

    def choose(self, now_s: float, *, rotate: bool) -> None:
        """Choose the lanes, as Rotation.choose does; this resets `changed`."""
        self._changed = False
        self.rotation.choose(now_s, rotate=rotate)

    def attached(self) -> list[LaneInfo]:
        """Return the chosen lanes."""
        known = self._known
        return [known[name].info for name in self.rotation.chosen]

    def busy(self) -> list[str]:
        """Return the chosen lanes that have something to send."""
        return [name for name, lane in self.rotation.chosen.items() if lane.need <= LaneNeed.BUSY]

    def waiting(self) -> list[WaitingLane]:
        """Return the lanes that wait for their turn and of which this worker is the first holder."""
        tasks = (self._known[name].task for name in self.rotation.waiting())
        return [WaitingLane(task.lane, task.id, task.tier, task.pending) for task in tasks if task.pending]

    def holds(self, lane: str, tier: Tier, channel: str) -> bool:
        """Return whether this worker is a holder of a lane in which many tasks share a channel.

        A lane whose channel no worker has is held, too: some worker must remove the messages of tasks that have ended.
        """
        division = self._division(tier, channel)
        if not division.workers:
            division = self._divisions[str(tier)]
        return division.position(stable_hash(lane)) < self._holders[str(tier)]

    def judge_all(self, now_ms: int) -> None:
        """Decide again on every lane."""
        for known in self._known.values():
            self._judge(known, now_ms)

    # ------------------------------------------------------------- inside
    def _new(self, task: LiveTask, now_ms: int, *, is_reported: bool) -> _Known:
        known = _Known(task)
        known.position = self._position_at(known)
        if is_reported:
            known.fresh_until_ms = max(now_ms, task.start_ms) + self._settings.fresh_ms
            if 0 <= task.expected <= self._settings.late_targets:
                known.late_until_ms = max(now_ms, task.start_ms) + self._settings.late_ms
        return known

    def _position_at(self, known: _Known) -> int:
        """Return this worker's position at the lane.

        Positions are among the workers that have its channel and, if there are any such, can read the lane.
        """
        task = known.task
        division = self._division(task.tier, task.channel)
        left = self._left.get(task.lane, ())
        others = [worker for worker in division.workers if worker not in left] if left else ()
        return (Division(others, self._settings.me) if others else division).position(known.hash)

    def _division(self, tier: str, channel: str) -> Division:
        """Return the division of lanes of this tier and channel."""
        division = self._by_channel.get((tier, channel))
        if division is None:
            able = [peer.id for peer in self._peers if peer.may_serve(tier, channel)]
            division = self._by_channel[tier, channel] = Division(able, self._settings.me)
        return division

    def _renew(self, known: _Known, task: LiveTask, *, is_reported: bool) -> None:
        """Update a known task. A lane that the feed reports gets a new description object, which unparks it."""
        before, known.task = known.task, task
        self.rotation.served(task.id, task.finals - before.finals)
        if task.tier != before.tier:
            known.position = self._position_at(known)
        if is_reported or (task.tier, task.weight, task.lane) != (before.tier, before.weight, before.lane):
            self._describe(known, nearly_empty=known.info.nearly_empty)

    def _describe(self, known: _Known, *, nearly_empty: bool) -> None:
        known.info = lane_of(known.task, nearly_empty=nearly_empty)
        self._changed = True

    def _note_override(self, task: LiveTask) -> None:
        message = edited_message(task.override) if task.override else None
        if message is not None and message != self.overrides.get(task.id):
            self.overrides[task.id] = message
            self._changed = True

    def _judge(self, known: _Known, now_ms: int) -> None:
        task = known.task
        is_open = not task.shared and not self.stops(task.channel, task.app) and dispatching(task, now_ms)
        self._open += is_open - known.open
        known.open = is_open
        need = self._need(known, now_ms) if is_open and task.tier in self._settings.tiers else None
        if need is None:
            self.rotation.drop(task.id)
        else:
            self._weigh(known, fresh=need <= LaneNeed.BUSY)
            self.rotation.put(task.id, need, Tier(task.tier), task.weight, task.chunk)
        self._schedule_recheck(known, now_ms)

    def _need(self, known: _Known, now_ms: int) -> LaneNeed | None:
        pending = known.task.pending
        known.holders = max(known.holders, holders_for(pending, self._settings.division))
        if known.position >= max(self._holders[known.task.tier], known.holders) or (
            known.position > 0 and known.late_until_ms > now_ms
        ):
            return None
        busy = pending > 0 or (known.fresh_until_ms > now_ms and not known.task.sealed)
        if known.position == 0:
            return LaneNeed.BUSY_FIRST if busy else LaneNeed.IDLE_FIRST
        return LaneNeed.BUSY if busy else LaneNeed.IDLE

    def _weigh(self, known: _Known, *, fresh: bool) -> None:
        """Decide whether a lane counts as light or heavy.

        A lane that turned out to hold many targets stays heavy: replacing its queue costs more than it saves. A lane
        that expected many targets, but received none, must not keep its part of the budget from the others.
        """
        task = known.task
        coming = 0 if task.sealed or not fresh else task.expected
        much = max(task.pending, coming) > self._settings.light_targets or coming < 0
        nothing = not (fresh or task.published)
        if (much and known.info.nearly_empty) or (nothing and not known.info.nearly_empty):
            self._describe(known, nearly_empty=not much)

    def _schedule_recheck(self, known: _Known, now_ms: int) -> None:
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
    """Return whether time and controls allow envelopes of the task to be sent now."""
    has_expired = 0 < task.expires_ms <= now_ms
    return not task.on_hold and task.start_ms <= now_ms and not has_expired


def lane_of(task: LiveTask, *, nearly_empty: bool) -> LaneInfo:
    """Return the description of the task's own lane."""
    return LaneInfo(
        name=task.lane,
        kind=LaneKind.OWN,
        tier=task.tier,
        weight=max(1, task.weight),
        chunk=task.chunk,
        task=task.id,
        channel=task.channel,
        nearly_empty=nearly_empty,
        partitions=task.partitions,
    )
