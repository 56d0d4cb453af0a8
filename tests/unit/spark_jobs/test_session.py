import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from backends.extras import Missing, require_packages
from spark_jobs.session.requirements import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_runs_python_workers_of_this_environment(spark: "SparkSession") -> None:
    from pyspark.sql.functions import udf

    where = udf(lambda _: sys.executable)
    assert {row[0] for row in spark.range(4).select(where("id")).collect()} == {sys.executable}


def test_the_name_of_a_session_may_be_given_by_position_as_in_0_2() -> None:
    from spark_jobs import SessionSettings

    assert SessionSettings("vip", log_level="INFO") == SessionSettings(app_name="vip", log_level="INFO")


def test_a_missing_package_is_named_with_what_installs_it() -> None:
    with pytest.raises(Missing) as raised:
        require_packages("spark", "msgspec", "no_such_package")
    how = "Run `pip install 'PATH[spark]'`, where PATH is Fairlane's checkout."
    assert str(raised.value) == f"This needs no_such_package installed. {how}"
    assert raised.value.exit_code == 1


def test_a_missing_java_is_told_before_spark_is_started() -> None:
    pytest.importorskip("pyspark")
    for env in ({"PATH": ""}, {"JAVA_HOME": "/nowhere", "PATH": "/usr/bin"}):
        with pytest.raises(Missing, match="Java, which was not found"):
            require_spark(env)


def test_a_java_that_cannot_start_spark_is_told_in_one_line(tmp_path: object) -> None:
    pytest.importorskip("pyspark")
    code = (
        "from spark_jobs.session.session import *; make_session(SessionSettings(master='local[1]', driver_memory='1k'))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "backends.extras.Missing: Java ended before Spark had started" in ended.stderr.splitlines()[-1]


def test_nothing_needs_pyspark_before_a_session_is_made() -> None:
    loaded = "assert not {'pyspark', 'pyarrow'} & set(sys.modules)"
    code = f"import spark_jobs.session.session, fairlane.cli.main, sys; {loaded}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
