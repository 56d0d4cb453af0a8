"""`fairlane estate balance`."""

from typing import TYPE_CHECKING

import click

from estate.cli.options import at_once_option, dry_run_option
from fairlane.cli.base import exit_codes
from fairlane.cli.base.invocation import pass_settings
from fairlane.cli.base.options import with_options
from fairlane.cli.base.output import Output, output_option, say

if TYPE_CHECKING:
    from estate.moves.facts import MoveFacts
    from estate.moves.mover import Mover
    from estate.plans.balance import WeightedBundle
    from fairlane.settings import Settings

_plan = with_options(
    click.option(
        "--goal", type=click.Choice(["bytes", "lanes", "cpu"]), default="bytes", help="The load that is made even."
    ),
    dry_run_option,
    at_once_option,
    click.option("--split", is_flag=True, help="Split bundles that are too large to be moved, before all else."),
)
_other = with_options(
    click.option("--undo", is_flag=True, help="Undo the last run of moves that was started on this machine."),
    click.option("--stop", is_flag=True, help="Tell the run of moves on this machine to begin no further move."),
)


@click.command()
@_plan
@_other
@output_option
@pass_settings
def balance(
    settings: "Settings",
    output: Output,
    goal: str,
    at_once: int,
    *,
    dry_run: bool,
    split: bool,
    undo: bool,
    stop: bool,
) -> int:
    """Make the load of the brokers even: plan moves of bundles, carry them out, check by lookup where each bundle is.

    No broker gets more load than the most loaded one had before. A move after which Pulsar has the bundle elsewhere is
    tried again; one that fails five times is given up and listed. Exits with 1 if one was given up. Only bundles of
    this installation are moved.
    """
    if undo and stop:
        raise click.UsageError("Give one of --undo and --stop.")
    if stop:
        return _stop(settings)
    from estate.moves.mover import mover_of

    with mover_of(settings) as mover:
        if undo:
            return _undo(mover, output, at_once)
        return _balance(mover, output, goal, settings.pulsar.tenant, at_once, dry_run=dry_run, split=split)


def _balance(
    mover: "Mover", output: Output, goal: str, tenant: str, at_once: int, *, dry_run: bool, split: bool
) -> int:
    from estate.cli.moving import read_facts, show_moves
    from estate.plans.balance import Goal, hot_bundles, loads_of, plan_balance

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


def _split_point(facts: "MoveFacts", bundle: "WeightedBundle") -> int | None:
    from estate.plans.placement import parse_range, split_point

    topics = facts.topics[bundle.name]
    weights = {name: load.msg_throughput_in + load.msg_throughput_out for name, load in topics.items()}
    return split_point(parse_range(bundle.name.rpartition("/")[2]), weights)


def _say_hot(facts: "MoveFacts", hot: "list[WeightedBundle]") -> None:
    for bundle in hot:
        point = _split_point(facts, bundle)
        what = f"{bundle.name} carries more than any move can even out"
        fix = "it has one topic, which cannot be divided" if point is None else f"split it at {point:#010x} (--split)"
        say(f"{what}: {fix}.")


def _split(mover: "Mover", facts: "MoveFacts", hot: "list[WeightedBundle]") -> int:
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


def _stop(settings: "Settings") -> int:
    from estate.moves.mover import logs_of

    logs_of(settings).stop()
    say("The run begins no further move and finishes those under way. `--undo` takes them back.")
    return exit_codes.OK


def _undo(mover: "Mover", output: Output, at_once: int) -> int:
    """Put back what the last run moved, and forget that run if all of it is."""
    from estate.cli.moving import read_facts, show_progress
    from estate.moves.runner import MoveState

    path, moves = mover.logs.last()
    facts = read_facts(mover, {move.bundle for move in moves})
    progress = mover.carry_out(moves, facts, at_once, logged=False)
    if all(each.state is MoveState.VERIFIED for each in progress):
        path.unlink()
    return show_progress(output, progress, ["bundle", "target", "state", "reason"])
