"""A window of checked moves: which one to make next, and what its check means. Nothing here asks a server or waits.

A move is begun, its result is looked up, and it is tried again until its bundle is where the plan says: Pulsar does not
keep the target of an unload in a third of the cases. After the last try the move is given up; the others go on.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dispatcher.model.errors import InvalidInput
from dispatcher.model.lifecycle import Lifecycle
from estate.balance import Move
from estate.journal import JournalEntry, MoveEvent

MOVE = Lifecycle(
    name="move",
    start=("planned",),
    transitions={
        "planned": {"submit": "submitted", "skip": "skipped"},
        "submitted": {"found": "verified", "miss": "again", "give_up": "given up"},
        "again": {"submit": "submitted"},
        "verified": {},
        "given up": {},
        "skipped": {},
    },
)
"""`found`: a lookup shows the bundle at its target. `skip`: the run was stopped before this move was begun."""


@dataclass(frozen=True)
class WindowSettings:
    """Bounds of a run of moves. Raises InvalidInput."""

    at_once: int = 4
    """Moves under way at the same time."""
    tries: int = 5
    """Times that a move is begun before it is given up."""
    first_pause_ms: float = 100.0
    """Time until the second try; it doubles with each further one."""

    def __post_init__(self) -> None:
        if not 1 <= self.at_once <= 64:
            raise InvalidInput(f"at once: {self.at_once} is not between 1 and 64.")
        if not 1 <= self.tries <= 100:
            raise InvalidInput(f"tries: {self.tries} is not between 1 and 100.")


@dataclass
class MoveProgress:
    """One move of a run and how far it is."""

    move: Move
    state: str = "planned"
    tries: int = 0
    owner: str | None = None
    """The bundle's owner at the last lookup; None if unknown."""
    reason: str = ""
    """Why the last try did not succeed."""
    due_ms: float = field(default=0.0, repr=False)

    def advance(self, event: str) -> None:
        """Follow the table. Raises ValueError for an event that cannot happen."""
        if event not in MOVE.transitions[self.state]:
            raise ValueError(f"A move that is {self.state} cannot {event}.")
        self.state = MOVE.after(self.state, event)

    @property
    def ended(self) -> bool:
        return MOVE.ends(self.state)


class MoveWindow:
    """The moves of one run. The caller begins what `next_move` returns, and reports how it went."""

    def __init__(
        self, moves: Sequence[Move], record: Callable[[JournalEntry], None], settings: WindowSettings | None = None
    ) -> None:
        """record: keeps an entry of the journal for good before it returns. Raises InvalidInput if a bundle is moved
        twice."""
        doubled = [bundle for bundle, count in Counter(move.bundle for move in moves).items() if count > 1]
        if doubled:
            raise InvalidInput(f"moves: {doubled[0]} is moved twice.")
        self._settings, self._record = settings or WindowSettings(), record
        self._moves = {move.bundle: MoveProgress(move) for move in moves}
        for move in moves:
            self._write(move, MoveEvent.PLAN)

    @property
    def progress(self) -> list[MoveProgress]:
        return list(self._moves.values())

    @property
    def ended(self) -> bool:
        return all(one.ended for one in self._moves.values())

    def next_move(self, now_ms: float) -> Move | None:
        """Return the move to begin now, which then counts as under way; None if the window is full or nothing is due.

        A target takes no more than its part of the window, so that one that hangs does not hold up the others.
        """
        under_way = Counter(move.target for move in self.under_way())
        if under_way.total() >= self._settings.at_once:
            return None
        due = [one for one in self._in("planned", "again") if one.due_ms <= now_ms]
        free = [one for one in due if under_way[one.move.target] < self._slots_of_target()]
        if not free:
            return None
        chosen = min(free, key=lambda one: one.tries)
        self._write(chosen.move, MoveEvent.SUBMIT)  # first: a death after it must not leave a move that nobody knows of
        chosen.advance("submit")
        chosen.tries += 1
        return chosen.move

    def under_way(self) -> list[Move]:
        return [one.move for one in self._in("submitted")]

    def _slots_of_target(self) -> int:
        targets = {one.move.target for one in self._moves.values() if not one.ended}
        return -(-self._settings.at_once // len(targets))

    def wait_ms(self, now_ms: float) -> float:
        """Return the time until another try is due; infinite if none waits."""
        return min((max(0.0, one.due_ms - now_ms) for one in self._in("again")), default=float("inf"))

    def report(self, bundle: str, owner: str | None, now_ms: float, reason: str = "") -> None:
        """Report the end of a try: the owner that a lookup shows, None if it is unknown, and why.

        Raises ValueError if the move is not under way.
        """
        one = self._moves[bundle]
        if owner == one.move.target:
            self._end_try(one, MoveEvent.FOUND, owner, "")
        elif one.tries >= self._settings.tries:
            self._end_try(one, MoveEvent.GIVE_UP, owner, reason)
        else:
            self._end_try(one, MoveEvent.MISS, owner, reason)
            one.due_ms = now_ms + self._settings.first_pause_ms * 2 ** (one.tries - 1)

    def _end_try(self, one: MoveProgress, event: MoveEvent, owner: str | None, reason: str) -> None:
        one.advance(event)
        one.owner, one.reason = owner, reason
        self._write(one.move, event, owner or "", reason)

    def stop(self) -> None:
        """Begin nothing new. What was begun is finished, further tries included."""
        for one in self._in("planned"):
            one.advance("skip")
            self._write(one.move, MoveEvent.SKIP)

    def _in(self, *states: str) -> list[MoveProgress]:
        return [one for one in self._moves.values() if one.state in states]

    def _write(self, move: Move, event: MoveEvent, owner: str = "", reason: str = "") -> None:
        self._record(
            JournalEntry(
                event=event, bundle=move.bundle, source=move.source, target=move.target, owner=owner, reason=reason
            )
        )


def undo_of(entries: Iterable[JournalEntry]) -> tuple[Move, ...]:
    """Return the moves that put everything back that a run began, the last one first.

    Moves that were under way when the run died are among them: a bundle that is still at its source is left there by
    the check that comes before a move.
    """
    begun = {entry.bundle: entry for entry in entries if entry.event is MoveEvent.SUBMIT}
    return tuple(Move(entry.bundle, entry.target, entry.source) for entry in reversed(begun.values()))
