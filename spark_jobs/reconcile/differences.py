"""Find the differences in a journal, target by target.

Checksums are compared first, since differences are rare. One shuffle of 8 bytes for each outcome, each target named and
each target of the audience, sorted in Arrow, gives the checksums that hint at a difference. Then only the rows with
these checksums are compared.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.session.frames import kept, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TWICE = "has two outcomes"
NO_OUTCOME = "has no outcome"
NOT_IN_AUDIENCE = "is not in the audience"
SENT_TWICE = "is in the task twice"
DIFFERENCE_TABLE = pa.schema(
    [
        *((name, pa.string()) for name in ("task", "difference", "target", "writer")),
        ("sequence", pa.int32()),
        ("position", pa.int32()),
    ]
)
IDENTITY = ("task", "writer", "sequence", "position")
TARGET = ("task", "target")
FEW = 1_000_000
"""The maximum number of checksums to broadcast to all executors."""
_OUTCOME, _NAMED, _GIVEN, _KIND = 0, 1, 2, 3
"""The kind of a checksum, in its lowest bits, and the mask of these bits."""


@contextmanager
def differences(rows: "DataFrame", audience: "DataFrame | None", *, is_over: bool) -> Iterator["DataFrame"]:
    """Yield rows of DIFFERENCE_TABLE, valid within the block.

    They are targets with more than one outcome, and values that occur in one task twice. With an audience (task,
    target) they are also targets that the journal does not name, if the task is over, and named targets that are not in
    the audience.

    rows: of spark_jobs.journal.tables.outcomes.
    """
    found = rows.sparkSession.createDataFrame([], spark_schema(DIFFERENCE_TABLE))
    with ExitStack() as frames:
        suspects = frames.enter_context(kept(checksums(rows, audience)))
        if count := suspects.count():
            named = frames.enter_context(kept(_with_sums(rows.where("target is not null"), TARGET, suspects, count)))
            twice = _with_sums(rows, IDENTITY, suspects, count)
            parts = [_repeated(twice, IDENTITY, TWICE), _repeated(named, TARGET, SENT_TWICE)]
            if audience is not None:
                parts.append(_missing(named, _with_sums(audience, TARGET, suspects, count), is_over=is_over))
            for part in parts:
                found = found.unionByName(part, allowMissingColumns=True)
        yield found.select(DIFFERENCE_TABLE.names)


def checksums(rows: "DataFrame", audience: "DataFrame | None") -> "DataFrame":
    """Return the checksums (column `sum`) of outcomes and named targets that occur twice, and of one-sided targets.

    One-sided targets are only named or only in the audience. Different values may share a checksum.
    """
    keys = rows.select(_sum_of(IDENTITY, _OUTCOME))
    keys = keys.union(rows.where("target is not null").select(_sum_of(TARGET, _NAMED)))
    if audience is not None:
        keys = keys.union(audience.select(_sum_of(TARGET, _GIVEN)))
    compared = audience is not None
    parts = max(2 * keys.rdd.getNumPartitions(), keys.sparkSession.sparkContext.defaultParallelism)
    parted = keys.repartition(parts, keys["sum"] - keys["sum"].bitwiseAND(_KIND))
    return parted.mapInArrow(lambda batches: _odd_batches(batches, compared=compared), "sum bigint")


def _sum_of(columns: Sequence[str], kind: int) -> "Column":
    from pyspark.sql import functions as f

    return f.xxhash64(*columns).bitwiseAND(~_KIND).bitwiseOR(kind).alias("sum")


def _odd_batches(batches: Iterator[pa.RecordBatch], *, compared: bool) -> Iterator[pa.RecordBatch]:
    """Find suspicious checksums. Runs in an executor, on all checksums of one part."""
    parts = [batch.column(0).to_numpy() for batch in batches]
    if parts:
        yield pa.RecordBatch.from_arrays([pa.array(odd(np.concatenate(parts), compared=compared))], ["sum"])


def odd(keys: npt.NDArray[np.int64], *, compared: bool) -> npt.NDArray[np.int64]:
    """Return the suspicious checksums, without their kinds. compared: whether an audience is among them."""
    keys = np.sort(keys)
    kinds, sums = keys & _KIND, keys & ~_KIND
    again: npt.NDArray[np.bool_] = np.zeros(len(keys), bool)
    again[1:] = keys[1:] == keys[:-1]
    odd_sums = [sums[again & (kinds != _GIVEN)]]
    if compared:
        named, given = (sums[~again & (kinds == kind)] for kind in (_NAMED, _GIVEN))
        odd_sums.append(np.setxor1d(named, given, assume_unique=True))
    return np.unique(np.concatenate(odd_sums))


def _with_sums(table: "DataFrame", columns: Sequence[str], suspects: "DataFrame", count: int) -> "DataFrame":
    """Return these columns of the rows whose checksum is among the suspects."""
    from pyspark.sql import functions as f

    few = f.broadcast(suspects.coalesce(1)) if count <= FEW else suspects
    return table.select(*columns, _sum_of(columns, 0)).join(few, "sum", "left_semi").drop("sum")


def _repeated(rows: "DataFrame", key: Sequence[str], difference: str) -> "DataFrame":
    return _labelled(rows.groupBy(*key).count().where("count > 1"), difference)


def _missing(named: "DataFrame", given: "DataFrame", *, is_over: bool) -> "DataFrame":
    from pyspark.sql import functions as f

    both = named.select(*TARGET, f.lit(0).alias("given")).union(given.select(*TARGET, f.lit(1)))
    sides = both.groupBy(*TARGET).agg(f.min("given").alias("least"), f.max("given").alias("most"))
    strangers = _labelled(sides.where("most = 0"), NOT_IN_AUDIENCE)
    return strangers.unionByName(_labelled(sides.where("least = 1"), NO_OUTCOME)) if is_over else strangers


def _labelled(rows: "DataFrame", difference: str) -> "DataFrame":
    from pyspark.sql import functions as f

    return rows.withColumn("difference", f.lit(difference))
