"""Ask the service which flows are suspected."""

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from dispatcher.model.flow_pause import FlowPause
from spark_jobs.session.servers import Servers, given_values, servers_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def flow_entries(spark: "SparkSession", servers: Servers | None = None) -> Mapping[str, FlowPause]:
    """Return the last entry of each flow. servers: None: those of the session.

    Raises Unreachable if Redis does not answer, and NotConfigured without its address.
    """
    from producers.connection import Connection

    if servers is None:
        servers = servers_of(given_values(dict(spark.sparkContext.getConf().getAll())))
    with closing(Connection(servers)) as connection:
        return connection.registry.service.flow_entries()
