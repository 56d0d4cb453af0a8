"""Trouble of a flow: why it must pause and for how long. Trouble of a message: whether its task must stop.

A flow is what has limits of its own in a channel: the credential of one app.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from dispatcher.channels.verdict_table import Effect
from dispatcher.model.flow_pause import PauseKind, flow_name
from dispatcher.wire.outcome import UNSENT, Verdict

MAX_PAUSE_S = 86_400.0
"""After this time targets of a paused flow are tried again."""
KEPT_S = 2.0
"""A worker keeps envelopes of a flow that opens within this time. Others make a round, in which nothing is sent."""
LONGEST_DOWN_S = 300.0
"""The longest pause of a flow whose provider does not work, unless the provider asks for more."""
RECHECKED_AFTER_S = 60.0
"""How long a flow pauses if neither the provider nor the verdict table names a time."""
KINDS = {
    Effect.CREDENTIALS: PauseKind.CREDENTIALS,
    Effect.LIMIT: PauseKind.LIMIT,
    Effect.DOWN: PauseKind.DOWN,
}
"""Effects of answers that are trouble of the whole flow."""
FIRST_ANSWERS = 100
"""The number of answers, without a single success, that condemn a message."""
MAX_TASKS = 1_000
"""Tasks of which answers are counted. One that is forgotten is counted again, and stopped only if nobody got it."""
_ACQUITTED = -1


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


class Breaker:
    """The flows that are paused or probed because their provider did not work.

    Each is probed after a pause, and paused for twice as long if that fails.
    """

    def __init__(self) -> None:
        self._paused_s: dict[str, float] = {}
        """The length of the last pause, by flow."""

    def pause_s(self, flow: str, asked_s: float) -> float:
        """Record that the flow's provider does not work. Return for how long to pause: what the provider asks for, or
        twice the last time."""
        last_s = self._paused_s.get(flow)
        paused_s = asked_s if last_s is None else max(asked_s, min(2 * last_s, LONGEST_DOWN_S))
        self._paused_s[flow] = paused_s
        return paused_s

    def note(self, flow: str, paused_s: float) -> None:
        """Note a pause that another worker made."""
        self._paused_s[flow] = max(paused_s, self._paused_s.get(flow, 0.0))

    def is_probed(self, flow: str) -> bool:
        """Return whether the provider has not answered since. Ask only while the flow is not paused."""
        return flow in self._paused_s

    def works(self, flow: str) -> None:
        """Record that the provider answers."""
        self._paused_s.pop(flow, None)


class MessageRefusal(NamedTuple):
    """The first answers to a task all refuse its message."""

    task: str
    reason: str
    """The provider's."""


MessageRefused = Callable[[MessageRefusal], None]
"""Called once for a task. Must not block."""


class PayloadGuard:
    """Counts the first answers to each task that this worker sends."""

    def __init__(self) -> None:
        self._refusals: OrderedDict[str, int] = OrderedDict()

    def answered(self, task: str, effect: Effect) -> bool:
        """Note an answer by its effect. Return whether it completes FIRST_ANSWERS that all refuse the message.

        Trouble of the flow says nothing about the message. Any other answer acquits it.
        """
        count = self._refusals.get(task, 0)
        if count == _ACQUITTED or effect in KINDS:
            return False
        count = count + 1 if effect is Effect.PAYLOAD else _ACQUITTED
        self._refusals[task] = count
        if len(self._refusals) > MAX_TASKS:
            self._refusals.popitem(last=False)
        return count == FIRST_ANSWERS
