"""`fairlane stack`: the local Pulsar and Redis."""

import click

from fairlane.cli.base.groups import Noun
from fairlane.cli.base.output import output_option


@click.group(cls=Noun, handlers="lab.cli.handlers.stack")
def stack() -> None:
    """The local stack: a real Pulsar and a real Redis on this machine, with little memory."""


@stack.command()
@click.option("--wipe", is_flag=True, help="Delete all data and logs, too.")
def down() -> None:
    """Stop Pulsar and Redis; their data stays unless --wipe."""


@stack.command()
@output_option
def status() -> None:
    """Show the local servers, their addresses and the paths of their logs. Exits with 1 unless all are running."""


@stack.command()
@click.option("--pulsar-port", type=click.IntRange(1, 65535), help="Pulsar's port; must be free")
@click.option("--pulsar-web-port", type=click.IntRange(1, 65535), help="Pulsar's REST port; must be free")
@click.option("--redis-port", type=click.IntRange(1, 65535), help="Redis' port; must be free")
@click.option("--bookies", type=click.IntRange(1, 9), help="Start an estate with this many bookies (default 3).")
@click.option("--brokers", type=click.IntRange(1, 9), help="Start an estate with this many brokers (default 2).")
@output_option
def up() -> None:
    """Start Pulsar and Redis, wait until they are ready, and provision Pulsar.

    With --bookies or --brokers, Pulsar is an estate instead of one process: ZooKeeper, bookies (each on an address of
    its own in 127/8) and brokers. Three bookies and two brokers take half a minute to start and 1.3 GB. An estate can
    grow while it runs.

    The usual ports are 6650, 8080 and 6379; if one is taken, the next free one is used and printed. The addresses stay
    in force until `stack down`: if a server has stopped, `stack up` starts it again on its port if that is free.
    """
