"""The next step of a target after a verdict: an outcome, or another round, and when it is due in it."""

from math import ceil
from typing import NamedTuple
from zlib import crc32

from dispatcher.model.values import duration
from dispatcher.wire.envelope import ATTEMPT_LIMIT, Envelope
from dispatcher.wire.outcome import OPEN_NAMES, RETRY, UNKNOWN, UNSENT, Outcome, Verdict
from dispatcher.wire.topics import RETRY_STEPS_S

MAX_WAIT_S = 30 * 86_400
"""Longest wait that a provider may ask for, jitter included; tasks live for 37 days at most."""
JITTER = 0.25
"""Delays are longer by up to this part, so that what failed together is not tried again at once."""
LONGEST_UNSENT = 3
"""Index of the longest delay of targets that were not sent, unless the channel names one. With 120 s, the bound of
rounds (ATTEMPT_LIMIT) is reached after five days."""
UNKNOWN_REASON = "unknown"
"""Beginning of the reason of a target that is given up because the provider may have taken it."""
_FAILED = int(Outcome.FAILED)
_OUTCOMES = frozenset(int(outcome) for outcome in Outcome)


class Backoff(NamedTuple):
    """The first wait, doubled each time up to the longest."""

    first_s: float
    longest_s: float

    def after(self, wait_s: float) -> float:
        """Return the wait in seconds after a wait of `wait_s`; pass 0 for the first."""
        return min(self.longest_s, max(self.first_s, 2 * wait_s))

    def nth(self, index: int) -> float:
        """Return the wait in seconds with this index, counted from 0."""
        return min(self.longest_s, self.first_s * 2.0 ** min(index, 30))


class TargetState(NamedTuple):
    """An open target before a round."""

    tries: int = 0
    """Calls that may have reached the provider."""
    due_ms: int = 0
    """Wall time before which it must not be sent."""
    first_ms: int = 0
    """Wall time of its first call; 0: none."""
    is_lost: bool = False
    """Whether its last try was under a claim that ended without a record."""
    waits_for_flow: bool = False
    """Whether it waits for the end of a pause of its flow."""
    paused_ms: int = 0
    """Time since its first call in which it could not be sent because of a pause."""


class NextStep(NamedTuple):
    """The next step for a target."""

    code: int
    """An Outcome value, RETRY, UNKNOWN or UNSENT."""
    reason: str = ""
    state: TargetState = TargetState()
    """Its state after the verdict."""
    died_ms: int = 0
    """As in Verdict."""
    provider_id: str = ""
    """As in Verdict."""
    put_back: bool = False
    """Whether the provider was not asked: a pause, a cap, or no connection."""


def next_step(envelope: Envelope, state: TargetState, verdict: Verdict, at_ms: int) -> NextStep:
    """Return the next step of a target of this envelope, after a verdict that came at `at_ms`.

    RETRY and UNKNOWN cost a try, UNSENT none. An undefined code counts as RETRY: a custom channel may be wrong, and an
    outcome is stored for good. The age of a target ends its tries after a try, so that it is tried whenever it is due.
    """
    unsent = verdict.code == UNSENT
    after = TargetState(state.tries + (not unsent), 0, state.first_ms if unsent else state.first_ms or at_ms)
    after = after._replace(waits_for_flow=verdict.paused and verdict.code in (UNSENT, UNKNOWN))
    if verdict.code in _OUTCOMES:
        return NextStep(verdict.code, verdict.reason, after, verdict.died_ms, verdict.provider_id)
    reason, code = verdict.reason, verdict.code
    if code not in OPEN_NAMES:
        reason, code = f"the channel answered with the undefined code {verdict.code}", RETRY
    if code == UNKNOWN and envelope.gives_up_unknown:
        return NextStep(_FAILED, _unknown(reason), after)
    if after.tries >= envelope.max_attempts or envelope.attempt + 1 >= ATTEMPT_LIMIT:
        text = f"gave up after {_attempts(envelope, after.tries)}; the last: {reason or 'no reason given'}"
        return NextStep(_FAILED, text, after)
    if _is_too_old(envelope, after.first_ms + state.paused_ms, at_ms):
        limit = duration(envelope.retry_for_ms / 1000)
        return NextStep(
            _FAILED, f"gave up {limit} after the first attempt; the last: {reason or 'no reason given'}", after
        )
    due_ms = at_ms + delay_ms(envelope, _delay_step(envelope, state, code, verdict), verdict.retry_after_s)
    if envelope.expires_ms:
        due_ms = min(due_ms, max(at_ms, envelope.expires_ms + 1))
    return NextStep(code, reason, after._replace(due_ms=due_ms), put_back=unsent and not verdict.refused)


def _is_too_old(envelope: Envelope, since_ms: int, at_ms: int) -> bool:
    """Return whether a target has been tried for as long as its task allows. since_ms: its first call, later by its
    pauses; 0 if it has not been called."""
    return 0 < since_ms <= at_ms - envelope.retry_for_ms if envelope.retry_for_ms else False


def _delay_step(envelope: Envelope, state: TargetState, code: int, verdict: Verdict) -> int:
    """Return how often the delay has grown. Where nothing was sent, and the channel knows when it may be, it does not:
    a target that its cap has turned away three times would otherwise wait for two minutes."""
    if code != UNSENT:
        return state.tries
    return 0 if verdict.retry_after_s is not None else min(envelope.attempt, LONGEST_UNSENT)


def step_without_call(envelope: Envelope, state: TargetState) -> NextStep | None:
    """Return the next step of a target that is due, and must not be sent again; None if it may be sent.

    It has no try left, or must not be tried once it is unknown whether the provider took it.
    """
    if state.is_lost and (envelope.gives_up_unknown or state.tries >= envelope.max_attempts):
        return NextStep(_FAILED, _unknown("its worker ended or stalled before it recorded an outcome"), state)
    if state.tries >= envelope.max_attempts:
        return NextStep(_FAILED, f"gave up after {_attempts(envelope, state.tries)}", state)
    return None


def step_of_waiting(envelope: Envelope, state: TargetState) -> NextStep:
    """Return the next step of a target that is not due in this round."""
    if envelope.attempt + 1 >= ATTEMPT_LIMIT:
        return NextStep(_FAILED, f"gave up after {ATTEMPT_LIMIT} rounds", state)
    return NextStep(UNSENT, "", state)


def delay_ms(envelope: Envelope, step: int, retry_after_s: float | None = None) -> int:
    """Return the delay after a round of this envelope: the step's, or the provider's Retry-After if that is longer.

    Up to a quarter is added, the same for all targets of the envelope with this delay.
    """
    delay_s = float(RETRY_STEPS_S[min(step, len(RETRY_STEPS_S) - 1)])
    if retry_after_s is not None:
        delay_s = max(delay_s, min(retry_after_s, MAX_WAIT_S))
    name = f"{envelope.task}/{envelope.writer}/{envelope.sequence}/{envelope.attempt}/{delay_s}"
    return ceil(1000 * min(delay_s * (1 + JITTER * crc32(name.encode()) / (1 << 32)), MAX_WAIT_S))


def _unknown(reason: str) -> str:
    return f"{UNKNOWN_REASON}: {reason}" if reason else UNKNOWN_REASON


def _attempts(envelope: Envelope, tries: int) -> str:
    if tries < envelope.max_attempts:
        return f"{ATTEMPT_LIMIT} rounds"
    return "1 attempt" if tries == 1 else f"{tries} attempts"
