"""`fairlane capacity`, `tier`, `signals`, `top`: the service as a whole."""

import click

from dispatcher.model.tier import SHARED_BY, TIERS
from fairlane.cli.base.arguments import Assignment, CapText, seconds_between
from fairlane.cli.base.groups import Declared, Noun
from fairlane.cli.base.output import output_option
from fairlane.cli.commands.changes import HANDLERS, Change, dry_run_options

_FIGURES = "fairlane.cli.handlers.service"


@click.group(cls=Noun, handlers=HANDLERS)
def capacity() -> None:
    """The number of targets per second that all workers together may send."""


@capacity.command("set")
@click.argument("rate", metavar="RATE[:BURST]", type=CapText("capacity"))
@dry_run_options
def set_capacity() -> None:
    """Set the capacity to RATE targets/s, with bursts of up to BURST (default: RATE / 4); 0 means unlimited.

    It bounds what workers are granted. They send it within 2 s, so a provider may see 1.4 times RATE in a
    single second, and more after a stall. For a limit that holds at the provider, use `fairlane channel cap`.
    """


@capacity.command("show", handlers=_FIGURES)
@output_option
def show_capacity() -> None:
    """Show the capacity and how much of it was used in the last three seconds.

    As JSON an unlimited capacity is 0, and `used` is then null.
    """


@click.group(cls=Noun, handlers=HANDLERS)
def tier() -> None:
    """Tiers: their weights, and their wanted and actual shares."""


@tier.command("set")
@click.argument("weights", metavar="TIER=WEIGHT...", nargs=-1, required=True, type=Assignment(*map(str, TIERS)))
@dry_run_options
def set_tiers() -> None:
    """Set the weights of tiers, such as high=6 medium=3 low=1. Tiers that are not named keep theirs."""


@tier.command("sharing", cls=Change, done="each tier is now shared by the weights of its {shared_by}")
@click.argument("shared_by", metavar="tasks|apps", type=click.Choice(SHARED_BY))
@dry_run_options
def set_sharing() -> None:
    """Choose how the capacity of each tier is shared.

    tasks: by the weights of its tasks. apps: by the weights of apps, then by the weights of their tasks. `fairlane tier
    show` has the present choice.
    """


@tier.command("show", handlers=_FIGURES)
@output_option
def show_tiers() -> None:
    """Show weights, backlogs, shares and rates of the last three seconds, and the longest wait of an envelope for its
    turn at the present capacity."""


@click.command(cls=Declared, handlers=_FIGURES)
@output_option
def signals() -> None:
    """Show what limits the rate, how many workers are needed, and each tier's backlog, rates and spare capacity.

    Measures for two seconds. The backlog counts targets that may be sent now. (The queued targets of `fairlane
    channel list` and `fairlane app list` also include those of paused and scheduled tasks.) `caps` names the caps that
    hold the backlog back. Tasks whose channel no worker serves are not counted in the backlog,
    since adding workers of the same kind would not send them: `missing_channels` names the channels.

    If Redis was restarted or emptied while no worker ran, only a worker can restore the counts: until one runs, one
    worker is reported as needed, and the figures of the tiers are missing.
    """


@click.command(cls=Declared, handlers=_FIGURES)
@click.option("--every", type=seconds_between(0.1), default=0.5, help="Seconds between updates.")
@click.option("--count", type=click.IntRange(1), help="Stop after this many updates.")
def top() -> None:
    """Watch tiers, tasks and workers live; quit with Ctrl-C. If output is not a terminal, print plain lines."""
