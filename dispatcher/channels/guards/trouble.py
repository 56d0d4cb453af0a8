"""Trouble of a flow: why it must pause and for how long.

A flow is what has limits of its own in a channel: the credential of one app.
"""

import msgspec

from dispatcher.channels.verdict_table import Effect
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


KINDS = {
    Effect.CREDENTIALS: PauseKind.CREDENTIALS,
    Effect.LIMIT: PauseKind.LIMIT,
    Effect.DOWN: PauseKind.DOWN,
}
"""Effects of answers that are trouble of the whole flow."""
