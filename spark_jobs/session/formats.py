"""Register Fairlane's formats with a Spark session."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_jobs.journal.outcomes_source import OutcomesSource
from spark_jobs.session.servers import given_values
from spark_jobs.source.source import FairlaneSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession", servers: Mapping[str, str] | None = None) -> None:
    """Register the formats "fairlane" (to write) and "fairlane-outcomes" (to read) with a session.

    servers: as spark_jobs.session.servers.values_of returns them. None: taken from the session's configuration
    (spark.fairlane.pulsar.url, …) and the environment (FAIRLANE_PULSAR_URL, …).
    """
    values = given_values(dict(spark.sparkContext.getConf().getAll())) if servers is None else dict(servers)

    class TaskSource(FairlaneSource):  # pickled by value, so that it carries the servers along
        servers = values

    class OutcomeSource(OutcomesSource):
        servers = values

    spark.dataSource.register(TaskSource)
    spark.dataSource.register(OutcomeSource)
