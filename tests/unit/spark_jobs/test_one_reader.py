"""A text file is the same audience for `task submit`, `ingest`, `--suppress` and `reconcile --audience`."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest

from dispatcher.model.errors import InvalidInput
from producers.files.audience_rows import RowRules
from producers.files.targets_file import TargetsFile
from producers.submit.validation import check_slab

pytest.importorskip("pyarrow")
import pyarrow as pa

from spark_jobs.ingest import text_table
from spark_jobs.ingest.audience import TableSource, read_table, with_targets
from spark_jobs.ingest.job import IngestOptions, transform
from spark_jobs.ingest.rejects import rejects_table
from spark_jobs.ingest.rules import DUPLICATE, Checker, Rules
from spark_jobs.ingest.suppression import SUPPRESSED_TARGET, SuppressOptions, suppressed_targets
from spark_jobs.ingest.text_table import files_at, plan_reading, read_parts
from spark_jobs.reconcile.job import given_audience
from spark_jobs.session.failures import translated
from spark_jobs.source.columns import PACKED, Columns
from spark_jobs.source.rows import variables_of
from spark_jobs.source.task_options import parse_options
from spark_jobs.storage.data_files import FileWriter
from tests.unit.spark_jobs.corpus import CORPUS
from tests.unit.spark_jobs.tables import TASK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Target = tuple[str, str]
"""An address, and its variables as text."""


class Read(NamedTuple):
    """The rows of a file, as a command takes them."""

    accepted: Counter[Target]
    refused: Counter[str]
    """The reasons."""


def target(address: str, variables: Mapping[str, Any] | None) -> Target:
    return address, msgspec.json.encode(variables or {}, order="deterministic").decode()


def submitted(path: Path) -> Read | None:
    """Return the rows that `task submit` takes from a file; None if it refuses it."""
    read = Read(Counter(), Counter())
    try:
        for slab in TargetsFile(path).slabs(1):
            accepted, refusals = check_slab(slab.items, slab.line_of)
            variables = accepted.variables or [None] * len(accepted.addresses)
            read.accepted.update(map(target, accepted.addresses, variables))
            read.refused.update(refusal.reason for refusal in refusals)
    except InvalidInput:
        return None
    return read


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("corpus")
    for sample in CORPUS:
        (folder / sample.name).write_bytes(sample.data)
    return {sample.name: folder / sample.name for sample in CORPUS}


def test_the_corpus_is_read_as_it_says(files: Mapping[str, Path]) -> None:
    found = {name: submitted(path) for name, path in files.items()}
    counts = {name: read and (read.accepted.total(), read.refused.total()) for name, read in found.items()}
    assert counts == {one.name: None if one.accepted is None else (one.accepted, one.refused) for one in CORPUS}
    assert len(CORPUS) >= 60


@pytest.mark.parametrize("part_bytes", [1 << 20, 150, 40])
def test_a_table_of_a_file_or_of_its_parts_has_the_rows_of_a_submission(
    files: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    monkeypatch.setattr(text_table, "MAX_PART_BYTES", part_bytes)
    for name, path in files.items():
        assert tabled(path) == submitted(path), name


def tabled(path: Path) -> Read | None:
    """Return the rows that `ingest` takes from a file; None if it refuses it."""
    read, task = Read(Counter(), Counter()), parse_options(TASK)
    try:
        source = TableSource(str(path))
        plan = plan_reading(
            files_at(source.place), source.text_format, RowRules(), 1, lambda call, parts: [*map(call, parts)]
        )
        numbers = pa.RecordBatch.from_arrays([pa.array(range(len(plan.parts)))], ["id"])
        own = (PACKED,) if PACKED in plan.names else tuple(plan.names[1:-1])
        columns = Columns("target", () if own == (PACKED,) else own, PACKED if own == (PACKED,) else "", ())
        for raw in read_parts(iter([numbers]), plan):
            batch = Checker(Rules(columns, task)).check(raw)
            variables = variables_of(batch, columns) or [None] * batch.num_rows
            rows = zip(batch["target"].to_pylist(), variables, batch["reason"].to_pylist(), strict=True)
            for address, own_variables, reason in rows:
                if reason in (None, DUPLICATE):
                    read.accepted[target(address, own_variables)] += 1
                else:
                    read.refused[reason] += 1
    except InvalidInput:
        return None
    return read


PROTECTED = {"long cells.csv": Counter(["a"])}
"""Targets that a list protects although `ingest` refuses their rows, for the variables."""


@pytest.mark.parametrize("name", [sample.name for sample in CORPUS])
def test_ingest_suppress_and_reconcile_take_and_refuse_the_same_rows(
    spark: "SparkSession", files: Mapping[str, Path], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(text_table, "MAX_PART_BYTES", 600)
    found = submitted(files[name])
    source = TableSource(str(files[name]))
    chosen = IngestOptions(task=parse_options({**TASK, "channel": "null"}), audience=source, tables=tmp_path)
    if found is None:
        for taken in (ingested, suppressed, reconciled):
            with pytest.raises(InvalidInput), translated():
                taken(spark, chosen)
        return
    addresses = Counter(address for address, _ in found.accepted.elements())
    assert ingested(spark, chosen) == (set(addresses), found.refused)
    named = addresses + PROTECTED.get(name, Counter())
    assert suppressed(spark, chosen) == (set(named), named.total())
    if addresses:
        assert reconciled(spark, chosen) == addresses
    else:
        with pytest.raises(InvalidInput, match="no rows with a target"):
            reconciled(spark, chosen)


def ingested(spark: "SparkSession", chosen: IngestOptions) -> tuple[set[str], Counter[str]]:
    """Return the targets that `ingest` sends to, and why it refuses the other rows, which it stores."""
    rows = transform(read_table(spark, chosen.audience, chosen.rules), chosen).toArrow()
    reasons = rows["reason"].to_pylist()
    table = rejects_table(chosen.rejects, rows.schema)
    table.create()
    writer = FileWriter(table.folder, table.schema)
    writer.write(rows.filter(rows["reason"].is_valid()))
    table.replace(writer.close())
    good = {row for row, reason in zip(rows["target"].to_pylist(), reasons, strict=True) if reason is None}
    return good, Counter(reason for reason in reasons if reason not in (None, DUPLICATE))


def suppressed(spark: "SparkSession", chosen: IngestOptions) -> tuple[set[str], int]:
    """Return the targets that are left out if the file is a list of `--suppress`, and the number of its good rows."""
    lists = SuppressOptions(lists=(chosen.audience,), min_matched=0.0)
    with suppressed_targets(spark, chosen.task, lists, {}, None) as found:
        assert found.targets is not None
        return {row[SUPPRESSED_TARGET] for row in found.targets.collect()}, found.lists[0].targets


def reconciled(spark: "SparkSession", chosen: IngestOptions) -> Counter[str]:
    """Return the targets that `reconcile --audience` looks for."""
    given = given_audience(spark, with_targets(read_table(spark, chosen.audience)), chosen.tables, chosen.task.task)
    return Counter(row.target for row in given.collect())
