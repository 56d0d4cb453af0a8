"""Turn the answers of a provider into verdicts on targets."""

from dispatcher.channels.guards.trouble import KINDS
from dispatcher.channels.verdict_table import Answer, Effect, Row, wait_of
from dispatcher.wire.outcome import RETRY, SENT, UNKNOWN, UNSENT, Outcome, Verdict

_CODES = {
    Effect.DEAD: int(Outcome.INVALID),
    Effect.WRONG: int(Outcome.FAILED),
    Effect.PAYLOAD: int(Outcome.FAILED),
    Effect.LATER: RETRY,
    Effect.LIMIT: UNSENT,
    Effect.CREDENTIALS: UNSENT,
    Effect.DOWN: UNSENT,
}
_OPEN = frozenset((RETRY, UNSENT, UNKNOWN))


def verdict_on(row: Row, answer: Answer, pause_s: float, *, is_paused: bool = False) -> Verdict:
    """Return the verdict. `pause_s`: how long trouble lasts for which neither row nor answer names a time.

    Trouble of the flow is no property of its targets. If the flow is paused (`is_paused`), they wait for the end of the
    pause, which obeys the provider's Retry-After. If it goes on, they wait as long as the row says.
    """
    if row.effect is Effect.SENT:
        return SENT
    code = UNKNOWN if row.may_be_taken else _CODES[row.effect]
    of_flow = row.effect in KINDS
    asked_s = row.wait_s if of_flow and not is_paused else wait_of(row, answer)
    wait_s = asked_s or (pause_s if code == UNSENT else 0.0)
    died_ms = answer.died_ms if row.effect is Effect.DEAD else 0
    wait = wait_s if code in _OPEN and wait_s else None
    paused = of_flow and is_paused
    return Verdict(code, reason_of(row, answer), wait, died_ms, paused=paused, refused=code == UNSENT)


def suspected(row: Row, answer: Answer, pause_s: float) -> Verdict:
    """Return the verdict on a target that the provider calls dead while that is doubted: the flow is paused."""
    reason = f"not counted, since the environment is suspected: {reason_of(row, answer)}"
    return Verdict(UNSENT, reason, pause_s, paused=True, refused=True)


def reason_of(row: Row, answer: Answer) -> str:
    """Return status and code, the meaning of the row, and the provider's own words if they add something."""
    named = f"{answer.status} {answer.code}".strip()
    has_words = bool(answer.reason) and answer.reason not in (answer.code, f"HTTP {answer.status}")
    words = f" ({answer.reason.rstrip('.')})" if has_words else ""
    return f"{named}: {row.note.rstrip('.')}{words}"
