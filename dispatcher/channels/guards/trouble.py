"""Trouble of a flow: why it must pause and for how long, and the port through which channels report it and ask.

A flow is what has limits of its own in a channel: the credential of one app.
"""

import math
from typing import Protocol

import msgspec

from dispatcher.channels.guards.door import Load
from dispatcher.channels.verdict_table import Effect, Row
from dispatcher.clock import Clock
from dispatcher.model.flow_pause import PauseKind, flow_name
from dispatcher.wire.outcome import UNSENT, Verdict

MAX_PAUSE_S = 86_400.0
"""After this time targets of a paused flow are tried again."""
KEPT_S = 2.0
"""A worker keeps envelopes of a flow that opens within this time. Others make a round, in which nothing is sent."""
RECHECKED_AFTER_S = 60.0
"""How long a flow pauses if neither the provider nor the verdict table names a time."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A reason why a flow must not send for a while."""

    channel: str
    app: str
    kind: PauseKind
    """One that stops the flow. No channel reports HAND."""
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
    """Decides which flows may send. All methods are called in the channels' event loop and never block.

    Those with a body say what holds for a worker by itself, which knows no cap and sees too little to suspect a flow.
    """

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

    def renewed(self, flow: str, credential: str) -> None:
        """Note that the flow uses this version of its credential from now on."""
        ...

    def answered(self, _flow: str, _row: Row, /) -> bool:
        """Note an answer of the provider by its row of the verdict table.

        Return whether its verdict may be recorded: False for a dead target while the flow is suspected.
        """
        return True

    def probing(self, _flow: str, /) -> bool:
        """Return whether the provider of a flow did not work and has not answered since: then a channel sends one
        request, and others after its answer."""
        return False

    def any_paced(self) -> bool:
        """Return whether any flow may have a cap; if not, no flow need be asked about."""
        return False

    def is_paced(self, _flow: str, /) -> bool:
        """Return whether the flow has a cap. Then each of its requests must `enter`."""
        return False

    async def enter(self, _flow: str, _until_s: float, /) -> bool:
        """Wait until the cap lets a request of the flow leave, at most until a monotonic time. Return whether it may
        leave, now."""
        return True

    def wait_s(self, _flow: str, _load: Load, /) -> float:
        """Return the seconds until the cap lets requests of the flow leave; 0: they leave now. inf: nothing is
        granted. For channels that do not `enter` with each request."""
        return 0.0

    def stalled(self, _flow: str, _load: Load, /) -> None:
        """Note that this much has left while the provider was stopped. It reaches the provider now."""
        return


class LocalGate(FlowGate):
    """A FlowGate of one worker: a flow is closed for as long as the last trouble of its kind asks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._closed: dict[str, tuple[float, Trouble]] = {}
        """By flow: monotonic end and cause of the pause."""

    def closed(self, flow: str) -> Trouble | None:
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
        return bool(self._closed)

    def report(self, trouble: Trouble) -> None:
        """See FlowGate.report. Of several troubles the one that lasts longest counts."""
        until_s = self._clock.monotonic_s() + (trouble.for_s if math.isfinite(trouble.for_s) else RECHECKED_AFTER_S)
        entry = self._closed.get(trouble.flow)
        if entry is None or until_s > entry[0]:
            self._closed[trouble.flow] = (until_s, trouble)

    def renewed(self, flow: str, credential: str) -> None:
        """See FlowGate.renewed. Ends a pause for which another version was to blame."""
        entry = self._closed.get(flow)
        if entry is not None and entry[1].kind is PauseKind.CREDENTIALS and entry[1].credential != credential:
            del self._closed[flow]


KINDS = {
    Effect.CREDENTIALS: PauseKind.CREDENTIALS,
    Effect.LIMIT: PauseKind.LIMIT,
    Effect.DOWN: PauseKind.DOWN,
}
"""Effects of answers that are trouble of the whole flow."""
