"""`fairlane estate`: look at the Pulsar estate, guard it, record its state, and move its load."""

from pathlib import Path

import click

from fairlane.cli.base.arguments import seconds_between
from fairlane.cli.base.groups import Noun
from fairlane.cli.base.options import task_ids, with_options
from fairlane.cli.base.output import output_option

_MOVES = "estate.cli.handlers.moves"
_WATCH = "estate.cli.handlers.watch"
_moving = with_options(
    click.option("--dry-run", is_flag=True, help="Show the plan and move nothing."),
    click.option("--at-once", type=click.IntRange(1, 64), default=4, help="Moves under way at the same time."),
)


@click.group(cls=Noun, handlers="estate.cli.handlers.show")
def estate() -> None:
    """Look at the Pulsar estate under the service, guard it, record its state, and move its load on purpose."""


@estate.command()
@click.option("-w", "--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option("--every", type=seconds_between(0.5), default=2.0, help="Seconds between looks of --watch.")
@click.option("--count", type=click.IntRange(1), help="With --watch: stop after this many looks.")
@click.option("--stages", is_flag=True, help="Show the time of an envelope in each stage, with the slowest node.")
@output_option
def show() -> None:
    """Show brokers, bookies and the metadata store, and what is wrong with them.

    All nodes are asked at once, for at most 2 s each; one that does not answer is listed, too. Exits with 1 if
    something is wrong.
    """


@estate.command(handlers=_MOVES)
@click.option(
    "--goal", type=click.Choice(["bytes", "lanes", "cpu"]), default="bytes", help="The load that is made even."
)
@_moving
@click.option("--split", is_flag=True, help="Split bundles that are too large to be moved, before all else.")
@click.option("--undo", is_flag=True, help="Undo the last run of moves that was started on this machine.")
@click.option("--stop", is_flag=True, help="Tell the run of moves on this machine to begin no further move.")
@output_option
def balance() -> None:
    """Make the load of the brokers even: plan moves of bundles, carry them out, check by lookup where each bundle is.

    No broker gets more load than the most loaded one had before. A move after which Pulsar has the bundle elsewhere is
    tried again; one that fails five times is given up and listed. Exits with 1 if one was given up. Only bundles of
    this installation are moved.
    """


@estate.command(handlers=_MOVES)
@click.argument("broker", metavar="HOST:PORT")
@_moving
@output_option
def drain() -> None:
    """Move all bundles of a broker to the others, for maintenance. HOST:PORT is its REST address.

    Pulsar may load bundles there again later, so stop the broker soon. Exits with 1 if a bundle was left behind.
    """


@estate.command(handlers=_MOVES)
@_moving
@output_option
def spread() -> None:
    """Let the standing topics begin new ledgers, so that a bookie that was added gets its part of them.

    Standing topics always exist: shared and retry lanes, control, outcomes and dead letters. New ledgers use all
    bookies, but such a topic keeps its present ledger for up to four hours. Each topic pauses for some tenths of a
    second. Exits with 1 if a topic was given up.
    """


@estate.command(handlers=_WATCH)
@click.option("--act", is_flag=True, help="Take slow nodes out of service and put them back; without it, only say so.")
@click.option(
    "--metrics-port",
    type=click.IntRange(-1, 65_535),
    default=0,
    help="Port of the Prometheus metrics; 0 for any free port, -1 for none.",
)
def guard() -> None:
    """Watch brokers and bookies, name slow ones, and with --act isolate them until they are well.

    Several guards may run: one is elected, and another takes over within 4 s if it ends. A slow bookie becomes
    read-only, a slow broker is drained. One node at a time is isolated, and none if too few writable bookies or brokers
    would be left, or if more than a third of its kind are slow. SIGTERM or Ctrl-C ends it.
    """


@estate.command(handlers=_WATCH)
@click.option("--task", metavar="ID", shell_complete=task_ids, help="Record this task and its lane in any case.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the archive. Default: `captures` in FAIRLANE_HOME, where the newest 20 are kept.",
)
def capture() -> None:
    """Record the state of the estate and the service in one archive, for those who look into an incident.

    All brokers and bookies are asked at once, for at most 5 s each; what does not answer is noted in the archive. It
    has what `doctor` reads: load, metrics, settings, Fairlane's own view; and the statistics of lanes that are blocked
    or have the largest backlog. Secrets are masked. It has at most 20 MB: the largest texts are left out. Prints its
    path.
    """
