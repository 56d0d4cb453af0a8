"""The gate of a worker's flows: pauses that any worker or an operator made, and what this worker has just met. Where a
flow has a cap, its requests wait at a door.
"""

import asyncio
import math
import queue
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from dispatcher.channels.guards.door import Door, Doors, Load
from dispatcher.channels.guards.storm_guard import StormGuard
from dispatcher.channels.guards.trouble import RECHECKED_AFTER_S, Breaker, Trouble
from dispatcher.channels.verdict_table import Effect, Row
from dispatcher.clock import Clock
from dispatcher.model.flow_pause import FlowPause, PauseKind, flow_parts
from dispatcher.wire.lease import Pace

PATIENCE_S = 1.0
"""How long requests wait beyond what is granted, such as those that a stall has left behind."""
LONGEST_WAIT_S = 0.05
SHORTEST_WAIT_S = 0.0005
"""Bounds of the time between two looks at the door."""
ENDS_AGAIN_S = 60.0
"""How long this worker does not end another pause of a flow for its new credential: another worker may lack it."""
LIMITED_S = 2.0
"""How long a flow that sends too fast is closed here, until the fleet has halved its rate or paused it."""
BLAMED = (PauseKind.CREDENTIALS, PauseKind.SUSPECT)
"""Kinds of pauses that new credentials end."""


class _Waiting(NamedTuple):
    """A request that waits at the door."""

    future: "asyncio.Future[bool]"
    since_s: float
    until_s: float


