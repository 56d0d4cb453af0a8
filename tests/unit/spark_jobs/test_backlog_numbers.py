"""The numbers in the report's page are those that SQL finds in the tables."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("pyarrow")

from lab.synthetic.backlog import SyntheticBacklog, make_tables
from spark_jobs.backlog.facts import ReportOptions
from spark_jobs.backlog.job import report
from spark_jobs.backlog.page import page
from spark_jobs.backlog.report import span
from tests.unit.spark_jobs.backlog_rows import START, START_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOURS = 4
SIZE = SyntheticBacklog(outcomes=3_000, tasks=12, snapshots=60 * HOURS, every_s=60)
SPAN_MS = 900_000
"""The report's time spans of four hours."""
VIEWS = f"""
    CREATE OR REPLACE TEMP VIEW lasted AS
        SELECT unix_millis(at) at_ms, unix_millis(at) DIV {SPAN_MS} span,
            unix_millis(at) - lag(unix_millis(at)) OVER (ORDER BY at) ms, tasks, ended FROM snapshots;
    CREATE OR REPLACE TEMP VIEW spans AS
        SELECT span, date_format(timestamp_millis(span * {SPAN_MS}), 'dd MMM HH:mm') begun, sum(ms) ms
        FROM lasted GROUP BY span;
    CREATE OR REPLACE TEMP VIEW waiting AS
        SELECT *, published - sent - invalid - failed - expired - cancelled pending
        FROM (SELECT at_ms, span, ms, inline(tasks) FROM lasted);
    CREATE OR REPLACE TEMP VIEW spent AS
        SELECT task, span, so_far - coalesce(lag(so_far) OVER (PARTITION BY task ORDER BY span), 0) spent_ms
        FROM (
            SELECT task, if(ms IS NULL, -1, span) span, max(causes['tier_share']) so_far
            FROM (SELECT span, ms, inline(concat(tasks, ended)) FROM lasted) GROUP BY ALL)
"""
Page = Callable[[str], ElementTree.Element]
Sql = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    make_tables(folder, SIZE, START)
    return folder


@pytest.fixture(scope="module")
def sql(spark: "SparkSession", tables: Path) -> Sql:
    spark.read.parquet(str(tables / "backlog")).createOrReplaceTempView("snapshots")
    spark.read.parquet(str(tables / "journal" / "outcomes")).createOrReplaceTempView("outcomes")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    for view in VIEWS.split(";"):
        spark.sql(view)
    return lambda query: [tuple(row) for row in spark.sql(query).collect()]


@pytest.fixture(scope="module")
def section(spark: "SparkSession", tables: Path) -> Page:
    """Finds the answer to a question in the page."""
    options = ReportOptions(tables, START_MS - int(timedelta(hours=HOURS + 1).total_seconds() * 1000))
    text = page(report(spark, options, START_MS))
    main = text[text.index("<main>") : text.index("</main>") + len("</main>")].replace("<br>", "<br/>")
    sections = {part.findtext("h2"): part for part in ElementTree.fromstring(main).iter("section")}
    return lambda question: sections[question]


def numbers(section: ElementTree.Element) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in row] for row in section.iterfind(".//details//tbody/tr")]


def test_waiting_targets_by_app_and_time(section: Page, sql: Sql) -> None:
    found = sql("""
        WITH by_task AS (
            SELECT task, app, span, sum(pending * ms) targets_ms, sum(ms) FILTER (WHERE pending > 0) waited_ms
            FROM waiting GROUP BY ALL)
        SELECT app, begun, sum(targets_ms) / first(ms) waiting,
            sum(targets_ms * least(1, spent_ms / waited_ms)) / first(ms) share
        FROM by_task JOIN spans USING (span) LEFT JOIN spent USING (task, span)
        WHERE targets_ms > 0 GROUP BY app, begun""")
    expected = {(app, begun): (waiting, share) for app, begun, waiting, share in found if waiting >= 0.5}
    assert len(expected) > 20
    rows = numbers(section("Who waited, when, and why?"))
    assert {(app, begun): tuple(map(number, counts[:2])) for app, begun, *counts in rows} == {
        key: pytest.approx(counts, abs=1) for key, counts in expected.items()
    }


def test_waits_by_app_and_time(section: Page, sql: Sql) -> None:
    """The report counts waits in four buckets for each doubling."""
    found = sql(f"""
        SELECT app, begun, (pow(2, (1 + percentile_disc(0.95) WITHIN GROUP (
            ORDER BY floor(log2(latency_ms + 1) * 4))) / 4) - 1) / 1000
        FROM outcomes JOIN spans ON unix_millis(CAST(at AS TIMESTAMP)) DIV {SPAN_MS} = span GROUP BY app, begun""")
    assert len(found) > 20
    rows = numbers(section("How long did a push wait?"))
    assert sorted(map(tuple, rows)) == sorted((app, begun, span(wait)) for app, begun, wait in found)


def test_tasks_that_waited_most_and_the_backlog_of_each_tier(section: Page, sql: Sql) -> None:
    found = sql("""
        SELECT task, targets
        FROM (SELECT task, max(published) targets, sum(pending * ms) waited FROM waiting GROUP BY task)
        WHERE waited > 0 ORDER BY waited DESC""")
    rows = section("Which tasks waited most?").iterfind(".//tbody/tr")
    assert [(row.findtext("td/b"), number(row.findtext("td[@class='figure targets']") or "")) for row in rows] == found
    (waiting,) = sql("SELECT sum(pending) FROM waiting WHERE at_ms = (SELECT max(at_ms) FROM waiting)")
    backlogs = numbers(section("How much waited?"))[-1][1:]
    assert sum(map(number, backlogs)) == waiting[0]


def number(text: str) -> int:
    return int(text.replace(",", ""))
