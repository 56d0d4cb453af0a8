"""Check Spark's requirements beyond the rest of Fairlane, and say what is missing."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from backends.extras import Missing, require_packages

OLDEST_JAVA = 17
HOW_TO_GET_JAVA = (
    f"Install Java {OLDEST_JAVA} or newer (Debian: `apt-get install openjdk-17-jre-headless`) or set JAVA_HOME."
)


def require_spark(env: Mapping[str, str] = os.environ) -> None:
    """Raise Missing if pyspark, pyarrow or a Java to run Spark is not installed."""
    require_packages("spark", "pyspark", "pyarrow")
    if _java(env) is None:
        raise Missing("Spark needs Java, which was not found.", HOW_TO_GET_JAVA)


def _java(env: Mapping[str, str]) -> Path | None:
    """Find Java the way Spark does."""
    if env.get("JAVA_HOME"):
        program = Path(env["JAVA_HOME"]) / "bin" / "java"
        return program if os.access(program, os.X_OK) else None
    path = shutil.which("java", path=env.get("PATH", ""))
    return Path(path) if path else None
