"""Options that the commands of tables share, and what these commands require."""

import click

from fairlane.cli.base.arguments import named_values
from fairlane.cli.base.options import with_options
from fairlane.floors import loaded


def require_spark() -> None:
    """Raise Missing if pyspark, pyarrow or a Java to run Spark is not installed."""
    loaded("spark_jobs.session.session:require_spark")()


tables_option = click.option(
    "--tables",
    type=click.Path(file_okay=False),
    help="Directory of the tables, or its URL in an object store, instead of the setting `tables`.",
)
spark_options = with_options(
    click.option(
        "--master",
        metavar="URL",
        default="local[*]",
        help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://URL. Ignored under spark-submit.",
    ),
    click.option("--memory", metavar="SIZE", default="1g", help="Memory of Spark's driver and executors."),
    click.option(
        "--conf",
        metavar="NAME=VALUE",
        multiple=True,
        callback=lambda _ctx, _param, conf: named_values("--conf", conf, may_be_empty=True),
        help="Additional Spark setting; may be repeated.",
    ),
)
source_options = with_options(
    click.option(
        "--format",
        "table_format",
        type=click.Choice(["parquet", "csv", "json", "lines", "orc", "jdbc"]),
        help="Format of the audience; default: guessed from its name, else from its content.",
    ),
    click.option(
        "--option",
        "reader",
        metavar="NAME=VALUE",
        multiple=True,
        help="Option of Spark's reader, such as dbtable=t. Of CSV only delimiter=:.",
    ),
    click.option(
        "--map", "names", metavar="COLUMN=FIELD", multiple=True, help="Rename a column, for example token=target."
    ),
)
