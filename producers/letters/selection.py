"""Select dead letters, and show them as rows and groups."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, NamedTuple

from dispatcher.letters.book import Claim, LetterBook, LetterState
from dispatcher.model.errors import InvalidInput
from dispatcher.model.task_control import one_of
from dispatcher.ports import DeadLetter
from dispatcher.wire.letters import keys_of
from dispatcher.wire.outcome import OUTCOME_NAMES

MESSAGE = "message"
"""Outcome of a letter that holds a whole message, which could not be sent."""
STATES = (*map(str, LetterState), "all")
AppOf = Callable[[str], str]
"""Returns the app of a task id; empty if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """Part of a filter: from a time on, and before another. None sets no bound."""

    since: datetime | None = None
    """It happened then or later. With a time zone."""
    until: datetime | None = None
    """It happened before. With a time zone."""

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise InvalidInput(f"{name}: {moment.isoformat()} has no time zone.")
        for name in (field.name for field in fields(self)):
            if getattr(self, name) == "":  # as of a variable that is not set; it would select the wrong ones, or all
                raise InvalidInput(f"{name}: is empty.", "Give a text, or leave it out to select by nothing.")

    @property
    def since_ms(self) -> int:
        """Return `since` as wall time in ms; 0 for none."""
        return 0 if self.since is None else int(self.since.timestamp() * 1000)

    def covers(self, wall_ms: float) -> bool:
        """Return whether a wall time is in the period."""
        return wall_ms >= self.since_ms and (self.until is None or wall_ms < self.until.timestamp() * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter(Period):
    """Selects the dead letters that match all fields; the time is when the target was given up. None matches any."""

    task: str | None = None
    """Id of the task."""
    app: str | None = None
    """The app that owns the task."""
    error: str | None = None
    """A part of the reason; upper and lower case are alike."""
    without_task: bool = False
    """Only messages that were not envelopes: they have no task."""

    def takes(self, letter: DeadLetter, app_of: AppOf) -> bool:
        """Return whether a letter matches, leaving aside its reasons."""
        if self.without_task and letter.task:
            return False
        if self.task is not None and letter.task != self.task:
            return False
        if not self.covers(letter.at_ms):
            return False
        return self.app is None or (letter.app or app_of(letter.task)) == self.app

    def takes_reason(self, reason: str) -> bool:
        return self.error is None or self.error.casefold() in reason.casefold()


class LetterRow(NamedTuple):
    """One target of a letter, or a letter that holds a message."""

    letter: DeadLetter
    at: int
    """Index of the target."""
    position: int
    reason: str
    claim: Claim | None

    @property
    def state(self) -> LetterState:
        return LetterState.OPEN if self.claim is None else self.claim.state

    @property
    def replay(self) -> str:
        """Return the id of the task that sends it again; empty if there is none."""
        return "" if self.claim is None or self.state is LetterState.DROPPED else self.claim.id

    @property
    def outcome(self) -> str:
        return OUTCOME_NAMES[self.letter.outcomes[self.at]] if self.letter.targets else MESSAGE


def rows_of(
    letters: Iterable[DeadLetter], book: LetterBook, chosen: LetterFilter, app_of: AppOf
) -> Iterator[LetterRow]:
    """Yield the rows that match the filter."""
    for letter in letters:
        if not chosen.takes(letter, app_of):
            continue
        positions = [key.position for key in keys_of(letter)]
        for index, claim in enumerate(book.claims_of(letter, positions)):
            reason = letter.reasons[index] if index < len(letter.reasons) else ""
            if chosen.takes_reason(reason):
                yield LetterRow(letter, index, positions[index], reason, claim)


def in_state(rows: Iterable[LetterRow], state: str) -> Iterator[LetterRow]:
    """Yield the rows in a state, one of STATES. Raises InvalidInput."""
    one_of("state", state, STATES)
    return (row for row in rows if state in ("all", row.state))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadTarget:
    """A target of a dead letter, or a message that could not be sent."""

    task: str
    """The task's id; empty for a message that was not an envelope."""
    app: str
    """The app that owns the task; empty if it is not known."""
    channel: str
    """The channel of the task."""
    target: str
    """The target's address; empty for a message."""
    variables: dict[str, Any] | None
    """Its variables, if it has any."""
    outcome: str
    """failed; invalid in letters of older versions; message for a message that could not be sent."""
    reason: str
    """The reason, in the words of the channel."""
    attempt: int
    """The number of the last attempt, from 1."""
    at_ms: int
    """Wall time when it was given up."""
    first_call_ms: int
    """Wall time of its first call, or that of a target of the same envelope; 0 if it is not known."""
    state: str
    """open, replaying, replayed or dropped."""
    replay: str
    """Id of the task that sends it again; empty if there is none."""
    lane: str
    """The lane of a message that could not be sent."""


def dead_target(row: LetterRow, app_of: AppOf) -> DeadTarget:
    letter, index = row.letter, row.at
    return DeadTarget(
        task=letter.task,
        app=letter.app or app_of(letter.task),
        channel=letter.channel,
        target=letter.targets[index] if letter.targets else "",
        variables=letter.variables[index] if letter.variables else None,
        outcome=row.outcome,
        reason=row.reason,
        attempt=letter.attempt + 1,
        at_ms=letter.at_ms,
        first_call_ms=letter.first_call_ms,
        state=str(row.state),
        replay=row.replay,
        lane=letter.lane,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterGroup:
    """Dead letters of one task with the same reason and state."""

    task: str
    """The task's id; empty for messages that were not envelopes."""
    app: str
    """The app that owns the task; empty if it is not known."""
    channel: str
    """The channel of the task."""
    outcome: str
    """failed; invalid in letters of older versions; message for messages that could not be sent."""
    reason: str
    """The reason, in the words of the channel."""
    state: str
    """open, replaying, replayed or dropped."""
    replay: str
    """Id of the task that sends them again; empty if there is none."""
    count: int
    """The number of targets, or of messages."""
    example: str
    """The address of one of these targets, or the lane of one of the messages."""
    first_ms: int
    """Wall time when the first was given up."""
    last_ms: int
    """Wall time when the last was given up."""


def groups_of(rows: Iterable[LetterRow], app_of: AppOf) -> list[LetterGroup]:
    """Return the number of targets by task, reason and state; the latest task first, the most frequent reason first."""
    groups: dict[tuple[str, str, str, str, str], LetterGroup] = {}
    latest: dict[str, int] = {}
    for row in rows:
        letter = row.letter
        kind = (letter.task, row.outcome, row.reason, row.state, row.replay)
        group = groups.get(kind) or _empty_group(row, app_of)
        groups[kind] = replace(
            group,
            count=group.count + 1,
            first_ms=min(group.first_ms, letter.at_ms),
            last_ms=max(group.last_ms, letter.at_ms),
        )
        latest[letter.task] = max(latest.get(letter.task, 0), letter.at_ms)
    return sorted(groups.values(), key=lambda group: (-latest[group.task], group.task, -group.count))


def _empty_group(row: LetterRow, app_of: AppOf) -> LetterGroup:
    one = dead_target(row, app_of)
    return LetterGroup(
        task=one.task,
        app=one.app,
        channel=one.channel,
        outcome=one.outcome,
        reason=one.reason,
        state=one.state,
        replay=one.replay,
        count=0,
        example=one.target or one.lane,
        first_ms=one.at_ms,
        last_ms=one.at_ms,
    )
