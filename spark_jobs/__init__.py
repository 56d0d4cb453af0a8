"""Spark jobs that turn tables into tasks and explain the backlog, and a data source to write to.

Only this package imports pyspark. Its commands are in `spark_jobs.cli`.

>>> from spark_jobs import SessionSettings, make_session
>>> spark = make_session(SessionSettings(app_name="sale"))
>>> table = spark.read.parquet("audience").select("target", "name").write.format("fairlane").mode("append")
>>> table.options(id="sale", app="shop", tier="high", channel="fcm", message="Sale!").save()

`register` adds the formats to a session made elsewhere (spark-submit, a notebook). spark_jobs.journal.tables reads the
tables of the outcome journal.

Names are imported on first use: pyspark is an extra, and nothing needs it earlier.
"""

from typing import TYPE_CHECKING

from fairlane.public_names import public_module

if TYPE_CHECKING:
    from spark_jobs.journal.job import Journal as Journal
    from spark_jobs.journal.job import JournalOptions as JournalOptions
    from spark_jobs.session.session import SessionSettings as SessionSettings
    from spark_jobs.session.session import make_session as make_session
    from spark_jobs.session.session import register as register

__all__ = [
    "Journal",
    "JournalOptions",
    "SessionSettings",
    "make_session",
    "register",
]

_HOMES = dict.fromkeys(__all__, "spark_jobs.session.session") | dict.fromkeys(
    ("Journal", "JournalOptions"), "spark_jobs.journal.job"
)

if not TYPE_CHECKING:  # type checkers report a name that is not listed above
    __getattr__, __dir__ = public_module(__name__, __all__, _HOMES)
