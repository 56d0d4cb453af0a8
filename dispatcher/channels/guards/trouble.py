"""Trouble of a flow: why it must pause and for how long, and the port through which channels report it and ask.

A flow is what has limits of its own in a channel: the credential of one app.
"""

import math
from enum import StrEnum
from typing import Protocol

import msgspec

from dispatcher.channels.guards.door import Load
from dispatcher.channels.verdict_table import Effect, Row
from dispatcher.clock import Clock
from dispatcher.model.flow_pause import flow_name
from dispatcher.wire.outcome import UNSENT, Verdict

MAX_PAUSE_S = 86_400.0
"""After this time targets of a paused flow are tried again."""
KEPT_S = 2.0
"""A worker keeps envelopes of a flow that opens within this time. Others make a round, in which nothing is sent."""
RECHECKED_AFTER_S = 60.0
"""How long a flow pauses if neither the provider nor the verdict table names a time."""


class TroubleKind(StrEnum):
    """Reasons for which a flow pauses."""

    CREDENTIALS = "credentials"
    """The provider does not accept our credentials or settings, or they cannot be read. New ones end the pause."""
    LIMIT = "limit"
    """The flow sends too fast, as the provider says."""
    DOWN = "down"
    """The provider does not work, or cannot be reached."""
    HAND = "hand"
    """An operator paused it. No channel reports this."""
    SUSPECT = "suspect"
    """Too many targets are dead: a wrong environment or credential is the likely cause."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A reason why a flow must not send for a while."""

    channel: str
    app: str
    kind: TroubleKind
    for_s: float
    """From now. The gate may close the flow for longer or shorter, since it knows what others have reported."""
    reason: str
    """Cause and next step, for people. Never holds a credential."""
    credential: str = ""
    """Version of the credential in use; empty if there is none."""
    is_endless: bool = False
    """Whether it is a pause that somebody must end; `for_s` says when to look again."""

    @property
    def put_off(self) -> Verdict:
        """The verdict on a target that waits for the flow to open. It comes back as soon as somebody ends the pause."""
        wait_s = MAX_PAUSE_S if self.is_endless else min(self.for_s, MAX_PAUSE_S)
        return Verdict(UNSENT, f"{self.kind}: {self.reason}", wait_s, paused=True)

    @property
    def flow(self) -> str:
        return flow_name(self.channel, self.app)


class FlowGate(Protocol):
    """Decides which flows may send. All methods are called in the channels' event loop and never block."""

    def closed(self, flow: str) -> Trouble | None:
        """Return why the flow must not send now, with the seconds that are left; None if it may. Asked before each
        request."""
        ...

    def any_closed(self) -> bool:
        """Return whether any flow may be closed; if not, no flow need be asked about."""
        ...

    def report(self, trouble: Trouble) -> None:
        """Note what a channel has met. Called for each answer that shows it, so often many times for one cause."""
        ...

    def answered(self, flow: str, row: Row) -> bool:
        """Note an answer of the provider by its row of the verdict table.

        Return whether its verdict may be recorded: False for a dead target while the flow is suspected.
        """
        ...

    def probing(self, flow: str) -> bool:
        """Return whether the provider of a flow did not work and has not answered since: then a channel sends one
        request, and others after its answer."""
        ...

    def any_paced(self) -> bool:
        """Return whether any flow may have a cap; if not, no flow need be asked about."""
        ...

    def is_paced(self, flow: str) -> bool:
        """Return whether the flow has a cap. Then each of its requests must `enter`."""
        ...

    async def enter(self, flow: str, until_s: float) -> bool:
        """Wait until the cap lets a request of the flow leave, at most until a monotonic time. Return whether it may
        leave, now."""
        ...

    def wait_s(self, flow: str, load: Load) -> float:
        """Return the seconds until the cap lets requests of the flow leave; 0: they leave now. inf: nothing is
        granted. For channels that do not `enter` with each request."""
        ...

    def stalled(self, flow: str, load: Load) -> None:
        """Note that this much has left while the provider was stopped. It reaches the provider now."""
        ...

    def renewed(self, flow: str, credential: str) -> None:
        """Note that the flow uses this version of its credential from now on."""
        ...


class LocalGate:
    """A FlowGate of one worker: a flow is closed for as long as the last trouble of its kind asks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._closed: dict[str, tuple[float, Trouble]] = {}
        """By flow: monotonic end and cause of the pause."""

    def closed(self, flow: str) -> Trouble | None:
        """See FlowGate.closed."""
        entry = self._closed.get(flow)
        if entry is None:
            return None
        until_s, trouble = entry
        left_s = until_s - self._clock.monotonic_s()
        if left_s > 0:
            return msgspec.structs.replace(trouble, for_s=left_s)
        del self._closed[flow]
        return None

    def any_closed(self) -> bool:
        """See FlowGate.any_closed."""
        return bool(self._closed)

    def report(self, trouble: Trouble) -> None:
        """See FlowGate.report. Of several troubles the one that lasts longest counts."""
        until_s = self._clock.monotonic_s() + (trouble.for_s if math.isfinite(trouble.for_s) else RECHECKED_AFTER_S)
        entry = self._closed.get(trouble.flow)
        if entry is None or until_s > entry[0]:
            self._closed[trouble.flow] = (until_s, trouble)

    def answered(self, _flow: str, _row: Row, /) -> bool:
        """See FlowGate.answered. One worker sees too little to suspect a flow."""
        return True

    def probing(self, _flow: str, /) -> bool:
        """See FlowGate.probing. A worker by itself only waits."""
        return False

    def any_paced(self) -> bool:
        """See FlowGate.any_paced."""
        return False

    def is_paced(self, _flow: str, /) -> bool:
        """See FlowGate.is_paced. A worker by itself knows no cap."""
        return False

    async def enter(self, _flow: str, _until_s: float, /) -> bool:
        """See FlowGate.enter."""
        return True

    def wait_s(self, _flow: str, _load: Load, /) -> float:
        """See FlowGate.wait_s."""
        return 0.0

    def stalled(self, _flow: str, _load: Load, /) -> None:
        """See FlowGate.stalled."""

    def renewed(self, flow: str, credential: str) -> None:
        """See FlowGate.renewed. Ends a pause for which another version was to blame."""
        entry = self._closed.get(flow)
        if entry is not None and entry[1].kind is TroubleKind.CREDENTIALS and entry[1].credential != credential:
            del self._closed[flow]


KINDS = {
    Effect.CREDENTIALS: TroubleKind.CREDENTIALS,
    Effect.LIMIT: TroubleKind.LIMIT,
    Effect.DOWN: TroubleKind.DOWN,
}
"""Effects of answers that are trouble of the whole flow."""
