"""The Spark session of a command, and the folder of its tables."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import click
from pyspark.sql import SparkSession

from fairlane.cli.base.settings import settings_of
from fairlane.settings import Settings
from fairlane.worker.process.stop_signal import interrupted_by
from spark_jobs.session.session import SessionSettings, for_rows, make_session
from spark_jobs.storage.folder import Folder


def tables_of(settings: Settings, tables: str | None) -> Folder:
    """Return the folder of all tables, with the keys of its store. tables: the option of the command line."""
    return Folder.of(tables or settings.tables_folder, settings.storage)


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
    spark = make_session(replace(settings, storage=settings_of(click.get_current_context()).storage))
    with interrupted_by(signal.SIGINT):  # Spark's handler calls Java, also in the middle of another call
        try:
            yield spark
        finally:
            spark.stop()
