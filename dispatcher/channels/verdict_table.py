"""Meaning of a provider's answers: a table of rows, as data, that channels, documents and fakes share."""

from dataclasses import dataclass
from enum import StrEnum

STRANGE_BODY = "body"
"""Value of `detail`: the answer does not have the provider's form. It may come from a proxy, or from another server at
the address in the settings, so its status says nothing about target, message or credentials."""


class Effect(StrEnum):
    """Meaning of an answer for a target, its task, or the flow (the credential or origin that was used)."""

    SENT = "sent"
    """The provider took the message."""
    DEAD = "dead"
    """The target no longer exists: never send to it again, and report it to the app."""
    WRONG = "wrong"
    """This target or payload will never work here. The target itself may be alive."""
    LATER = "later"
    """Try this target again; other targets are not affected."""
    LIMIT = "limit"
    """The flow sends too fast. Nothing is wrong with the target, and it uses no try."""
    CREDENTIALS = "credentials"
    """The provider does not accept our credentials or settings. The flow pauses, and the target uses no try."""
    DOWN = "down"
    """The provider does not work. Slow down, then probe. The target uses no try, unless it may be taken."""
    PAYLOAD = "payload"
    """The task's message is at fault, whichever target it is sent to."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A provider's answer, reduced to what the table looks at."""

    status: int
    """HTTP status."""
    code: str = ""
    """The provider's own code for the error; empty if it named none."""
    detail: str = ""
    """Subject of the error (a field, a quota), in the words of the provider's rows."""
    reason: str = ""
    """The provider's text, for people."""
    retry_after_s: float | None = None
    """Delay that the provider asks for."""
    reference: str = ""
    """The provider's id of the message."""
    died_ms: int = 0
    """Wall time from which the target is known to be dead; 0: not named."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kind of answer and its effect. Empty fields match everything."""

    status: int
    """HTTP status, or a class of it: 5 means 500 to 599."""
    code: str = ""
    detail: str = ""
    effect: Effect
    wait_s: float = 0.0
    """Minimum delay before another try, or of a pause, unless the provider names one."""
    renew: bool = False
    """Whether to make a new access token and try once more before the effect counts."""
    may_be_taken: bool = False
    """Whether the provider may have taken the message in spite of the answer. Then the target is UNKNOWN."""
    in_part: bool = False
    """Whether it concerns a part of the flow's targets, such as those of one platform. If there are others, the flow
    goes on with them."""
    note: str = ""
    """Cause and next step, in one sentence; shown to users."""

    @property
    def guarded(self) -> bool:
        """Whether many such answers at once suggest that the fault is ours: the storm guard watches them."""
        return self.effect in (Effect.DEAD, Effect.WRONG)

    def matches(self, answer: Answer) -> bool:
        """Return whether the row is about this answer."""
        return (
            self.status in (answer.status, answer.status // 100)
            and self.code in ("", answer.code)
            and self.detail in ("", answer.detail)
        )


def strange_rows(success: str, error: str) -> tuple[Row, ...]:
    """Return the first rows of a table: answers 200, 3xx and 4xx that are not the provider's, with the note of each."""
    return (
        Row(status=200, detail=STRANGE_BODY, effect=Effect.DOWN, wait_s=60.0, may_be_taken=True, note=success),
        *(Row(status=status, detail=STRANGE_BODY, effect=Effect.DOWN, wait_s=60.0, note=error) for status in (3, 4)),
    )


@dataclass(frozen=True)
class VerdictTable:
    """The rows of one provider. The first row that matches counts, so special ones come first."""

    rows: tuple[Row, ...]

    def row_of(self, answer: Answer) -> Row:
        """Return the row for an answer. An answer that no row knows is tried again: the provider may be new here."""
        for row in self.rows:
            if row.matches(answer):
                return row
        return UNKNOWN_ANSWER


UNKNOWN_ANSWER = Row(
    status=0, effect=Effect.LATER, wait_s=60.0, note="The answer is not one that the provider documents."
)
"""Used when no row matches."""


def wait_of(row: Row, answer: Answer) -> float:
    """Return the seconds to wait: what the provider asks for, however long, or else the row's."""
    return row.wait_s if answer.retry_after_s is None else max(row.wait_s, answer.retry_after_s)
