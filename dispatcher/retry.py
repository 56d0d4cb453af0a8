"""The next step after a verdict: an outcome, or another attempt and its delay."""

from typing import NamedTuple

from dispatcher.wire.outcome import OPEN_NAMES, RETRY, Outcome, Verdict
from dispatcher.wire.topics import RETRY_STEPS_S, retry_step_s


class NextStep(NamedTuple):
    """The next step for a target."""

    code: int
    """An Outcome value or RETRY."""
    reason: str = ""
    delay_s: int = 0
    """Delay of the next attempt; 0 if there is none."""


def delay_after(attempt: int, retry_after_s: float | None = None) -> int:
    """Return the delay step after `attempt` (from 0) failed: the provider's Retry-After rounded up to a step, or else
    the step for this number of attempts."""
    if retry_after_s is not None:
        return retry_step_s(retry_after_s)
    return RETRY_STEPS_S[min(attempt, len(RETRY_STEPS_S) - 1)]


def next_step(attempt: int, max_attempts: int, verdict: Verdict) -> NextStep:
    """Return the next step after a verdict on attempt `attempt` (from 0) of at most `max_attempts`.

    RETRY, UNKNOWN and UNSENT lead to another attempt. So does an undefined code: a custom channel may be wrong, and an
    outcome is stored for good.
    """
    if verdict.code in _OUTCOMES:
        return NextStep(verdict.code, verdict.reason)
    reason = verdict.reason
    if verdict.code not in OPEN_NAMES:
        reason = f"the channel answered with the undefined code {verdict.code}"
    if attempt + 1 < max_attempts:
        return NextStep(RETRY, reason, delay_after(attempt, verdict.retry_after_s))
    made = "1 attempt" if attempt == 0 else f"{attempt + 1} attempts"
    return NextStep(int(Outcome.FAILED), f"gave up after {made}; the last: {reason or 'no reason given'}")


_OUTCOMES = frozenset(int(outcome) for outcome in Outcome)
