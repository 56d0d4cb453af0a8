"""`fairlane reconcile`: checks whether the recorded outcomes add up to what was requested."""

import click

from fairlane.cli.base.groups import Declared
from fairlane.cli.base.options import task_ids
from fairlane.cli.base.output import output_option
from spark_jobs.cli.options import require_spark, source_options, spark_options, tables_option


@click.command(cls=Declared, handlers="spark_jobs.cli.handlers.reconcile", requires=require_spark)
@click.argument("task", required=False, shell_complete=task_ids)
@click.option("--day", metavar="YYYY-MM-DD", help="All tasks that were accepted or sent on this day (UTC).")
@click.option("--audience", metavar="PATH", help="The table that TASK was ingested from, to compare target by target.")
@source_options
@click.option("--list", "listed", type=click.IntRange(0), default=20, help="Maximum number of differences shown.")
@tables_option
@spark_options
@output_option
def reconcile() -> None:
    """Check that the outcomes of TASK, or of a day's tasks, add up. Give either TASK or --day.

    The sum audience = sent + invalid + failed + expired + cancelled + pending comes from the outcome journal alone.
    The column `live` compares it with the live counters. Differences are listed and stored in the table reconcile/:
    targets with two outcomes and, with --audience, targets without one and targets that are not in the audience.
    --audience needs a journal that names all targets: set the workers' setting journal.targets to all before the task
    is sent.

    Exit code 1 if anything does not add up or contradicts the live counters; a journal that is only behind them does
    not. First bring it up to date: `fairlane journal run --once`.
    """
