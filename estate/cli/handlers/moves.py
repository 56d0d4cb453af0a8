"""Commands that move bundles: `fairlane estate balance`, `drain`, `spread`."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import click

from backends.pulsar.client import topics
from dispatcher.model.errors import NotFound
from estate.facts.bundles import BundleAdmin
from estate.moves.facts import MoveFacts
from estate.moves.mover import Mover, logs_of, mover_of
from estate.moves.runner import MoveProgress, MoveRunner, MoveState, reload_topic
from estate.plans.balance import Goal, Move, MovePlan, WeightedBundle, hot_bundles, loads_of, plan_balance
from estate.plans.placement import parse_range, split_point
from fairlane.cli.base import exit_codes
from fairlane.cli.base.output import Output, say
from fairlane.cli.base.settings import settings_of
from fairlane.settings import Settings


def balance(
    ctx: click.Context, output: Output, goal: str, at_once: int, *, dry_run: bool, split: bool, undo: bool, stop: bool
) -> int:
    if undo and stop:
        raise click.UsageError("Give one of --undo and --stop.")
    settings = settings_of(ctx)
    if stop:
        return _stop(settings)
    with mover_of(settings) as mover:
        if undo:
            return _undo(mover, output, at_once)
        return _balance(mover, output, goal, settings.pulsar.tenant, at_once, dry_run=dry_run, split=split)


def _balance(mover: Mover, output: Output, goal: str, tenant: str, at_once: int, *, dry_run: bool, split: bool) -> int:
    facts = read_facts(mover)
    everything = facts.bundles(Goal(goal))
    bundles = [bundle for bundle in everything if bundle.name.startswith(f"{tenant}/")]
    others = [bundle for bundle in everything if not bundle.name.startswith(f"{tenant}/")]
    fixed = loads_of(others, facts.brokers())
    plan = plan_balance(bundles, facts.brokers(), fixed)
    hot = hot_bundles(bundles, plan)
    if split and hot and not dry_run:
        return _split(mover, facts, hot)
    _say_hot(facts, hot)
    progress = None if dry_run else mover.carry_out(plan.moves, facts, at_once)
    return show_moves(output, plan, progress, {"hot": [bundle.name for bundle in hot]})


def _split_point(facts: MoveFacts, bundle: WeightedBundle) -> int | None:
    topics = facts.topics[bundle.name]
    weights = {name: load.msg_throughput_in + load.msg_throughput_out for name, load in topics.items()}
    return split_point(parse_range(bundle.name.rpartition("/")[2]), weights)


def _say_hot(facts: MoveFacts, hot: list[WeightedBundle]) -> None:
    for bundle in hot:
        point = _split_point(facts, bundle)
        what = f"{bundle.name} carries more than any move can even out"
        fix = "it has one topic, which cannot be divided" if point is None else f"split it at {point:#010x} (--split)"
        say(f"{what}: {fix}.")


def _split(mover: Mover, facts: MoveFacts, hot: list[WeightedBundle]) -> int:
    """Split the hot bundles that can be; their halves are moved by another call."""
    done = 0
    for bundle in hot:
        point = _split_point(facts, bundle)
        if point is not None:
            mover.admin.split(bundle.name, point)
            say(f"split {bundle.name} at {point:#010x}")
            done += 1
    say(f"{done} bundles were split. Run `fairlane estate balance` again when their load was measured.")
    return exit_codes.OK if done else exit_codes.FAILURE


def _stop(settings: Settings) -> int:
    logs_of(settings).stop()
    say("The run begins no further move and finishes those under way. `--undo` takes them back.")
    return exit_codes.OK


def _undo(mover: Mover, output: Output, at_once: int) -> int:
    """Put back what the last run moved, and forget that run if all of it is."""
    path, moves = mover.logs.last()
    facts = read_facts(mover, {move.bundle for move in moves})
    progress = mover.carry_out(moves, facts, at_once, logged=False)
    if all(each.state is MoveState.VERIFIED for each in progress):
        path.unlink()
    return show_progress(output, progress, ["bundle", "target", "state", "reason"])


def drain(ctx: click.Context, output: Output, broker: str, at_once: int, *, dry_run: bool) -> int:
    with mover_of(settings_of(ctx)) as mover:
        facts = read_facts(mover)
        names = [answer.broker for answer in facts.answers]
        if broker not in names:
            raise NotFound(f"There is no broker {broker}.", f"Name one of {', '.join(names)}.")
        drained = mover.drain(facts, broker, at_once, dry_run=dry_run)
    nothing = f"no bundle of {broker} has a topic"
    code = show_moves(output, drained.plan, drained.progress, {"empty": list(drained.empty)}, nothing)
    for bundle, reason in drained.kept.items():
        say(f"{bundle} was not unloaded: {reason}")
    return exit_codes.FAILURE if drained.kept else code


def spread(ctx: click.Context, output: Output, at_once: int, *, dry_run: bool) -> int:
    pulsar = settings_of(ctx).pulsar
    names = topics(pulsar)
    standing = [*names.standing_lanes(), *names.system_topics()]
    if dry_run:
        output.emit_rows([{"topic": topic} for topic in standing], ["topic"])
        return 0
    with BundleAdmin(pulsar) as admin:
        moves = [Move(topic, "", "any broker") for topic in standing]
        progress = MoveRunner(moves, partial(reload_topic, admin), at_once).run()  # no log: it needs no undo
    code = show_progress(output, progress, ["topic", "state", "tries", "reason"])
    begun = sum(each.state is MoveState.VERIFIED for each in progress)
    say(f"{begun} of {len(progress)} topics began new ledgers.")
    return code


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
