"""Python workers on this machine import what is installed, not what Spark has packed."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.session.python_daemon import without_zips

pyspark = pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKED = Path(pyspark.__file__).parent / "python" / "lib"


def test_workers_run_this_python_and_import_its_pyspark(spark: "SparkSession") -> None:
    from pyspark.sql.functions import udf

    def found(_):  # type: ignore[no-untyped-def]  # hints would make it a function of pandas
        import py4j
        import pyspark

        return f"{sys.executable} {pyspark.__file__} {py4j.__file__}"

    (row,) = spark.range(1).select(udf(found)("id")).collect()
    assert row[0].startswith(f"{sys.executable} ")
    assert "site-packages" in row[0]
    assert ".zip" not in row[0]


def test_the_zips_of_the_installed_pyspark_are_left_out() -> None:
    others = ["/somewhere", "packages.zip"]
    path = [str(PACKED / "pyspark.zip"), str(PACKED / "py4j-0.10-src.zip"), *others]
    assert without_zips(path) == others


def test_those_of_another_spark_stay(tmp_path: Path) -> None:
    path = [str(tmp_path / "python" / "lib" / "pyspark.zip"), *sys.path]
    assert without_zips(path) == path


def test_without_an_installed_pyspark_they_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.session.python_daemon.find_spec", lambda _name: None)
    path = [str(PACKED / "pyspark.zip")]
    assert without_zips(path) == path
