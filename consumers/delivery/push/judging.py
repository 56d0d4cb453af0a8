"""Turn the answers of a provider into verdicts on targets."""

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


def verdict_on(row: Row, answer: Answer, pause_s: float) -> Verdict:
    """Return the verdict. `pause_s`: how long trouble lasts for which neither row nor answer names a time."""
    if row.effect is Effect.SENT:
        return SENT
    code = UNKNOWN if row.may_be_taken else _CODES[row.effect]
    wait_s = wait_of(row, answer) or (pause_s if code == UNSENT else 0.0)
    died_ms = answer.died_ms if row.effect is Effect.DEAD else 0
    wait = wait_s if code in _OPEN and wait_s else None
    paused = row.effect is Effect.CREDENTIALS
    return Verdict(code, reason_of(row, answer), wait, died_ms, paused=paused, refused=code == UNSENT)


def suspected(row: Row, answer: Answer, pause_s: float) -> Verdict:
    """Return the verdict on a target that the provider calls dead while that is doubted."""
    reason = f"not counted, since the environment is suspected: {reason_of(row, answer)}"
    return Verdict(UNSENT, reason, pause_s, paused=True, refused=True)


def reason_of(row: Row, answer: Answer) -> str:
    """Return status and code, the meaning of the row, and the provider's own words if they add something."""
    named = f"{answer.status} {answer.code}".strip()
    has_words = bool(answer.reason) and answer.reason not in (answer.code, f"HTTP {answer.status}")
    words = f" ({answer.reason.rstrip('.')})" if has_words else ""
    return f"{named}: {row.note.rstrip('.')}{words}"
