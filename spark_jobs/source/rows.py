"""Read Arrow batches as targets: lists, never an object per target."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import msgspec

from dispatcher.channels.submission.address import AddressForm
from dispatcher.channels.submission.target_check import TargetCheck
from dispatcher.channels.value_texts import plain_value
from dispatcher.model.task import MAX_VARIABLES_BYTES
from dispatcher.wire.checks.nesting import complaint_of
from producers.submit.validation import Refusal, Unreadable, Variables, check_each, check_slab
from spark_jobs.source.columns import PACKED, Columns

if TYPE_CHECKING:
    import pyarrow as pa

_MODULUS = 1 << 64
NULL_TARGET = Unreadable("the target is null")
_decode = msgspec.json.Decoder().decode
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class AudienceDigest(NamedTuple):
    """Count and checksum of the targets of an audience, or of a part of it, in any order; `plus` joins two parts."""

    targets: int = 0
    sum: int = 0
    """The sum of a checksum of each target with its variables, modulo 2**64."""

    def plus(self, other: "AudienceDigest") -> "AudienceDigest":
        """Return the digest of both parts together."""
        return AudienceDigest(self.targets + other.targets, (self.sum + other.sum) % _MODULUS)

    @property
    def text(self) -> str:
        """Return the text that the seal keeps."""
        return f"sum:{self.sum:x}"


class Rows(NamedTuple):
    """The good targets in order with their variables, and the refused rows."""

    addresses: list[str]
    variables: list[Variables] | None
    """The variables of each target, or None if no target has any."""
    digest: AudienceDigest
    refusals: list[Refusal]


def read_rows(
    batch: "pa.RecordBatch",
    columns: Columns,
    first_row: int = 0,
    check: TargetCheck | None = None,
    form: AddressForm = AddressForm(),
) -> Rows:
    """Check the rows of a batch. first_row: the number of rows before it; a refusal has its row, counted from 1.

    check, form: those of the task's channel, if it has a check.
    """

    def row_of(index: int) -> int:
        return first_row + index + 1

    targets = batch.column(columns.target)
    addresses: list[Any] = targets.to_pylist()
    if targets.null_count:
        addresses = [NULL_TARGET if address is None else address for address in addresses]
    variables = variables_of(batch, columns)
    accepted, refusals = check_slab(addresses, row_of, None, form)
    if variables is None:
        if check is not None and not check.are_good(accepted.addresses, None):
            accepted, refusals = check_each(addresses, row_of, check, form)
        return Rows(accepted.addresses, None, digest_of(accepted.addresses, None), refusals)
    encoded = encode_each(variables)
    has_bad = complaint_of(variables) or (check is not None and not check.are_good(accepted.addresses, variables))
    if refusals or has_bad or max(map(len, encoded), default=0) > MAX_VARIABLES_BYTES:
        pairs = [item if item is NULL_TARGET else (item, own) for item, own in zip(addresses, variables, strict=True)]
        accepted, refusals = check_each(pairs, row_of, check, form)
        variables = accepted.variables
        encoded = encode_each(variables or [])
    return Rows(accepted.addresses, variables, digest_of(accepted.addresses, encoded or None), refusals)


def digest_of(addresses: Sequence[str], variables: Sequence[bytes] | None) -> AudienceDigest:
    """Return the digest of these targets.

    variables: those of each target, with the same encoding for equal ones (empty: it has none). None: no target has
    any.
    """
    plain = map(str.encode, addresses)
    if variables is None:
        return AudienceDigest(len(addresses), sum(map(crc32, plain)))
    return AudienceDigest(len(addresses), sum(map(crc32, variables, map(crc32, plain))))


def split_batch(
    batch: "pa.RecordBatch", names: Sequence[str]
) -> "Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]":
    """Yield the rows of each combination of values in the named columns, and these values as text (None: null)."""
    if not names:
        yield (), batch
        return
    rows: dict[tuple[str | None, ...], list[int]] = defaultdict(list)
    for index, values in enumerate(
        zip(*(batch.column(name).cast("string").to_pylist() for name in names), strict=True)
    ):
        rows[values].append(index)
    for values, indexes in rows.items():
        yield values, batch.take(indexes) if len(rows) > 1 else batch


def variables_of(batch: "pa.RecordBatch", columns: Columns) -> list[Variables] | None:
    """Return the variables of each row, as they are accepted. Null and NaN are left out."""
    if columns.whole:
        column = batch.column(columns.whole)
        values = column_values(column)
        if columns.whole == PACKED:
            return [_decode(text) if text else None for text in values]
        return [_without_nulls(own) if own else None for own in values]
    if not columns.variables:
        return None
    lists = [column_values(batch.column(name)) for name in columns.variables]
    nulls = any(None in values for values in lists)
    return _zipped(columns.variables, lists, nulls=nulls)


def column_values(column: "pa.Array[Any]") -> list[Any]:
    """Return the values of a column as `plain_value` makes them, quickly for those that need no look at each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_struct(kind):
        fields = [field.name for field in kind]
        inner = zip(*map(column_values, column.flatten()), strict=True) if fields else [()] * len(column)
        return _where_valid(column, [dict(zip(fields, row, strict=True)) for row in inner])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return _where_valid(column, _parts(column))
    if pa.types.is_floating(kind):
        if pa.types.is_float32(kind):  # the digits as written, not those of the double next to it
            column = column.cast("string").cast("float64")
        return list(pc.if_else(pc.is_finite(column), column, None).to_pylist())
    if pa.types.is_temporal(kind) or not (pa.types.is_primitive(kind) or is_text(kind)):
        return [plain_value(_python_value(scalar)) for scalar in column]
    return list(column.to_pylist())


def is_text(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _parts(column: "pa.Array[Any]") -> list[Any]:
    """Return the values of a column of lists or maps; for a null, any."""
    import pyarrow as pa

    ends = column.offsets.to_pylist()
    if len(ends) < 2:
        return []
    first, count = ends[0], ends[-1] - ends[0]
    spans = [slice(start - first, stop - first) for start, stop in pairwise(ends)]
    if not pa.types.is_map(column.type):
        values = column_values(column.values.slice(first, count))
        return [values[span] for span in spans]
    names = column_values(column.keys.slice(first, count))
    values = column_values(column.items.slice(first, count))
    return [dict(zip(names[span], values[span], strict=True)) for span in spans]


def _where_valid(column: "pa.Array[Any]", values: list[Any]) -> list[Any]:
    if not column.null_count:
        return values
    return [value if valid else None for value, valid in zip(values, column.is_valid().to_pylist(), strict=True)]


def _python_value(scalar: "pa.Scalar[Any]") -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):  # a time outside of the years 1 to 9999, which Python lacks
        return str(scalar.cast("string")).replace(" ", "T")


def _without_nulls(variables: dict[str, Any]) -> dict[str, Any] | None:
    """Return the variables that have a value."""
    return {name: value for name, value in variables.items() if value is not None} or None


def _zipped(names: Sequence[str], lists: Sequence[list[Any]], *, nulls: bool) -> list[Variables]:
    """Combine columns into variables; null variables are left out."""
    if nulls:
        return [
            {name: value for name, value in zip(names, row, strict=True) if value is not None} or None
            for row in zip(*lists, strict=True)
        ]
    if len(names) == 1:
        name = names[0]
        return [{name: value} for value in lists[0]]
    return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]


def encode_each(variables: Sequence[Variables]) -> list[bytes]:
    return [_encode(own) if own else b"" for own in variables]
