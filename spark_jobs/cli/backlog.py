"""`fairlane backlog snapshot | report`: how the backlog arose, what holds it back, and when it will be gone."""

from functools import partial

import click

from backends.extras import require_packages
from fairlane.cli.base.arguments import DURATION, LONGEST_DAYS
from fairlane.cli.base.groups import Noun
from fairlane.cli.base.output import output_option, report_option
from spark_jobs.cli.options import require_spark, tables_option


@click.group(cls=Noun, handlers="spark_jobs.cli.handlers.backlog", requires=require_spark)
def backlog() -> None:
    """Record the state of lanes, tiers and caps, and report on the backlog."""


@backlog.command()
@click.option("--since", "since_s", type=DURATION, default="24h", help="How far back to look.")
@click.option(
    "--recent", "recent_s", type=DURATION, default="5m", help="Measure rates over only this last part of the period."
)
@click.option(
    "--capacity",
    type=click.IntRange(1),
    metavar="RATE",
    help="Forecast the time to drain at this rate (targets/s) instead of the capacity in force.",
)
@click.option("--top", type=click.IntRange(1, 1_000), default=20, help="Number of tasks shown.")
@click.option("--master", default="local[*]", help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://URL.")
@tables_option
@report_option("Output format; html is a single page with charts; redirect it to a file.")
def report() -> None:
    """Report who waited, when and why, by app and task, and when the backlog will be gone.

    Tasks that have ended are in it. Runs a Spark job over the snapshots of `fairlane backlog snapshot`
    and, if there is one, the outcome journal.
    """


@backlog.command(
    handlers="spark_jobs.cli.handlers.snapshot", requires=partial(require_packages, "spark", "pyarrow", "deltalake")
)
@click.option("--every", "every_s", type=DURATION, default="10s", help="Time between two snapshots.")
@click.option("--once", is_flag=True, help="Take one snapshot and print it.")
@click.option(
    "--keep-days", type=click.IntRange(0, LONGEST_DAYS), default=14, help="Days to keep snapshots; 0 keeps all."
)
@tables_option
@output_option
def snapshot() -> None:
    """Record the state of lanes, tiers and caps in TABLES/backlog until SIGTERM or SIGINT.

    Each snapshot is one request to Redis and one to each broker, however many lanes there are; one that could not be
    taken is skipped. `fairlane backlog report` reads them. -o sets the output format of --once.
    """
