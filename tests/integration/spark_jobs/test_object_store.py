"""The tables in an object store: delta-rs, pyarrow and Spark on an S3 server that fails on demand."""

import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

pytest.importorskip("moto")
pytest.importorskip("deltalake")

from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from dispatcher.model.errors import FairlaneError, InvalidInput, Refused, Unreachable
from spark_jobs.backlog import snapshots as backlog_snapshots
from spark_jobs.backlog.snapshot_files import SnapshotFiles
from spark_jobs.ingest.audience import TableSource
from spark_jobs.ingest.job import Counts, IngestOptions, dry_run
from spark_jobs.ingest.suppression import SuppressOptions
from spark_jobs.journal.compact import compact
from spark_jobs.journal.files import OUTCOMES, STATES
from spark_jobs.journal.job import create_journal
from spark_jobs.journal.tables import outcomes as outcome_table
from spark_jobs.source.task_options import parse_options
from spark_jobs.storage.delta import Conflict
from spark_jobs.storage.folder import Folder
from tests.s3_server import S3Server, s3_server, storage_at
from tests.unit.spark_jobs.backlog_rows import ms, snapshot
from tests.unit.spark_jobs.journal_world import Topic, outcomes, ran, rows
from tests.unit.spark_jobs.tables import TASK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)
RECORDS = [outcomes(ran(first=number)) for number in range(40)]
"""The records that a journal lands here, one outcome each."""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        running.make_bucket("bucket")
        yield running


@pytest.fixture
def tables(server: S3Server) -> Iterator[Folder]:
    yield Folder.of(f"s3://bucket/{uuid.uuid4().hex}", server.storage)
    server.fail()


def delta(topic: Topic) -> DeltaTable:
    folder = topic.read().table.folder
    return DeltaTable(folder.url, storage_options=folder.delta_options())


def sequences(topic: Topic) -> list[int]:
    return [row["sequence"] for row in rows(topic)]


def land_all(topic: Topic, at_once: int = 5) -> None:
    """Land everything, as `journal run` does that is started again after another one got in its way."""
    while True:
        one = topic.land(at_once)
        if one is None:
            return
        try:
            topic.commit(one)
        except Conflict:
            continue


def journal(tables: Folder) -> "subprocess.Popen[bytes]":
    """Start a journal of RECORDS in a process of its own."""
    endpoint = tables.storage.plain()["endpoint"]
    return subprocess.Popen([sys.executable, "-m", __name__, tables.url, endpoint], stdout=subprocess.PIPE)


def test_the_server_stores_one_of_eight_puts_that_must_not_replace(server: S3Server) -> None:
    answers: list[int] = []
    url = f"{server.url}/bucket/{uuid.uuid4().hex}"
    headers = {
        "If-None-Match": "*",
        "Authorization": "AWS4-HMAC-SHA256 Credential=tests-key/1/us-east-1/s3/aws4_request",
    }
    together = threading.Barrier(8)

    def put() -> None:
        together.wait()
        try:
            request = urllib.request.Request(url, b"x", headers, method="PUT")
            answers.append(urllib.request.urlopen(request).status)
        except urllib.error.HTTPError as error:
            answers.append(error.code)

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(answers) == {200: 1, 412: 7}


def test_of_two_writers_of_one_version_one_is_refused(tables: Folder) -> None:
    topic = Topic(tables, RECORDS[:1])
    one, other, base = topic.land(1), topic.land(1), topic.read()
    assert one is not None
    assert other is not None
    base.commit(one.files[OUTCOMES], {"0": one.cursor})
    with pytest.raises(Conflict):
        base.commit(other.files[OUTCOMES], {"0": other.cursor})
    assert sequences(topic) == [0]


def test_journals_at_once_that_are_killed_lose_and_double_nothing(tables: Folder) -> None:
    topic = Topic(tables, RECORDS)
    for kills in range(3):
        running = [journal(tables), journal(tables)]
        for process in running:
            assert process.stdout is not None
            for _ in range(1 + kills):
                process.stdout.readline()  # after a step: between files and commit, or between two commits
            process.send_signal(signal.SIGKILL)
            process.communicate()
    land_all(topic)
    assert sequences(topic) == list(range(len(RECORDS)))


def test_a_short_storm_of_503_is_waited_out(server: S3Server, tables: Folder) -> None:
    topic = Topic(tables, RECORDS[:1])
    one = topic.land(1)
    assert one is not None
    server.fail(busy=5)
    topic.commit(one)
    assert sequences(topic) == [0]


def test_a_long_storm_of_503_is_told_in_one_line_and_lands_once_afterwards(server: S3Server, tables: Folder) -> None:
    topic = Topic(tables, RECORDS[:2])
    one = topic.land(1)
    assert one is not None
    server.fail(busy=10_000)
    with pytest.raises(Unreachable, match=r"cannot be written: .*\. Check the store and storage.endpoint") as raised:
        topic.commit(one)
    assert "\n" not in str(raised.value)
    server.fail()
    land_all(topic)
    assert sequences(topic) == [0, 1]


def test_a_commit_whose_receipt_is_lost_counts_once(server: S3Server, tables: Folder) -> None:
    topic = Topic(tables, RECORDS[:2])
    one = topic.land(1)
    assert one is not None
    server.fail(lost=1)
    topic.commit(one)
    land_all(topic)
    assert sequences(topic) == [0, 1]


@pytest.mark.parametrize(
    ("url", "key", "message"),
    [
        ("s3://bucket/x", "wrong", r"the store refuses the key .* Check storage.access_key and storage.secret_key"),
        ("s3://nowhere/x", "tests-key", r"The bucket of s3://nowhere/x.* does not exist. Create it"),
    ],
)
def test_a_wrong_key_and_a_missing_bucket_are_told_in_one_line(
    server: S3Server, url: str, key: str, message: str
) -> None:
    with pytest.raises(Refused, match=message) as raised:
        create_journal(Folder.of(url, storage_at(server.url, key)))
    assert "\n" not in str(raised.value)


