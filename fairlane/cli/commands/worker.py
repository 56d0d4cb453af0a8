"""`fairlane worker`: run workers. `fairlane worker list`: show them, what they do and how fast."""

import click

from fairlane.cli.base.arguments import DURATION
from fairlane.cli.base.groups import Noun
from fairlane.cli.base.output import output_option


@click.group(cls=Noun, handlers="fairlane.cli.handlers.worker", invoke_without_command=True)
@click.option("--processes", type=click.IntRange(1, 256), help="Number of worker processes.  [default: 1]")
@click.option("--name", help="Name of the worker; with several processes NAME-1, NAME-2, ...")
@click.option(
    "--channel",
    "channels",
    multiple=True,
    metavar="NAME=MODULE:CLASS",
    help="Add a channel of your own; may be repeated.",
)
@click.option("--tiers", metavar="TIER,...", help="Serve only the lanes of these tiers.  [default: all]")
@click.option(
    "--metrics-port",
    type=click.IntRange(-1, 65_535),
    help="Port of the Prometheus metrics; 0 for any free port, -1 for none.",
)
@click.option(
    "--drain-timeout",
    "drain_timeout_s",
    type=DURATION,
    help="How long a worker may take to finish, such as 20s; others take over the rest.",
)
def worker() -> None:
    """Run workers. On SIGTERM, SIGINT or SIGHUP they finish the work they have claimed, and exit."""


@worker.command("list", handlers="fairlane.cli.handlers.view")
@click.option("--all", "everybody", is_flag=True, help="Include workers that stopped in the last hour.")
@output_option
def list_workers() -> None:
    """Show the workers: state, lanes, targets in flight and buffered, targets sent per second."""
