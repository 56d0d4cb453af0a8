"""Carries out moves of bundles: a bounded number at once, each checked by lookup and tried again."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from backends.pulsar.estate.bundles import BundleAdmin
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError
from estate.balance import Move
from estate.moves import MoveProgress, MoveWindow

LOOK_S = 0.25
"""Longest wait between two looks at whether the run should stop."""


@dataclass(frozen=True)
class Attempt:
    """The end of one try: the owner that a lookup shows, None if unknown, and why it is not the target."""

    owner: str | None
    reason: str = ""


class MoveRunner:
    """Carries out the moves of one window."""

    def __init__(self, window: MoveWindow, attempt: Callable[[Move], Attempt], clock: Clock, at_once: int) -> None:
        self._window, self._attempt, self._clock, self._at_once = window, attempt, clock, at_once

    def run(self, must_stop: Callable[[], bool]) -> list[MoveProgress]:
        """Carry out all moves; begin no further one once `must_stop` says so, or on KeyboardInterrupt.

        After an interrupt the moves that were begun are finished, and then KeyboardInterrupt is raised.
        """
        interrupted: KeyboardInterrupt | None = None
        with ThreadPoolExecutor(self._at_once, "moves") as pool:
            running: dict[Future[Attempt], Move] = {}
            while not self._window.ended:
                try:
                    self._step(pool, running, must_stop)
                except KeyboardInterrupt as error:
                    interrupted = error
                    self._window.stop()
                    self._recover(running)
        if interrupted is not None:
            raise interrupted
        return self._window.progress

    def _recover(self, running: Mapping[Future[Attempt], Move]) -> None:
        """Try the moves again that an interrupt has hit between the window and the pool: nobody would report them."""
        for move in self._window.under_way():
            if move not in running.values():
                self._window.report(move.bundle, None, self._now_ms(), "interrupted")

    def _step(
        self, pool: ThreadPoolExecutor, running: dict[Future[Attempt], Move], must_stop: Callable[[], bool]
    ) -> None:
        if must_stop():
            self._window.stop()
        while (move := self._window.next_move(self._now_ms())) is not None:
            running[pool.submit(self._attempt, move)] = move
        if not running:
            time.sleep(min(self._window.wait_ms(self._now_ms()) / 1000, LOOK_S))
            return
        timeout_s = min(self._window.wait_ms(self._now_ms()) / 1000, LOOK_S)
        done, _ = wait(running, timeout_s or 0.001, FIRST_COMPLETED)
        for future in done:
            ended = future.result()
            self._window.report(running.pop(future).bundle, ended.owner, self._now_ms(), ended.reason)

    def _now_ms(self) -> float:
        return self._clock.monotonic_s() * 1000


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