def test_a_store_that_nobody_answers_for_is_told_in_one_line() -> None:
    nobody = storage_at("http://127.0.0.1:9")
    with pytest.raises(FairlaneError, match=r"Check the store and storage\.endpoint"):
        create_journal(Folder.of("s3://bucket/x", nobody))


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_text_audience_and_suppress_list_are_read_with_the_keys_of_the_store(
    spark: "SparkSession", server: S3Server, tables: Folder, scheme: str
) -> None:
    server.put("bucket/of a day/people.csv", pa.table({"target": ["a", "b", "c"]}))
    server.put("bucket/of a day/optout.csv", pa.table({"target": ["b"]}))
    people, optout = (
        TableSource(f"{scheme}://bucket/of a day/{name}.csv", storage=server.storage) for name in ("people", "optout*")
    )
    chosen = IngestOptions(
        task=parse_options(TASK), audience=people, tables=tables, suppress=SuppressOptions(lists=(optout,))
    )
    assert dry_run(spark, chosen).counts == Counts(rows=3, accepted=2, duplicates=0, suppressed=1, refused=0)
    with pytest.raises(Refused, match="the store refuses the key"):
        dry_run(spark, replace(chosen, audience=replace(people, storage=storage_at(server.url, "wrong"))))


@pytest.mark.parametrize("path", ["a#b", "a?b", "a%20b", "a//b", "a/../b"])
def test_path_that_delta_rs_reads_as_another_is_refused(server: S3Server, path: str) -> None:
    with pytest.raises(Refused, match=r"with which delta-rs would write elsewhere\. Name another folder"):
        create_journal(Folder.of(f"s3://bucket/{path}", server.storage))


def test_tables_may_be_at_the_root_of_a_bucket_and_have_any_letters_in_their_path(server: S3Server) -> None:
    server.make_bucket("rooted")
    for url in ("s3://rooted", "s3a://rooted/of a day/ü+&="):
        topic = Topic(Folder.of(url, server.storage), RECORDS[:2])
        land_all(topic)
        assert sequences(topic) == [0, 1]


@pytest.mark.parametrize("url", ["s3://", "s3:/bucket/x", "gs:///x"])
def test_url_without_a_bucket_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="names no bucket"):
        Folder.of(url)


def test_column_that_another_program_added_stays(tables: Folder) -> None:
    topic = Topic(tables, RECORDS[:2])
    one = topic.land(1)
    assert one is not None
    topic.commit(one)
    table = delta(topic)
    table.alter.add_columns(Field("note", PrimitiveType("string")))
    land_all(topic)
    assert sequences(topic) == [0, 1]
    assert "note" in delta(topic).schema().to_arrow().names


@pytest.mark.parametrize("version", [3, 9])
def test_table_of_a_newer_protocol_is_left_alone(server: S3Server, tables: Folder, version: int) -> None:
    topic = Topic(tables, RECORDS[:2])
    one = topic.land(1)
    assert one is not None
    topic.commit(one)
    features = {"readerFeatures": ["new"], "writerFeatures": ["new"]} if version == 3 else {}
    protocol = {"protocol": {"minReaderVersion": version, "minWriterVersion": max(version, 7), **features}}
    log = f"{topic.read().table.folder.url.removeprefix('s3://')}/_delta_log"
    with server.files.open_output_stream(f"{log}/{topic.read().version + 1:020d}.json") as file:
        file.write(json.dumps(protocol).encode())
    with pytest.raises(Refused, match=r"was changed by a newer program .*pip install -U deltalake"):
        land_all(topic)


def test_bucket_that_is_deleted_after_landing_is_named(server: S3Server) -> None:
    server.make_bucket("leaving")
    topic = Topic(Folder.of("s3://leaving/x", server.storage), RECORDS[:1])
    one = topic.land(1)
    assert one is not None
    server.files.delete_dir("leaving")
    with pytest.raises(Refused, match=r"The bucket of s3://leaving/x.* does not exist"):
        topic.commit(one)


def test_small_files_are_merged_and_spark_reads_them_without_a_connector(spark: "SparkSession", tables: Folder) -> None:
    topic = Topic(tables, RECORDS)
    land_all(topic)
    before = sorted(row.sequence for row in outcome_table(spark, tables).collect())
    done = compact(tables, 1 << 27, 3_600.0)
    assert (done.merged, len(topic.read().files), len(topic.read(STATES).files)) == (16, 1, 1)
    after = outcome_table(spark, tables)
    assert sorted(row.sequence for row in after.collect()) == before == list(range(len(RECORDS)))
    assert {f"{row.day}" for row in after.select("day").distinct().collect()} == {"2023-11-14"}


def test_snapshots_of_the_backlog_are_kept_there_too(spark: "SparkSession", tables: Folder) -> None:
    files = SnapshotFiles(tables, keep_days=0)
    for after_s in (0, 30, 70):
        files.add(snapshot(after_s))
    found = backlog_snapshots.find(tables, ms(20))
    assert found.times == [ms(30), ms(70)]
    assert [row.at_ms for row in found.at(spark, [ms(70)]).select("at_ms").collect()] == [ms(70)]


if __name__ == "__main__":
    records = Topic(Folder.of(sys.argv[1], storage_at(sys.argv[2])), RECORDS)
    while (found_span := records.land(5)) is not None:
        print("landed", flush=True)
        for steps in range(1, 5):
            try:
                records.commit(found_span, steps, steps - 1)
            except Conflict:
                break
            print("committed", flush=True)
