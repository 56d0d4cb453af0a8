"""Options of Spark's JVM on this machine."""

import sys
from importlib.metadata import version
from pathlib import Path

SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Silences the JVM's log: an archive that does not fit is not an error."""


def archive() -> Path:
    """Return the file of spark_jobs.session.class_archive, which is beside the packages: it belongs to one pyspark."""
    return Path(sys.prefix) / "share" / "fairlane" / f"spark-{version('pyspark')}.jsa"


def archive_options() -> str:
    """Return the options that make Java use the archive; empty if there is none."""
    file = archive()
    return f'"-XX:SharedArchiveFile={file}" {SILENT}' if file.exists() else ""
