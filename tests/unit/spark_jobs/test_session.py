"""Spark's sessions: what they need, and how their JVM is set up."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backends.extras import Missing, require_packages
from dispatcher.model.errors import NotConfigured
from fairlane.settings import Settings
from spark_jobs.session.failures import translated
from spark_jobs.session.package import pack
from spark_jobs.session.python_daemon import without_zips
from spark_jobs.session.servers import session_values
from spark_jobs.session.session import (
    QUICKLY_COMPILED_ROWS,
    for_rows,
    locale_of_java,
    require_spark,
)

pyspark = pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_takes_its_servers_from_settings_as_commands_do(spark: "SparkSession") -> None:
    settings = Settings(home=Path("/none"), redis={"url": "redis://redis.example:6379/0", "prefix": "mine"})
    given = {"redis.url": "redis://redis.example:6379/0", "redis.prefix": "mine"}
    assert session_values(spark, settings) == session_values(spark, given) == given


def test_a_session_without_addresses_names_them_on_the_driver(spark: "SparkSession") -> None:
    from spark_jobs.session.session import register

    register(spark, {"redis.url": "redis://redis.example:6379/0"})
    task = {"id": "t", "app": "shop", "tier": "high", "channel": "log", "message": "Hi"}
    table = spark.createDataFrame([("a",)], "target string").write.format("fairlane").mode("append").options(**task)
    says = r"not given pulsar\.url, pulsar\.admin_url, and it looks for no local stack.*register\(spark, fairlane"
    for use in (table.save, lambda: spark.read.format("fairlane-outcomes").load().count()):
        with pytest.raises(NotConfigured, match=says), translated():
            use()


def test_a_missing_package_is_named_with_what_installs_it() -> None:
    with pytest.raises(Missing) as raised:
        require_packages("spark", "msgspec", "no_such_package")
    how = "Run `pip install 'PATH[spark]'`, where PATH is Fairlane's checkout."
    assert str(raised.value) == f"This needs no_such_package installed. {how}"
    assert raised.value.exit_code == 2


def test_a_missing_java_is_told_before_spark_is_started() -> None:
    for env in ({"PATH": ""}, {"JAVA_HOME": "/nowhere", "PATH": "/usr/bin"}):
        with pytest.raises(Missing, match="Java, which was not found"):
            require_spark(env)


def test_a_java_that_cannot_start_spark_is_told_in_one_line() -> None:
    code = (
        "from spark_jobs.session.session import *; make_session(SessionSettings(master='local[1]', driver_memory='1k'))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "backends.extras.Missing: Java ended before Spark had started" in ended.stderr.splitlines()[-1]


def test_a_master_that_spark_does_not_know_is_told_in_one_line() -> None:
    code = "from spark_jobs.session.session import *; make_session(SessionSettings(master='local[many]'))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)
    assert re.search(r"JobFailed: Spark: .*local\[many\]", ended.stderr.splitlines()[-1])


def test_java_finds_files_whose_path_has_other_letters_than_english_ones_in_any_locale() -> None:
    env = {**os.environ, "LC_ALL": "C"}
    command = ["java", "-XshowSettings:properties", "-version"]
    shown = subprocess.run(command, env=env | locale_of_java(env), capture_output=True, text=True, check=True).stderr
    assert "sun.jnu.encoding = UTF-8" in shown
    assert locale_of_java({"LC_ALL": "de_DE.UTF-8"}) == locale_of_java({}) == {}


def test_nothing_needs_pyspark_before_a_session_is_made() -> None:
    loaded = "assert not {'pyspark', 'pyarrow'} & set(sys.modules)"
    code = f"import spark_jobs.session.session, fairlane.cli.main, sys; {loaded}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# ----------------------------------------------------------------- jobs on the journal


JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture
def no_java_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in JAVA_OPTIONS:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", JAVA_OPTIONS)
@pytest.mark.usefixtures("no_java_options")
def test_a_collector_that_the_environment_names_stays_the_only_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "-XX:+UseParallelGC" in for_rows("local[2]", 1)[OPTIONS]
    monkeypatch.setenv(name, "-Xss1m -XX:+UseSerialGC")
    assert for_rows("local[2]", 1) == {OPTIONS: "-XX:TieredStopAtLevel=1"}


@pytest.mark.usefixtures("no_java_options")
def test_options_without_a_collector_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = for_rows("local[2]", 1)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:-UsePerfData")
    assert for_rows("local[2]", 1) == before


def test_clusters_and_very_many_rows_are_left_to_the_second_compiler() -> None:
    assert for_rows("spark://host:7077", 1) == {}
    assert for_rows("local[2]", QUICKLY_COMPILED_ROWS + 1) == {}


# ----------------------------------------------------------------- Python workers on this machine


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


# ----------------------------------------------------------------- the package for executors

PACKED_CODE = """
import sys
sys.path[:] = [FILE] + [path for path in sys.path if path not in ("", ROOT)]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
import quotas.ledger, spark_jobs.ingest.job
from backends.redis.client import assemble, lua_folder, lua_texts
assert FILE in quotas.ledger.__file__ and FILE in spark_jobs.ingest.job.__file__
assert "redis.call" in assemble("admit", lua_texts(lua_folder("backends.redis")))
"""


def test_packages_and_scripts_are_read_from_the_file_that_executors_are_sent(tmp_path: Path) -> None:
    file = str(pack(tmp_path / "fairlane.zip"))
    root = str(Path(__file__).parents[3])
    code = PACKED_CODE.replace("FILE", repr(file)).replace("ROOT", repr(root))
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=tmp_path)
