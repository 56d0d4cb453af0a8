"""Makes Fairlane's formats known to a Spark session."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_jobs.journal import outcomes_source
from spark_jobs.source import source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession", servers: Mapping[str, str] | None = None) -> None:
    """Makes the formats "fairlane" (to write) and "fairlane-outcomes" (to read) known to a session. servers: as
    spark_jobs.session.servers.values_of gives them; None: what the session's configuration (spark.fairlane.pulsar.url,
    …) and the environment (FAIRLANE_PULSAR_URL, …) say."""
    source.register(spark, servers)
    outcomes_source.register(spark, servers)
