"""Pack Fairlane's packages into one file, for the Python of executors that do not have them.

    python -m spark_jobs.session.package fairlane.zip    # for spark-submit --py-files

Their dependencies (pulsar-client, pyarrow, ...) are not in it: they have to be installed there.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("backends", "consumers", "dispatcher", "fairlane", "producers", "quotas", "spark_jobs")
_SHIPPED = "fairlane-of-the-driver.zip"
"""A name that users are unlikely to choose: of two files with one name, Spark takes neither."""


def pack(file: Path) -> Path:
    """Write the packages that this process would import to a file. Returns the file."""
    with ZipFile(file, "w", ZIP_DEFLATED) as made:
        for package in PACKAGES:
            folder = _folder(package)
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.suffix != ".pyc":
                    made.write(path, path.relative_to(folder.parent))
    return file


def ship(spark: "SparkSession") -> None:
    """Give executors on other machines the code that the driver runs, whatever is installed there."""
    from pyspark import SparkFiles

    context = spark.sparkContext
    in_this_process = context.master.partition("[")[0] == "local"
    if in_this_process or not _folder("spark_jobs").is_dir():  # no folder: --py-files brought it, to executors as well
        return
    folder = Path(SparkFiles.getRootDirectory()) / "fairlane"  # which Spark deletes at its end
    if not folder.exists():
        folder.mkdir()
        context.addPyFile(str(pack(folder / _SHIPPED)))


def _folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


if __name__ == "__main__":
    pack(Path(sys.argv[1] if len(sys.argv) > 1 else "fairlane.zip"))
