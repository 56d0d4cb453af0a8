"""The targets of dead letters, and what was done about each."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from dispatcher.letters.book import Claim, LetterBook, LetterState
from dispatcher.model.task_control import one_of
from dispatcher.ports import DeadLetter
from dispatcher.wire.letters import positions_of
from dispatcher.wire.outcome import OUTCOME_NAMES
from producers.outcomes.record import TargetFilter, TargetRecord

MESSAGE = "message"
"""Outcome of a letter that holds a whole message, which could not be sent."""
STATES = (*map(str, LetterState), "all")
AppOf = Callable[[str], str]
"""Returns the app of a task id; empty if it is not known."""


class LetterRow(NamedTuple):
    """One target of a letter, or a letter that holds a message."""

    letter: DeadLetter
    record: TargetRecord
    claim: Claim | None = None
    """The mark that has it; None for an open one."""

    @property
    def is_replayable(self) -> bool:
        """Return whether it is an open, failed target with an address, whose variables are known. A letter that the
        broker refused has no addresses."""
        is_sendable = self.record.outcome == "failed" and bool(self.record.target) and not self.letter.is_set_apart
        return is_sendable and self.claim is None


def rows_of(
    letters: Iterable[DeadLetter], book: LetterBook, chosen: TargetFilter, app_of: AppOf
) -> Iterator[LetterRow]:
    """Yield the rows that match the filter."""
    for letter in letters:
        app = letter.app or app_of(letter.task)
        for index, claim in enumerate(book.claims_of(letter)):
            state = LetterState.OPEN if claim is None else claim.state
            replay = "" if claim is None or state is LetterState.DROPPED else claim.id
            record = target_of(letter, index, app=app, state=str(state), replay=replay)
            if chosen.takes(record):
                yield LetterRow(letter, record, claim)


def target_of(letter: DeadLetter, index: int, *, app: str = "", state: str = "", replay: str = "") -> TargetRecord:
    """Return one target of a letter, or the message that it holds. app: that of its task if the letter has none."""
    return TargetRecord(
        task=letter.task,
        app=letter.app or app,
        channel=letter.channel,
        outcome=OUTCOME_NAMES[letter.outcomes[index]] if letter.targets else MESSAGE,
        reason=letter.reasons[index] if index < len(letter.reasons) else "",
        state=state,
        replay=replay,
        target=letter.targets[index] if letter.targets else "",
        attempt=letter.attempt + 1,
        at_ms=letter.at_ms,
        writer=letter.writer,
        sequence=letter.sequence,
        position=positions_of(letter)[index],
        variables=letter.variables[index] if letter.variables else None,
        first_call_ms=letter.first_call_ms,
        lane=letter.lane,
    )


def in_state(rows: Iterable[LetterRow], state: str) -> Iterator[LetterRow]:
    """Yield the rows in a state, one of STATES. Raises InvalidInput."""
    one_of("state", state, STATES)
    return (row for row in rows if state in ("all", row.record.state))
