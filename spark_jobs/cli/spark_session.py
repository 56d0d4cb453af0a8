"""Common parts of commands that run on Spark: their options, and the session."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli.base.arguments import named_values
from fairlane.cli.base.options import F
from fairlane.worker.process.stop_signal import interrupted_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.session.session import SessionSettings


@dataclass(frozen=True)
class SparkOptions:
    """Options as given on the command line."""

    master: str
    memory: str
    conf: Mapping[str, str]

    def session(self, name: str, rows: int | None = None) -> AbstractContextManager["SparkSession"]:
        """Yield a session that is stopped at the end.

        rows: of the journal, if the job reads it.

        Raises Missing if pyspark, pyarrow or Java is missing.
        """
        from spark_jobs.session.session import SessionSettings, for_rows

        conf = {**({} if rows is None else for_rows(self.master, rows)), **self.conf}
        settings = SessionSettings(
            app_name=name,
            master=self.master,
            driver_memory=self.memory,
            executor_memory=self.memory,
            conf=conf,
        )
        return running(settings)


@contextmanager
def running(settings: "SessionSettings") -> Iterator["SparkSession"]:
    """Yield a session that is stopped at the end. Raises Missing if pyspark, pyarrow or Java is missing."""
    from spark_jobs.session.session import make_session

    spark = make_session(settings)
    with interrupted_by(signal.SIGINT):  # Spark's handler calls Java, also in the middle of another call
        try:
            yield spark
        finally:
            spark.stop()


def spark_options(command: F) -> F:
    """Give a command --master, --memory and --conf, as its argument `spark`."""

    @click.option(
        "--master",
        metavar="URL",
        default="local[*]",
        help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://URL. Ignored under spark-submit.",
    )
    @click.option("--memory", metavar="SIZE", default="1g", help="Memory of Spark's driver and executors.")
    @click.option("--conf", metavar="NAME=VALUE", multiple=True, help="Additional Spark setting; may be repeated.")
    @wraps(command)
    def with_spark(*args: Any, master: str, memory: str, conf: Sequence[str], **kwargs: Any) -> Any:
        values = named_values("--conf", conf, may_be_empty=True)
        return command(*args, spark=SparkOptions(master, memory, values), **kwargs)

    return with_spark  # type: ignore[return-value]  # the same command, with options
