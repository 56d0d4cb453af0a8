"""`fairlane registry adopt | rebuild | snapshot | status`: the view in Redis, and how to rebuild it from Pulsar."""

import click

from fairlane.cli.base.arguments import DURATION
from fairlane.cli.base.groups import Noun
from fairlane.cli.base.output import output_option

_timeout = click.option("--timeout", type=DURATION, default="10m", help="Maximum time to wait for completion.")


@click.group(cls=Noun, handlers="fairlane.cli.handlers.rebuild")
def registry() -> None:
    """The view: the copy in Redis of tasks, counts and claims. It can always be rebuilt from Pulsar."""


@registry.command()
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_timeout
@output_option
def adopt() -> None:
    """Move the view to the Redis that redis.url names for this command. There, all keys that begin with redis.prefix
    are deleted, and the view is rebuilt from Pulsar. The old Redis is not changed.

    Workers on the old Redis stop within seconds; start them again with the new redis.url."""


@registry.command()
@click.option("--wipe", is_flag=True, help="Empty the view first. Nothing is lost; sending pauses until it is rebuilt.")
@click.option("--full", is_flag=True, help="Delete the snapshots first, so that all records are read.")
@_timeout
@output_option
def rebuild() -> None:
    """Rebuild the view from the newest snapshot and from Pulsar's control and outcome topics. Workers do this by
    themselves when Redis is empty."""


@registry.command()
@output_option
def snapshot() -> None:
    """Store a snapshot of the view now; the next rebuild starts from it. Workers also do this by themselves."""


@registry.command(handlers="fairlane.cli.handlers.view")
@output_option
def status() -> None:
    """Show whether the view is complete, how far a rebuild has got, and counters of rare events.

    \b
    repeats           an attempt of an envelope was recorded twice
    repeats_possible  targets that may be sent twice: a worker that was sending them died or stalled before
                      it recorded them
    granted, used, returned, expired
                      targets of leases by tier: leased, sent, given back in time, not given back in time
    malformed         records that this version cannot read; it skipped them. passed_over has their positions;
                      after an upgrade, workers read them again by themselves
    """
