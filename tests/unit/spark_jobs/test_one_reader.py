"""A text file is the same audience for `task submit`, `ingest`, `--suppress` and `reconcile --audience`."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest

from dispatcher.model.errors import InvalidInput
from producers.files.targets_file import TargetsFile
from producers.submit.validation import check_slab
from spark_jobs.ingest import text_table
from spark_jobs.ingest.audience import TableSource, read_table
from spark_jobs.ingest.job import IngestOptions, transform
from spark_jobs.reconcile.job import given_audience
from spark_jobs.session.addresses import quoted
from spark_jobs.session.failures import translated
from spark_jobs.source.columns import PACKED
from spark_jobs.source.task_options import parse_options
from tests.unit.spark_jobs.corpus import CORPUS
from tests.unit.spark_jobs.tables import TASK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Target = tuple[str, str]
"""An address, and its variables as text."""


class Read(NamedTuple):
    """What a command makes of a file."""

    accepted: Counter[Target]
    refused: Counter[str]
    """The reasons."""


def target(address: str, variables: Mapping[str, Any] | None) -> Target:
    return address, msgspec.json.encode(variables or {}, order="deterministic").decode()


def submitted(path: Path) -> Read | None:
    """What `task submit` takes from a file; None if it refuses it."""
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


def options(path: Path, **given: Any) -> IngestOptions:
    return IngestOptions(
        task=parse_options(TASK), audience=TableSource(str(path)), tables=path.parent / "none", **given
    )


def read_all(files: Mapping[str, Path], read: "Callable[[Path], DataFrame]") -> dict[str, list[Any] | None]:
    """Return the rows that each file has; None if it is refused."""
    from pyspark.sql import functions as f

    tables, rows = [], dict[str, list[Any] | None]()
    for name, path in files.items():
        rows[name] = None
        with suppress(InvalidInput):
            table = read(path).withColumn("file", f.lit(name))
            if submitted(path) is None:  # alone, since it may end the job
                with translated():
                    table.collect()
            tables.append(table)
            rows[name] = []
    for row in reduce(lambda one, other: one.union(other), tables).collect():
        rows[row.file].append(row)  # type: ignore[union-attr]  # it has rows
    return rows


def with_own_variables(table: "DataFrame") -> "DataFrame":
    """Return targets and reasons, and the variables of each row as one text."""
    from pyspark.sql import functions as f

    others = [quoted(name) for name in table.columns if name not in ("target", "reason")]
    own = f.to_json(f.struct(*others)) if others else f.lit("{}")
    return table.select("target", (f.col(PACKED) if PACKED in table.columns else own).alias("own"), "reason")


def test_the_corpus_is_read_as_it_says(files: Mapping[str, Path]) -> None:
    found = {name: submitted(path) for name, path in files.items()}
    counts = {name: read and (read.accepted.total(), read.refused.total()) for name, read in found.items()}
    assert counts == {one.name: None if one.accepted is None else (one.accepted, one.refused) for one in CORPUS}
    assert len(CORPUS) >= 60


@pytest.fixture(params=["whole", "in parts"])
def part_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files into parts that are shorter than most of their rows."""
    if request.param == "in parts":
        monkeypatch.setattr(text_table, "MAX_PART_BYTES", 40)


@pytest.mark.usefixtures("part_bytes")
@pytest.mark.timeout(600)
def test_every_command_takes_and_refuses_what_a_submission_does(
    spark: "SparkSession", files: Mapping[str, Path]
) -> None:
    found = {name: submitted(path) for name, path in files.items()}

    def ingested(path: Path) -> "DataFrame":
        chosen = options(path)
        return with_own_variables(transform(read_table(spark, chosen.audience, chosen.rules), chosen))

    for name, rows in read_all(files, ingested).items():
        read = found[name]
        if read is None or rows is None:
            assert read is rows, name
            continue
        decoded = [(row, msgspec.json.decode(row.own or "{}")) for row in rows]
        accepted = Counter(target(row.target, own) for row, own in decoded if row.reason in (None, "duplicate"))
        assert accepted == read.accepted, name
        assert Counter(row.reason for row in rows if row.reason not in (None, "duplicate")) == read.refused, name

    def audience_of(path: Path) -> "DataFrame":
        return given_audience(spark, read_table(spark, TableSource(str(path))), path.parent, "none")

    for name, rows in read_all(files, audience_of).items():
        read = found[name]
        targets = None if rows is None else Counter(row.target for row in rows)
        assert targets == (read and Counter(address for address, _ in read.accepted.elements())), name
