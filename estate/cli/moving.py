"""Shared by the commands that move bundles: reading where they are, and what is printed of plans and runs."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from estate.moves.facts import MoveFacts
from estate.moves.mover import Mover
from estate.moves.runner import MoveProgress, MoveState
from estate.plans.balance import Move, MovePlan
from fairlane.cli.base import exit_codes
from fairlane.cli.base.output import Output, say


def read_facts(mover: Mover, wanted: Collection[str] = ()) -> MoveFacts:
    """Return the bundles of all brokers; name those that did not answer. wanted: see `Mover.read`."""
    facts = mover.read(wanted)
    for failure in facts.failures:
        say(f"not asked: {failure}")
    return facts


def show_moves(
    output: Output,
    plan: MovePlan,
    progress: Sequence[MoveProgress] | None,
    more: Mapping[str, Any],
    nothing: str = "the brokers are close enough, or no move helps",
) -> int:
    """Print a plan and how its run went, and return the exit code. progress: None if it is not carried out.

    nothing: why there may be no moves.
    """
    if progress is None:
        rows = [_planned(move) for move in plan.moves]
    else:
        rows = [_ended(each) for each in progress]
        plan = plan.with_only([each.move for each in progress if each.state is MoveState.VERIFIED])
    brokers = [
        {"broker": broker, "before": round(plan.before[broker], 1), "after": round(plan.after[broker], 1)}
        for broker in sorted(plan.before)
    ]
    spreads = {"spread_before": plan.spread_before, "spread_after": plan.spread_after}
    output.emit_document({"moves": rows, "brokers": brokers, **spreads, **more}, rows or brokers)
    say(summary_of(plan, rows, nothing))
    return exit_of(progress or ())


def summary_of(plan: MovePlan, rows: Sequence[Mapping[str, Any]], nothing: str) -> str:
    """Return one line on the moves of a plan, or of a run. nothing: why there may be none."""
    if not rows:
        return f"Nothing to move: {nothing}."
    made = sum(row.get("state", "verified") == "verified" for row in rows)  # the rows of a plan have no state
    moves = f"{len(rows)} moves" if made == len(rows) else f"{made} of {len(rows)} moves were made"
    return f"{moves}; the spread is {plan.spread_before:.0%} of the mean load, {plan.spread_after:.0%} after."


def _planned(move: Move) -> dict[str, Any]:
    return {"bundle": move.bundle, "source": move.source, "target": move.target, "load": round(move.weight, 1)}


def _ended(each: MoveProgress) -> dict[str, Any]:
    end = {"state": each.state, "tries": each.tries, "owner": each.owner, "reason": each.reason}
    return {**_planned(each.move), **end}


def exit_of(progress: Sequence[MoveProgress]) -> int:
    """Return the exit code of a run: a failure if a move was given up."""
    given_up = [each for each in progress if each.state is MoveState.GIVEN_UP]
    for each in given_up:
        say(f"gave up {each.move.bundle} to {each.move.target} after {each.tries} tries: {each.reason}")
    return exit_codes.FAILURE if given_up else exit_codes.OK


def show_progress(output: Output, progress: Sequence[MoveProgress], columns: list[str]) -> int:
    """Print these columns of a run without a plan, and return the exit code.

    The bundle of a move that reloads a topic is that topic.
    """
    rows = [{**_ended(each), "topic": each.move.bundle} for each in progress]
    output.emit_rows([{name: row[name] for name in columns} for row in rows], columns)
    return exit_of(progress)
