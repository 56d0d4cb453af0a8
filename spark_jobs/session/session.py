"""Make a Spark session that is set up for Fairlane's jobs."""

import logging
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from backends.extras import Missing, require_packages
from backends.settings import ConnectionSettings, StorageSettings
from spark_jobs.session import python_daemon
from spark_jobs.session.failures import failure_of
from spark_jobs.session.package import ship
from spark_jobs.session.servers import session_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICKLY_COMPILED_ROWS = 50_000_000
_OLDEST_JAVA = 17
_HOW_TO_GET_JAVA = (
    f"Install Java {_OLDEST_JAVA} or newer (Debian: `apt-get install openjdk-17-jre-headless`) or set JAVA_HOME."
)
_LOGGING = Path(__file__).with_name("log4j2.properties").absolute()
_BATCH_ROWS = 20_000
"""The number of rows a Python worker gets at once: a few MB of targets and variables."""
_MAX_FAILURES = 10
"""The number of failures of one task, or in a row of one stage, before Spark gives up on the job.

Spark's default is four: a task that happens to be on each executor that dies, or a stage whose input died with them,
would end an hour-long job.
"""
_JVM_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
"""Matches the choice of a garbage collector. A JVM does not start with two of them."""
_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""The variable by which spark-submit passes the JVM's port to a Python driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Settings of a session. If spark-submit started this process, its master and memory settings win."""

    app_name: str = "fairlane"
    master: str = "local[*]"
    """local[N], spark://HOST:PORT, yarn, k8s://…."""
    driver_memory: str = "2g"
    """In Spark's notation ("2g"). In local mode the driver does all the work."""
    executor_memory: str = "2g"
    """In Spark's notation ("2g")."""
    log_level: str = "FATAL"
    """The level of Spark's own log.

    Its errors include those of tasks that are retried; an error that ends a job is an exception anyway.
    """
    servers: Mapping[str, str] | ConnectionSettings | None = None
    """As in `register`."""
    storage: StorageSettings = field(default_factory=StorageSettings)
    """The keys of the object store that Spark reads and writes."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """More settings, which override all others."""


def for_rows(master: str, rows: int) -> dict[str, str]:
    """Return Spark's settings for a job on this number of rows of the journal.

    On this machine, unless there are very many rows, the JVM compiles as quickly as it can instead of as well as it
    can: for 10 million rows, thorough compilation took half of the time.
    """
    if not master.startswith("local") or rows > QUICKLY_COMPILED_ROWS:
        return {}
    chosen = any(_COLLECTOR.search(os.environ.get(name, "")) for name in _JVM_OPTIONS)
    collector = "" if chosen else " -XX:+UseParallelGC"
    return {"spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1{collector}"}


def require_spark(env: Mapping[str, str] = os.environ) -> None:
    """Raise Missing if pyspark, pyarrow or a Java to run Spark is not installed."""
    require_packages("spark", "pyspark", "pyarrow", "deltalake")
    if _java(env) is None:
        raise Missing("Spark needs Java, which was not found.", _HOW_TO_GET_JAVA)


def _java(env: Mapping[str, str]) -> Path | None:
    """Find Java the way Spark does."""
    if env.get("JAVA_HOME"):
        program = Path(env["JAVA_HOME"]) / "bin" / "java"
        return program if os.access(program, os.X_OK) else None
    path = shutil.which("java", path=env.get("PATH", ""))
    return Path(path) if path else None


def make_session(settings: SessionSettings = SessionSettings()) -> "SparkSession":
    """Return a session with the formats "fairlane" and "fairlane-outcomes".

    If this process already has a session, it is used, with its master and memory. Raises Missing if pyspark, pyarrow or
    Java is not installed, or Java is too old; JobFailed if Spark does not start, such as for a wrong master.
    """
    require_spark()
    submitted = _GATEWAY in os.environ
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    from spark_jobs.storage.folder import use_storage

    _prepare_environment()
    builder = SparkSession.builder.appName(settings.app_name)
    for name, value in {**({} if submitted else _where(settings)), **_conf(settings)}.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        cause = (
            "Java ended before Spark had started, with the message above: it is too old, has too little memory, or "
            "an option of Spark is wrong (--master, --memory, --conf)."
        )
        raise Missing(cause, _HOW_TO_GET_JAVA) from error
    except Py4JJavaError as error:
        raise failure_of(error) from error
    spark.sparkContext.setLogLevel(settings.log_level)
    use_storage(spark, settings.storage)
    register(spark, settings.servers)
    ship(spark)
    return spark


def register(spark: "SparkSession", servers: Mapping[str, str] | ConnectionSettings | None = None) -> None:
    """Register the formats "fairlane" (to write) and "fairlane-outcomes" (to read) with a session.

    servers: `fairlane.Settings()`, which has the servers that commands use, those of a local stack too; or as
    spark_jobs.session.servers.values_of returns them. None: taken from the session's configuration
    (spark.fairlane.pulsar.url, …) and the environment (FAIRLANE_PULSAR_URL, …).
    """
    from spark_jobs.journal.outcomes_source import OutcomesSource
    from spark_jobs.source.source import FairlaneSource

    values = session_values(spark, servers)

    class TaskSource(FairlaneSource):  # pickled by value, so that it carries the servers along
        servers = values

    class OutcomeSource(OutcomesSource):
        servers = values

    spark.dataSource.register(TaskSource)
    spark.dataSource.register(OutcomeSource)


def _where(settings: SessionSettings) -> dict[str, str]:
    """Return the settings for where the session runs, and with how much memory."""
    in_the_driver = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.daemon.module": python_daemon.__name__,
    }
    return {
        **(in_the_driver if settings.master.startswith("local") else {}),
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.executor.memory": settings.executor_memory,
        "spark.ui.enabled": "false",
    }


def _conf(settings: SessionSettings) -> dict[str, str]:
    return {
        "spark.task.maxFailures": str(_MAX_FAILURES),
        "spark.stage.maxConsecutiveAttempts": str(_MAX_FAILURES),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.pythonUDF.arrow.enabled": "false",  # would need pandas
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(_BATCH_ROWS),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.timeType.enabled": "true",
        **settings.conf,
    }


def locale_of_java(env: Mapping[str, str]) -> dict[str, str]:
    """Return what must change in an environment, so that Java finds files whose path has letters that are not ASCII."""
    return {"LC_ALL": "C.UTF-8"} if env.get("LC_ALL") in ("C", "POSIX") else {}  # Python has seen to LANG=C


def _prepare_environment() -> None:
    """Set up the environment, which the JVM inherits.

    Unless the environment has other values (as it must on a cluster of other machines), workers run the same Python as
    this process, and Spark is quiet from its first line.
    """
    os.environ.update(locale_of_java(os.environ))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    if "SPARK_CONF_DIR" not in os.environ:
        os.environ.setdefault("LOG4J_CONFIGURATION_FILE", _LOGGING.as_uri())
    logging.getLogger("py4j").setLevel(logging.ERROR)  # else it logs every closed socket
