"""Options of Spark's JVM on this machine."""

import sys
from importlib.metadata import version
from pathlib import Path

SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""An archive that does not fit is no error, and nothing to hear of."""


def archive() -> Path:
    """Where spark_jobs.session.class_archive puts Spark's classes: beside the packages, since they are those
    of one pyspark."""
    return Path(sys.prefix) / "share" / "fairlane" / f"spark-{version('pyspark')}.jsa"


def archive_options() -> str:
    """So that Java takes the classes from there; empty if they are not there."""
    file = archive()
    return f'"-XX:SharedArchiveFile={file}" {SILENT}' if file.exists() else ""
