"""Shared by the commands that move bundles: reading the facts, carrying out moves, and what is printed of them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from backends.pulsar.estate.bundles import BundleAdmin
from backends.system_clock import SystemClock
from estate.balance import Move, MovePlan
from estate.moves import MoveProgress, MoveWindow, WindowSettings
from fairlane.cli.base import exit_codes
from fairlane.cli.base.output import Output, say
from fairlane.estate.drains import journals_of, move_bundles, read_facts
from fairlane.estate.move_facts import MoveFacts
from fairlane.estate.move_journals import MoveJournals, MoveRun
from fairlane.settings import Settings


@dataclass(frozen=True)
class Mover:
    """Carries out plans on one cluster and prints the results."""

    settings: Settings
    admin: BundleAdmin
    output: Output
    nothing: str
    """Why there may be nothing to move."""

    @property
    def journals(self) -> MoveJournals:
        return journals_of(self.settings)

    def read(self, wanted: Collection[str] = ()) -> MoveFacts:
        """Return the bundles of all brokers; name those that did not answer.

        wanted: bundles whose topics are also looked for if no broker owns them now.
        """
        facts = read_facts(self.admin, wanted)
        for failure in facts.failures:
            say(f"not asked: {failure}")
        return facts

    def show(self, plan: MovePlan, more: Mapping[str, Any]) -> int:
        """Print a plan that is not carried out."""
        rows = [_planned(move) for move in plan.moves]
        self._emit(plan, rows, more)
        return exit_codes.OK

    def carry_out(self, plan: MovePlan, facts: MoveFacts, at_once: int, more: Mapping[str, Any]) -> int:
        """Carry out a plan and print the result. Return the exit code."""
        with self.journals.run(SystemClock()) as run:
            progress = self.move(plan.moves, facts, at_once, run)
        made = [one.move for one in progress if one.state == "verified"]
        self._emit(plan.with_only(made), [_ended(one) for one in progress], more)
        return exit_of(progress)

    def move(self, moves: Sequence[Move], facts: MoveFacts, at_once: int, run: MoveRun) -> list[MoveProgress]:
        """Carry out moves. Those that were begun are finished if it is interrupted, and the error says how to undo."""
        window = MoveWindow(moves, run.record, WindowSettings(at_once=at_once))
        try:
            return move_bundles(self.admin, window, facts, at_once, run.must_stop)
        except KeyboardInterrupt as error:
            done = sum(one.state == "verified" for one in window.progress)
            error.add_note(f"{done} of {len(moves)} moves were made; `fairlane estate balance --undo` takes them back.")
            raise

    def _emit(self, plan: MovePlan, rows: Sequence[Mapping[str, Any]], more: Mapping[str, Any]) -> None:
        brokers = [
            {"broker": broker, "before": round(plan.before[broker], 1), "after": round(plan.after[broker], 1)}
            for broker in sorted(plan.before)
        ]
        document = {"moves": list(rows), "brokers": brokers, "spread_before": plan.spread_before} | {
            "spread_after": plan.spread_after,
            **more,
        }
        self.output.emit_document(document, rows or brokers)
        say(summary_of(plan, rows, self.nothing))


def summary_of(plan: MovePlan, rows: Sequence[Mapping[str, Any]], nothing: str) -> str:
    """Return one line on the moves of a plan, or of a run. nothing: why there may be none."""
    if not rows:
        return f"Nothing to move: {nothing}."
    made = sum(row.get("state", "verified") == "verified" for row in rows)  # the rows of a plan have no state
    moves = f"{len(rows)} moves" if made == len(rows) else f"{made} of {len(rows)} moves were made"
    return f"{moves}; the spread is {plan.spread_before:.0%} of the mean load, {plan.spread_after:.0%} after."


def _planned(move: Move) -> dict[str, Any]:
    return {"bundle": move.bundle, "source": move.source, "target": move.target, "load": round(move.weight, 1)}


def _ended(one: MoveProgress) -> dict[str, Any]:
    return {**_planned(one.move), "state": one.state, "tries": one.tries, "owner": one.owner, "reason": one.reason}


def exit_of(progress: Sequence[MoveProgress]) -> int:
    """Return the exit code of a run: a failure if a move was given up."""
    given_up = [one for one in progress if one.state == "given up"]
    for one in given_up:
        say(f"gave up {one.move.bundle} to {one.move.target} after {one.tries} tries: {one.reason}")
    return exit_codes.FAILURE if given_up else exit_codes.OK


def emit_progress(output: Output, progress: Sequence[MoveProgress], columns: list[str]) -> None:
    """Print these columns of a run without a plan. The bundle of a move that reloads a topic is that topic."""
    rows = [{**_ended(one), "topic": one.move.bundle} for one in progress]
    output.emit_rows([{name: row[name] for name in columns} for row in rows], columns)


@contextmanager
def mover_of(
    settings: Settings, output: Output, nothing: str = "the brokers are close enough, or no move helps"
) -> Iterator[Mover]:
    """Yield what moves the bundles of the configured cluster. nothing: why there may be nothing to move."""
    with BundleAdmin(settings.pulsar) as admin:
        yield Mover(settings, admin, output, nothing)
