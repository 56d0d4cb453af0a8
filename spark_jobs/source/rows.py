"""Read Arrow batches as targets: lists, never an object per target."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import msgspec

from dispatcher.channels.submission.address import AddressForm
from dispatcher.channels.submission.target_check import TargetCheck
from dispatcher.channels.value_texts import plain_value
from dispatcher.model.task import MAX_VARIABLES_BYTES
from dispatcher.wire.checks.nesting import complaint_of
from producers.submit.validation import Refusal, Unreadable, Variables, check_each, check_slab
from spark_jobs.source.columns import Columns

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
    import pyarrow.compute as pc

    keys = _combinations([batch.column(name).cast("string") for name in names])
    if len(pc.unique(keys)) > 1:
        order = pc.sort_indices(keys)
        batch, keys = batch.take(order), keys.take(order)
    first = 0
    for counted in pc.value_counts(keys).to_pylist():
        some = batch.slice(first, counted["counts"])
        yield tuple(some.column(name).cast("string")[0].as_py() for name in names), some
        first += counted["counts"]


def _combinations(parts: "Sequence[pa.Array[Any]]") -> "pa.Array[Any]":
    """Return a number for each row, the same for rows that have the same values (or nulls) in all these columns."""
    import pyarrow.compute as pc

    numbers: pa.Array[Any] | None = None
    for part in parts:
        codes = part.dictionary_encode("encode")
        own = codes.indices.cast("int64")
        if numbers is not None:  # both are below the number of rows, so the product fits
            own = pc.add(pc.multiply(numbers, len(codes.dictionary)), own)
        numbers = own.dictionary_encode().indices.cast("int64")
    assert numbers is not None
    return numbers


def variables_of(batch: "pa.RecordBatch", columns: Columns) -> list[Variables] | None:
    """Return the variables of each row, as they are accepted. Null and NaN are left out."""
    import pyarrow as pa

    if columns.whole:
        column = batch.column(columns.whole)
        if pa.types.is_string(column.type):
            return [_decode(text) if text else None for text in column.to_pylist()]
        structs = column.to_pylist(maps_as_pydicts="lossy")
        if "float" in str(column.type):
            structs = [as_written(own, column.type) for own in structs]
        return [_without_nulls(own.items()) if own else None for own in structs]
    if not columns.variables:
        return None
    lists = [_values(batch.column(name)) for name in columns.variables]
    nulls = any(None in values for values in lists)
    return _zipped(columns.variables, lists, nulls=nulls)


def _values(column: "pa.Array[Any]") -> list[Any]:
    """Return the values of a column as they are accepted: quickly for those that need no look at each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_floating(kind):
        if pa.types.is_float32(kind):  # the digits as written, not those of the double next to it
            column = column.cast("string").cast("float64")
        column = pc.if_else(pc.is_finite(column), column, None)
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):  # a time outside of the years 1 to 9999, which Python lacks
        values = column.cast("string").to_pylist()
    is_quick = any(test(kind) for test in (pa.types.is_primitive, pa.types.is_string, pa.types.is_large_string))
    return values if is_quick and not pa.types.is_temporal(kind) else list(map(plain_value, values))


def as_written(value: Any, kind: "pa.DataType") -> Any:
    """Return a nested value whose floats of 32 bits have the digits as they were written."""
    import numpy as np
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_float32(kind):
        return plain_value(np.float32(value))
    if pa.types.is_struct(kind):
        return {field.name: as_written(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return {key: as_written(inner, kind.item_type) for key, inner in value.items()}
    return [as_written(inner, kind.value_type) for inner in value] if isinstance(value, list) else value


def _without_nulls(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any] | None:
    """Return the variables that have a value."""
    return {name: plain for name, value in pairs if (plain := plain_value(value)) is not None} or None


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