class WaitingRequests:
    """The requests of one flow that wait, first come, first served. One timer serves all of them."""

    def __init__(self, wait_s: Callable[[float], float], left: Callable[[float], float], clock: Clock) -> None:
        """`wait_s`: called with the monotonic time; returns how long the next request must wait, 0 if it leaves now.
        `left`: called with that time; returns how many may leave under the grants so far."""
        self._wait_s = wait_s
        self._left = left
        self._clock = clock
        self._queue: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self, until_s: float) -> bool:
        """Wait until the request may leave, at most until a monotonic time. Return whether it may."""
        now_s = self._clock.monotonic_s()
        if not self._queue and self._wait_s(now_s) <= 0.0:
            return True
        loop = asyncio.get_running_loop()
        waiting = _Waiting(loop.create_future(), now_s, until_s)
        self._queue.append(waiting)
        if self._timer is None:
            self._timer = loop.call_later(SHORTEST_WAIT_S, self._serve, loop)
        return await waiting.future

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let requests leave, and send away those that have waited too long."""
        self._timer = None
        queue, now_s = self._queue, self._clock.monotonic_s()
        while queue:
            first = queue[0]
            if first.future.done():  # its call was cancelled
                queue.popleft()
            elif now_s >= first.until_s or self._is_left_behind(first, now_s):
                queue.popleft().future.set_result(False)
            elif (wait_s := self._wait_s(now_s)) <= 0.0:
                queue.popleft().future.set_result(True)
            else:
                bounded_s = min(max(wait_s, SHORTEST_WAIT_S), LONGEST_WAIT_S)
                self._timer = loop.call_later(bounded_s, self._serve, loop)
                return

    def _is_left_behind(self, first: _Waiting, now_s: float) -> bool:
        """Return whether the first has waited long, and less is granted than waits."""
        return now_s >= first.since_s + PATIENCE_S and len(self._queue) > self._left(now_s) + 0.5


class Renewed(NamedTuple):
    """A flow has new credentials, so its pause ends."""

    flow: str
    credential: str
    """Their version."""


class _Closed(NamedTuple):
    """Why a flow is closed."""

    until_s: float
    """Monotonic; inf for no end."""
    trouble: Trouble
    since_s: float
    """Monotonic."""


class FleetGate:
    """Decides which flows may send. Its `outbox` has what is to be stored for all workers.

    A flow that this worker reports is closed at once, before other workers know of it. As soon as the view has a newer
    entry of the flow, that one counts. There may be none: a graver pause, or an operator's word, that came just before
    is kept. So what is closed here alone has an end. `update` is called by another thread.
    """

    def __init__(self, clock: Clock) -> None:
        self.outbox: queue.Queue[Trouble | Renewed] = queue.Queue()
        self._clock = clock
        self._fleet: Mapping[str, _Closed] = {}
        self._ended_at_s: Mapping[str, float] = {}
        """When the last pause of a flow was ended by somebody; of those that ran out there is none."""
        self._met_s: dict[str, float] = {}
        """When this worker last met trouble of a flow: no earlier end of a pause is that of its pause."""
        self._confirmed: frozenset[str] = frozenset()
        """Flows whose dead targets are dead, as an operator says."""
        self._local: dict[str, _Closed] = {}
        self._lock = threading.Lock()
        self._doors = Doors()
        self._keepers: dict[str, WaitingRequests] = {}
        self._breaker = Breaker()
        self._guards: defaultdict[str, StormGuard] = defaultdict(StormGuard)
        self._credentials: dict[str, str] = {}
        """Version in use, by flow."""
        self._ended_s: dict[str, float] = {}
        """When this worker last ended a flow's pause."""

    # ------------------------------------------------------------- event loop
    def closed(self, flow: str) -> Trouble | None:
        """Return why the flow must not send now, with the seconds that are left; None if it may. Asked before each
        request.

        A pause without an end counts as one that is checked again soon.
        """
        if not self.any_closed():
            return None
        now_s = self._clock.monotonic_s()
        for known in (self._fleet, self._local):  # one in the first may have ended, which `update` has not noticed
            closed = known.get(flow)
            if closed is not None and closed.until_s > now_s:
                is_endless = not math.isfinite(closed.until_s)
                left_s = RECHECKED_AFTER_S if is_endless else closed.until_s - now_s
                return msgspec.structs.replace(closed.trouble, for_s=left_s, is_endless=is_endless)
        self._local.pop(flow, None)  # `update` may have been quicker
        return None

    def any_closed(self) -> bool:
        """Return whether any flow may be closed; if not, no flow need be asked about."""
        return bool(self._fleet or self._local)

    def report(self, trouble: Trouble) -> None:
        """Note what a channel reports, often many times for one cause. The first report of a trouble is passed on."""
        now_s, here_s = self._clock.monotonic_s(), trouble.for_s
        self._met_s[trouble.flow] = now_s
        if self.closed(trouble.flow) is not None:
            return
        if trouble.kind is PauseKind.DOWN:
            here_s = self._breaker.pause_s(trouble.flow, trouble.for_s)
            trouble = msgspec.structs.replace(trouble, for_s=here_s)
        elif trouble.kind is PauseKind.LIMIT:
            here_s = min(here_s, LIMITED_S)
        elif trouble.kind is PauseKind.SUSPECT:
            here_s = min(here_s, RECHECKED_AFTER_S)
        self._local[trouble.flow] = _Closed(now_s + here_s, trouble, now_s)
        self.outbox.put(trouble)

    def probing(self, flow: str) -> bool:
        """Return whether the provider of a flow did not work and has not answered since: then a channel sends one
        request, and others after its answer."""
        return self._breaker.is_probed(flow) and self.closed(flow) is None

    def answered(self, flow: str, row: Row) -> bool:
        """Note an answer of the provider by its row of the verdict table. Pause the flow if more targets are dead
        than is likely.

        Return whether its verdict may be recorded: False for a dead target while the flow is suspected.
        """
        if row.effect is not Effect.DOWN:
            self._breaker.works(flow)
        if row.effect is not Effect.SENT and not row.guarded:
            return True
        now_s, guard = self._clock.monotonic_s(), self._guards[flow]
        if not row.guarded:
            guard.sent(now_s)
            return True
        if flow in self._confirmed:
            return True
        closed = self.closed(flow)
        if closed is not None and closed.kind is PauseKind.SUSPECT:
            return False
        if not guard.dead(now_s):
            return True
        self.report(self._suspicion(flow, guard))
        return False

    def any_paced(self) -> bool:
        """Return whether any flow may have a cap; if not, no flow need be asked about."""
        return self._doors.any_paced

    def is_paced(self, flow: str) -> bool:
        """Return whether the flow has a cap. Then each of its requests must `enter`."""
        with self._lock:
            return self._doors.is_paced(flow, self._clock.monotonic_s())

    def doors(self) -> Mapping[str, Door]:
        """Return the doors by pool, for metrics. May be called from any thread."""
        with self._lock:
            return dict(self._doors.by_pool)

    async def enter(self, flow: str, until_s: float) -> bool:
        """Wait until the cap lets a request of the flow leave, at most until a monotonic time. Return whether it may
        leave, now."""
        keeper = self._keepers.get(flow)
        if keeper is None:
            keeper = self._keepers[flow] = WaitingRequests(
                partial(self._wait_s, flow), partial(self._left, flow), self._clock
            )
        return await keeper.enter(until_s)

    def wait_s(self, flow: str, load: Load) -> float:
        """Return the seconds until the cap lets requests of the flow leave; 0: they leave now. inf: nothing is
        granted. For channels that do not `enter` with each request."""
        with self._lock:
            return self._doors.wait_s(flow, self._clock.monotonic_s(), load)

    def stalled(self, flow: str, load: Load) -> None:
        """Record that this much has left while the provider was stopped. It reaches the provider now."""
        with self._lock:
            self._doors.stalled(flow, load)

    def _wait_s(self, flow: str, now_s: float) -> float:
        with self._lock:
            return self._doors.wait_s(flow, now_s)

    def _left(self, flow: str, now_s: float) -> float:
        with self._lock:
            return self._doors.left(flow, now_s)

    def renewed(self, flow: str, credential: str) -> None:
        """Record that the flow uses this version of its credential from now on."""
        if self._credentials.get(flow) == credential:
            return
        self._credentials[flow] = credential
        self._guards.pop(flow, None)
        local, fleet = self._local.get(flow), self._fleet.get(flow)
        if local is not None and local.trouble.kind in BLAMED:
            self._local.pop(flow, None)
        if fleet is not None:
            self._end_if_renewed(flow, fleet.trouble)

    # ------------------------------------------------------------- the engine's thread
    def allot(self, paces: Sequence[Pace], flows: Collection[str], carried_out_s: float) -> None:
        """Add grants that the ledger made in one call at this monotonic time.

        flows: all to which it granted something.
        """
        if paces or self.any_paced():
            with self._lock:
                self._doors.allot(paces, flows, carried_out_s)

    def is_reopened(self, flow: str) -> bool:
        """Return whether the flow's last pause was ended before its time, by hand or by new credentials."""
        ended_s = self._ended_at_s.get(flow)
        return ended_s is not None and ended_s >= self._met_s.get(flow, -math.inf) and flow not in self._local

    # ------------------------------------------------------------- the watcher's thread
    def update(self, entries: Mapping[str, FlowPause], now_ms: int) -> None:
        """Replace what is known of other workers and operators. now_ms: Redis' time, by which the entries end."""
        now_s = self._clock.monotonic_s()
        entered_s = {flow: now_s - (now_ms - entry.since_ms) / 1000 for flow, entry in entries.items()}
        before = self._fleet
        self._fleet = {
            flow: _closed_by(flow, entry, entered_s[flow], now_s + (entry.until_ms - now_ms) / 1000)
            for flow, entry in entries.items()
            if entry.is_open(now_ms)
        }
        for flow in self._fleet.keys() - before.keys():
            if self._fleet[flow].trouble.kind is PauseKind.DOWN:
                self._breaker.note(flow, self._fleet[flow].until_s - now_s)
        self._ended_at_s = {flow: entered_s[flow] for flow, entry in entries.items() if not entry.kind.stops}
        self._confirmed = frozenset(flow for flow, entry in entries.items() if entry.confirms(now_ms))
        for flow, local in list(self._local.items()):
            entry = entries.get(flow)
            if entry is not None and entered_s[flow] >= local.since_s and self._counts_here(flow, entry):
                self._local.pop(flow, None)
                self._guards.pop(flow, None)
        for flow, closed in self._fleet.items():
            self._end_if_renewed(flow, closed.trouble)

    def _counts_here(self, flow: str, entry: FlowPause) -> bool:
        """Return whether an entry replaces what this worker has met. That others have new credentials does not help a
        worker that still has the old ones."""
        credential = self._credentials.get(flow)
        return entry.kind.stops or not entry.credential or credential in (None, entry.credential)

    # ------------------------------------------------------------- inside
    def _suspicion(self, flow: str, guard: StormGuard) -> Trouble:
        channel, app = flow_parts(flow)
        return Trouble(
            channel=channel,
            app=app,
            kind=PauseKind.SUSPECT,
            for_s=math.inf,
            reason=(
                f"suspected wrong environment: {guard.text()}. Correct the credentials or the environment; if the "
                f"targets are dead indeed: fairlane channel resume {channel} --app {app} --confirm-dead"
            ),
            credential=self._credentials.get(flow, ""),
        )

    def _end_if_renewed(self, flow: str, trouble: Trouble) -> None:
        """Ask for the end of a pause that is due to another version of the credential than the present one."""
        credential, now_s = self._credentials.get(flow), self._clock.monotonic_s()
        is_blamed = trouble.kind in BLAMED and credential not in (None, "", trouble.credential)
        if is_blamed and trouble.credential and now_s >= self._ended_s.get(flow, -math.inf) + ENDS_AGAIN_S:
            self._ended_s[flow] = now_s
            self.outbox.put(Renewed(flow, credential or ""))


def _closed_by(flow: str, entry: FlowPause, since_s: float, until_s: float) -> _Closed:
    channel, app = flow_parts(flow)
    trouble = Trouble(
        channel=channel,
        app=app,
        kind=entry.kind,
        for_s=0.0,
        reason=entry.reason,
        credential=entry.credential,
    )
    return _Closed(until_s if entry.until_ms else math.inf, trouble, since_s)
