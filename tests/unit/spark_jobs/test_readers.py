"""Programs read the journal as docs/spark.md shows."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dispatcher.wire.outcome import Outcome
from tests.spark_document import blocks_of

pytest.importorskip("deltalake")
pytest.importorskip("duckdb")
pytest.importorskip("polars")

from tests.unit.spark_jobs.journal_world import landed, named_targets, outcomes, ran

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)
EXAMPLES = [block for block in blocks_of("Read the journal") if block.kind == "python"]


@pytest.mark.parametrize("text", [block.text for block in EXAMPLES], ids=[block.file for block in EXAMPLES])
def test_a_reader_of_the_document_finds_the_reasons(
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
) -> None:
    failed, named = (
        ran(size=7, code=Outcome.FAILED),
        named_targets(sequence=0, targets=[*"abcdefg"], reasons=["no"] * 7),
    )
    others = (outcomes(ran(first=1, size=2), task="sale"), outcomes(failed, named, task="other"))
    landed(tmp_path / "tables", outcomes(failed, named, task="sale"), *others, at_once=1)
    monkeypatch.chdir(tmp_path)
    exec(text, {})
    assert re.search(r"\bno\b\D+\b7\b", capsys.readouterr().out)
