"""`fairlane tier show | set | sharing`."""

from dataclasses import asdict
from typing import Any

import click

from backends.system_clock import SystemClock
from dispatcher.analysis.longest_wait import Lane, LongestWait, longest_waits
from dispatcher.analysis.served import Served, waiting_tasks
from dispatcher.model.tier import MILLI, SHARED_BY, TIERS
from dispatcher.model.view import TaskView
from fairlane.cli.base.arguments import Assignment
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.output import Output, output_option, say
from fairlane.cli.service.change import Trial, change_service, dry_run_option
from fairlane.screen.sample import Sample, sample_of


@click.group(cls=CommandGroup)
def tier() -> None:
    """Tiers: their weights, and their wanted and actual shares."""


@tier.command()
@output_option
@click.pass_context
def show(ctx: click.Context, output: Output) -> None:
    """Show weights, backlogs, shares and rates of the last three seconds, and the longest wait of an envelope for its
    turn at the present capacity."""
    from fairlane.screen.render import tiers_table

    with client_of(ctx) as client:
        sample = sample_of(client, SystemClock())
    waits = waits_of(sample)
    tiers = {tier.tier: {**asdict(tier), **_wait_fields(waits[tier.tier])} for tier in sample.tiers}
    missing = waiting_tasks(Served.by(sample.workers), sample.tasks)
    document = {
        "sharing": sample.settings.sharing,
        "tiers": tiers,
        "missing_channels": [waiting._asdict() for waiting in missing],
    }
    longest = {tier: wait.seconds for tier, wait in waits.items()}
    output.emit(document, lambda: tiers_table(sample.tiers, longest))
    if not output.as_json and sample.settings.sharing != SHARED_BY[0]:
        say("within a tier, the capacity is shared by apps, then by the tasks of each app")
    for waiting in missing:
        say(str(waiting))


@tier.command("set")
@click.argument("weights", metavar="TIER=WEIGHT...", nargs=-1, required=True, type=Assignment(*map(str, TIERS)))
@dry_run_option
@click.pass_context
def set_weights(ctx: click.Context, trial: Trial, weights: tuple[tuple[str, str], ...]) -> None:
    """Set the weights of tiers, such as high=6 medium=3 low=1. Tiers that are not named keep theirs."""
    try:
        given = {name: float(text) for name, text in weights}
    except ValueError as error:
        raise click.UsageError(f"A weight must be a number: {error}.") from None
    with client_of(ctx) as client:
        new_weights = {**client.globals().tier_weights, **given}
    done = " ".join(f"{name}={value:g}" for name, value in new_weights.items())
    change_service(ctx, trial, lambda service: service.set_tiers(**new_weights), done)


@tier.command()
@click.argument("shared_by", metavar="tasks|apps", type=click.Choice(SHARED_BY))
@dry_run_option
@click.pass_context
def sharing(ctx: click.Context, trial: Trial, shared_by: str) -> None:
    """Choose how the capacity of each tier is shared.

    tasks: by the weights of its tasks. apps: by the weights of apps, then by the weights of their tasks. `fairlane tier
    show` has the present choice.
    """
    change_service(
        ctx,
        trial,
        lambda service: service.set_sharing(shared_by),
        f"each tier is now shared by the weights of its {shared_by}",
    )


def waits_of(sample: Sample) -> dict[str, LongestWait]:
    """Return the longest waits for the lanes that have something to send now; None (unknown) without a worker."""
    settings = sample.settings
    lanes: dict[str, list[TaskView]] = {}
    for task in sample.sending:
        lanes.setdefault(task.lane, []).append(task)
    busy = [
        Lane(
            tasks[0].tier,
            tasks[0].app,
            max(1, round(MILLI * sum(task.weight for task in tasks))),
            max(task.chunk for task in tasks),
        )
        for tasks in lanes.values()
    ]
    waits = longest_waits(settings.capacity, settings.tier_milli, busy, settings.sharing, settings.app_milli)
    if any(beat.is_live for beat in sample.workers):
        return waits
    return {tier: wait._replace(seconds=None) for tier, wait in waits.items()}


def _wait_fields(wait: LongestWait) -> dict[str, Any]:
    seconds = None if wait.seconds is None else round(wait.seconds, 3)
    return {"longest_wait_s": seconds, "turns": wait.sends, "largest_chunk": wait.chunk}
