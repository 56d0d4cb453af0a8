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

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.journal.job import Journal as Journal
    from spark_jobs.journal.job import JournalOptions as JournalOptions
    from spark_jobs.session.session import SessionSettings as SessionSettings
    from spark_jobs.session.session import make_session as make_session
    from spark_jobs.session.session import register as register

_HOMES = {
    "Journal": "spark_jobs.journal.job",
    "JournalOptions": "spark_jobs.journal.job",
    "SessionSettings": "spark_jobs.session.session",
    "make_session": "spark_jobs.session.session",
    "register": "spark_jobs.session.session",
}

__all__ = [
    "Journal",
    "JournalOptions",
    "SessionSettings",
    "make_session",
    "register",
]


def __getattr__(name: str) -> object:
    """Import a public name from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    return value
