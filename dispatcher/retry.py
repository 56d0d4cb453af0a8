"""The next step after a verdict: an outcome, or another attempt and its delay."""

from typing import NamedTuple

from dispatcher.wire.outcome import OPEN_NAMES, RETRY, UNSENT, Outcome, Verdict
from dispatcher.wire.topics import RETRY_STEPS_S, retry_step_s

MAX_SPARED = 256
"""Attempts after which an UNSENT one counts: 40 hours of waits at the longest delay."""


class NextStep(NamedTuple):
    """The next step for a target."""

    code: int
    """An Outcome value or RETRY."""
    reason: str = ""
    delay_s: int = 0
    """Delay of the next attempt; 0 if there is none."""
    is_spared: bool = False
    """Whether the attempt does not count towards the maximum: nothing was sent."""


def delay_after(attempt: int, retry_after_s: float | None = None) -> int:
    """Return the delay step after `attempt` (from 0) failed: the provider's Retry-After rounded up to a step, or else
    the step for this number of attempts."""
    if retry_after_s is not None:
        return retry_step_s(retry_after_s)
    return RETRY_STEPS_S[min(attempt, len(RETRY_STEPS_S) - 1)]


def next_step(attempt: int, max_attempts: int, verdict: Verdict) -> NextStep:
    """Return the next step after a verdict on attempt `attempt` (from 0) of at most `max_attempts`.

    RETRY, UNKNOWN and UNSENT lead to another attempt. So does an undefined code: a custom channel may be wrong, and an
    outcome is stored for good. An UNSENT attempt is spared, until MAX_SPARED.
    """
    if verdict.code in _OUTCOMES:
        return NextStep(verdict.code, verdict.reason)
    reason = verdict.reason
    if verdict.code not in OPEN_NAMES:
        reason = f"the channel answered with the undefined code {verdict.code}"
    is_spared = verdict.code == UNSENT and attempt < MAX_SPARED
    if is_spared or attempt + 1 < max_attempts:
        return NextStep(RETRY, reason, delay_after(attempt, verdict.retry_after_s), is_spared)
    made = "1 attempt" if attempt == 0 else f"{attempt + 1} attempts"
    return NextStep(int(Outcome.FAILED), f"gave up after {made}; the last: {reason or 'no reason given'}")


_OUTCOMES = frozenset(int(outcome) for outcome in Outcome)
