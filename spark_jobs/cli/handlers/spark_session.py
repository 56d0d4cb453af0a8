"""The Spark session of a command."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql import SparkSession

from fairlane.worker.process.stop_signal import interrupted_by
from spark_jobs.session.session import SessionSettings, for_rows, make_session


def spark_session(
    name: str, rows: int | None = None, *, master: str, memory: str, conf: Mapping[str, str]
) -> AbstractContextManager[SparkSession]:
    """Yield a session with the options of the command line; it is stopped at the end.

    rows: of the journal, if the job reads it. Raises Missing if pyspark, pyarrow or Java is missing.
    """
    conf = {**({} if rows is None else for_rows(master, rows)), **conf}
    return running(
        SessionSettings(app_name=name, master=master, driver_memory=memory, executor_memory=memory, conf=conf)
    )


@contextmanager
def running(settings: SessionSettings) -> Iterator[SparkSession]:
    """Yield a session that is stopped at the end. Raises Missing if pyspark, pyarrow or Java is missing."""
    spark = make_session(settings)
    with interrupted_by(signal.SIGINT):  # Spark's handler calls Java, also in the middle of another call
        try:
            yield spark
        finally:
            spark.stop()
