"""Makes a Spark session that is set up for Fairlane's jobs."""

import logging
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from backends.extras import Missing
from spark_jobs.session import python_daemon
from spark_jobs.session.jvm import archive_options
from spark_jobs.session.requirements import HOW_TO_GET_JAVA, require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
QUICKLY_COMPILED_ROWS = 50_000_000
_LOGGING = Path(__file__).with_name("log4j2.properties").absolute()
_BATCH_ROWS = 20_000
"""Rows a Python worker is handed at once: some MB of targets and variables."""
_MOST_FAILURES = 10
"""Of one task, or in a row of one stage, before Spark gives the job up. By itself it does after four: a task that has
the bad luck to be on each executor that dies, or a stage whose input died with them, would end a job of an hour."""
_JVM_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
"""A JVM that is told two of them does not start."""
_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Variable by which spark-submit tells a Python driver where its JVM is."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """master: local[N], spark://HOST:PORT, yarn, k8s://…. driver_memory, executor_memory: as Spark writes them ("2g");
    in local mode the driver does all the work. Where spark-submit started this process, what that was told of these
    three counts. log_level: of Spark itself, whose errors are those of its tasks, also of ones that are tried again;
    what ends a job is an exception anyway. servers: as spark_jobs.session.servers.values_of gives them; None: as
    `register` finds them. conf: more settings, which come last."""

    app_name: str = "fairlane"
    master: str = LOCAL
    driver_memory: str = "2g"
    executor_memory: str = "2g"
    log_level: str = "FATAL"
    servers: Mapping[str, str] | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


def for_rows(master: str, rows: int) -> dict[str, str]:
    """Settings of Spark for a job on so many rows of the journal. On this machine, unless there are very many, the JVM
    compiles as quickly as it can and not as well: of 10 million half of its time went into the latter."""
    if not master.startswith("local") or rows > QUICKLY_COMPILED_ROWS:
        return {}
    chosen = any(_COLLECTOR.search(os.environ.get(name, "")) for name in _JVM_OPTIONS)
    collector = "" if chosen else " -XX:+UseParallelGC"
    return {"spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1{collector}"}


def make_session(settings: SessionSettings = SessionSettings()) -> "SparkSession":
    """A session that knows the formats "fairlane" and "fairlane-outcomes"; or the one that this process has already
    (its master and memory stay).

    Raises Missing if pyspark, pyarrow or Java is not there or Java is too old.
    """
    require_spark()
    submitted = _GATEWAY in os.environ
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    from spark_jobs.session.formats import register
    from spark_jobs.session.package import ship

    _prepare_environment()
    builder = SparkSession.builder.appName(settings.app_name)
    for name, value in {**({} if submitted else _place(settings)), **_conf(settings)}.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        cause = "Java ended before Spark had started: it is too old, or has no memory."
        raise Missing(cause, HOW_TO_GET_JAVA) from error
    spark.sparkContext.setLogLevel(settings.log_level)
    register(spark, settings.servers)
    ship(spark)
    return spark


def _place(settings: SessionSettings) -> dict[str, str]:
    """Where it runs, and with how much."""
    return {
        **(_here() if settings.master.startswith("local") else {}),
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.executor.memory": settings.executor_memory,
        "spark.ui.enabled": "false",
        "spark.driver.defaultJavaOptions": archive_options(),
    }


def _here() -> dict[str, str]:
    """Of a session whose driver is all of it."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.daemon.module": python_daemon.__name__,
    }


def _conf(settings: SessionSettings) -> dict[str, str]:
    return {
        "spark.task.maxFailures": str(_MOST_FAILURES),
        "spark.stage.maxConsecutiveAttempts": str(_MOST_FAILURES),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.pythonUDF.arrow.enabled": "false",  # would need pandas
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(_BATCH_ROWS),
        "spark.sql.session.timeZone": "UTC",
        **settings.conf,
    }


def _prepare_environment() -> None:
    """The JVM inherits it. Workers run what runs this, and Spark is quiet from its first line, unless the environment
    says otherwise (as it must on a cluster of other machines)."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    if "SPARK_CONF_DIR" not in os.environ:
        os.environ.setdefault("LOG4J_CONFIGURATION_FILE", _LOGGING.as_uri())
    logging.getLogger("py4j").setLevel(logging.ERROR)  # else every closed socket is told
