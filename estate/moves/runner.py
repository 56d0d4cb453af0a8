"""Carries out moves of bundles: a bounded number at once, each checked by lookup and tried again.

Pulsar does not keep the target of an unload in a third of the cases. After the last try a move is given up; the others
go on.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from enum import StrEnum

from dispatcher.model.errors import FairlaneError
from estate.facts.bundles import BundleAdmin
from estate.plans.balance import Move

AT_ONCE = 4
"""Moves under way at the same time."""
TRIES = 5
"""Times that a move is tried before it is given up."""
FIRST_PAUSE_S = 0.1
"""Time until the second try; it doubles with each further one."""
LOOK_S = 0.25
"""Longest wait between two looks at whether the run should stop."""


class MoveState(StrEnum):
    """How far a move is. The last three are ends."""

    PLANNED = "planned"
    SUBMITTED = "submitted"
    VERIFIED = "verified"
    """A lookup showed the bundle at its target."""
    GIVEN_UP = "given up"
    SKIPPED = "skipped"
    """The run was stopped before this move was begun."""


@dataclass(frozen=True)
class Attempt:
    """The end of one try: the owner that a lookup shows, None if unknown, and why it is not the target."""

    owner: str | None
    reason: str = ""


@dataclass
class MoveProgress:
    """One move of a run and how far it is."""

    move: Move
    state: MoveState = MoveState.PLANNED
    tries: int = 0
    owner: str | None = None
    """The bundle's owner at the last lookup; None if unknown."""
    reason: str = ""
    """Why the last try did not succeed."""


class MoveRunner:
    """Carries out the moves of one run. Each bundle is moved once."""

    def __init__(
        self,
        moves: Sequence[Move],
        attempt: Callable[[Move], Attempt],
        at_once: int = AT_ONCE,
        *,
        record: Callable[[Move], None] = lambda _: None,
        must_stop: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """record: keeps a move that is begun for good before it returns."""
        self.progress = [MoveProgress(move) for move in moves]
        self._attempt, self._at_once = attempt, at_once
        self._record, self._must_stop, self._sleep = record, must_stop, sleep
        self._changed = threading.Condition()
        self._open = False
        """Whether moves may be begun."""

    def run(self) -> list[MoveProgress]:
        """Carry out all moves; begin no further one once `must_stop` says so, on KeyboardInterrupt, or on an error.

        What was begun is finished, further tries included, and then the interrupt or the error is raised.
        """
        with ThreadPoolExecutor(self._at_once, "moves") as pool:
            try:
                with self._changed:  # nothing is begun while threads start: an interrupt could lose one of them
                    workers = [pool.submit(self._work) for _ in range(self._at_once)]
                    self._open = True
                for worker in as_completed(workers):
                    worker.result()
            except BaseException:
                self._open = False
                raise
        return self.progress

    def _work(self) -> None:
        while (chosen := self._next()) is not None:
            self._carry_out(chosen)

    def _next(self) -> MoveProgress | None:
        """Return the move to begin now; None if there is none any more.

        A target takes no more than its part of the moves, so that one that hangs does not hold up the others.
        """
        with self._changed:
            while planned := self._in(MoveState.PLANNED):
                if not self._open or self._must_stop():
                    for progress in planned:
                        progress.state = MoveState.SKIPPED
                    return None
                under_way = self._in(MoveState.SUBMITTED)
                busy = Counter(progress.move.target for progress in under_way)
                slots = -(-self._at_once // len({progress.move.target for progress in (*planned, *under_way)}))
                chosen = next((progress for progress in planned if busy[progress.move.target] < slots), None)
                if chosen is not None:
                    self._record(chosen.move)  # first: a death after it must not leave a move that nobody knows of
                    chosen.state = MoveState.SUBMITTED
                    return chosen
                self._changed.wait(LOOK_S)
        return None

    def _in(self, state: MoveState) -> list[MoveProgress]:
        return [progress for progress in self.progress if progress.state is state]

    def _carry_out(self, progress: MoveProgress) -> None:
        """Try a move until its bundle is at the target, or for the last time."""
        target = progress.move.target
        while progress.owner != target and progress.tries < TRIES:
            if progress.tries:
                self._sleep(FIRST_PAUSE_S * 2 ** (progress.tries - 1))
            attempt = self._attempt(progress.move)
            progress.tries += 1
            progress.owner, progress.reason = attempt.owner, attempt.reason
        with self._changed:
            progress.state = MoveState.VERIFIED if progress.owner == target else MoveState.GIVEN_UP
            self._changed.notify_all()


def move_bundle(
    admin: BundleAdmin, topics: Mapping[str, Sequence[str]], answered: Collection[str], move: Move
) -> Attempt:
    """Try a move: have the bundle unloaded towards its target, and look up where it went.

    A bundle that is at its target already is not unloaded. The source is asked if it answers, so that no broker that
    takes no part can hold up the move. topics: of each bundle, to look it up by. answered: the brokers that answer.
    """
    named = topics.get(move.bundle, ())
    at = move.source if move.source in answered else None
    try:
        owner = admin.owner_of(named, at)
        if owner is None:
            return Attempt(None, "its topics are gone")
        if owner == move.target:
            return Attempt(owner)
        admin.move(move.bundle, move.target, at)
        owner = admin.owner_of(named, at)
    except FairlaneError as error:
        return Attempt(None, error.cause)
    return Attempt(owner, "" if owner == move.target else f"Pulsar had it loaded by {owner}")


def reload_topic(admin: BundleAdmin, move: Move) -> Attempt:
    """Try to unload a topic: its broker closes the ledger and begins another, on the bookies that are there.

    Return the target of the move, which means any broker, once the topic is served again.
    """
    try:
        admin.unload_topic(move.bundle)
        owner = admin.owner_of([move.bundle])
    except FairlaneError as error:
        return Attempt(None, error.cause)
    return Attempt(None if owner is None else move.target, "" if owner else "the topic is gone")
