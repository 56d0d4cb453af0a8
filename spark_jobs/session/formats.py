"""Register Fairlane's formats with a Spark session."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_jobs.journal import outcomes_source
from spark_jobs.source import source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession", servers: Mapping[str, str] | None = None) -> None:
    """Register the formats "fairlane" (to write) and "fairlane-outcomes" (to read) with a session.

    servers: as spark_jobs.session.servers.values_of returns them. None: taken from the session's configuration
    (spark.fairlane.pulsar.url, …) and the environment (FAIRLANE_PULSAR_URL, …).
    """
    source.register(spark, servers)
    outcomes_source.register(spark, servers)
