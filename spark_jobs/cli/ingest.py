"""`fairlane ingest`: turn a table into a task."""

from pathlib import Path

import click

from fairlane.cli.base.arguments import FRACTION
from fairlane.cli.base.groups import Declared
from fairlane.cli.base.output import output_option
from spark_jobs.cli.options import source_options, spark_options, tables_option


@click.command(cls=Declared, handlers="spark_jobs.cli.handlers.abandon")
@click.argument("taskfile", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--audience",
    metavar="PATH",
    help="The table: a file, folder or pattern; for jdbc its URL. Default: `targets` in TASKFILE.",
)
@source_options
@click.option(
    "--suppress",
    metavar="PATH",
    multiple=True,
    help="Leave these targets out: a table with a column target. --option and --map count for it, too; with names like "
    "suppress.delimiter only for it.",
)
@click.option(
    "--min-matched",
    type=FRACTION,
    default="50%",
    help="Send nothing if less than this part of the rows of a --suppress table can be targets of the channel.",
)
@click.option(
    "--invalid-targets/--no-invalid-targets", default=True, help="Leave out targets that providers reported as invalid."
)
@click.option(
    "--max-refused", type=FRACTION, default="5%", help="Send nothing if more than this part of the rows is invalid."
)
@click.option(
    "--strict", is_flag=True, help="Refuse a task whose channel no live worker serves; without it, only warn."
)
@click.option("--dry-run", is_flag=True, help="Only report what would be accepted and left out. Needs no servers.")
@click.option("--abandon", is_flag=True, help="End the tasks of TASKFILE that failed runs have left incomplete.")
@tables_option
@spark_options
@output_option
def ingest() -> None:
    """Submit the task that TASKFILE describes, with a table of any size as its audience.

    TASKFILE is YAML or JSON, as for `fairlane task submit`: the fields of a task (id, app, tier, channel, message,
    ttl_s, ...) and optionally `targets` (the table), `variables` (columns that are sent with each target; default:
    all others) and `split` (columns; each combination of their values becomes a task). Every row is checked;
    duplicates and suppressed targets are left out. Rows left out are written to the table rejects/ with the reason.
    The task is held until the whole table is stored. A run that ended early has sent nothing; run it again to finish,
    or end what it left with --abandon.

    \b
    fairlane ingest sale.yaml --audience people.parquet
    fairlane ingest sale.yaml --audience people.csv --map token=target --suppress optout.parquet --dry-run

    Below about a million rows `fairlane task submit` does the same without Spark.
    """
