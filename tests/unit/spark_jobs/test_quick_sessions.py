"""How Spark's JVM is set up for jobs on the journal."""

import pytest

from spark_jobs.session.session import QUICKLY_COMPILED_ROWS, for_rows

OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture(autouse=True)
def no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"])
def test_a_collector_that_the_environment_names_stays_the_only_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "-XX:+UseParallelGC" in for_rows("local[2]", 1)[OPTIONS]
    monkeypatch.setenv(name, "-Xss1m -XX:+UseSerialGC")
    assert for_rows("local[2]", 1) == {OPTIONS: "-XX:TieredStopAtLevel=1"}


def test_options_without_a_collector_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = for_rows("local[2]", 1)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:-UsePerfData")
    assert for_rows("local[2]", 1) == before


def test_clusters_and_very_many_rows_are_left_to_the_second_compiler() -> None:
    assert for_rows("spark://host:7077", 1) == {}
    assert for_rows("local[2]", QUICKLY_COMPILED_ROWS + 1) == {}
