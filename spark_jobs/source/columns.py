"""The roles of a table's columns, decided once from its schema."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatcher.model.errors import InvalidInput
from spark_jobs.source.task_options import TaskOptions

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

WHOLE = "variables"
"""A struct or map column with this name holds all variables, if the option `variables` names none."""
REFUSED = "fairlane_refused"
"""The column of a table from text files with the reason why a row is refused, or null."""
PACKED = "fairlane_variables"
"""The column of a table from JSON with all variables of a row, as JSON."""
_OPTIONS = "Rename one of them, or name another with the options target, variables or split."
TEXTS = ("string", "char", "varchar")
KEYS = (*TEXTS, "byte", "short", "integer", "long")
"""Types of columns that tell rows apart: text and whole numbers."""
_SCALARS = (
    *(*KEYS, "boolean", "float", "double", "decimal", "void"),
    *("date", "time", "timestamp", "timestamp_ntz", "daytimeinterval"),
)
"""Types with single values of which each has a form in dispatcher.channels.value_texts."""
_NESTED = ("struct", "map", "array")
_WITHOUT_TEXT = {
    "binary": "bytes have no text",
    "variant": "a variant has no type of its own",
    "map": "the names in a map must be text",
}
"""By type, the reason why a column of it is refused."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The roles of a table's columns."""

    target: str
    """The column of addresses."""
    variables: tuple[str, ...]
    """The variables: one column each, of the same name."""
    whole: str
    """The struct or map column that has all variables, or empty."""
    split: tuple[str, ...]
    """The columns that tell tasks apart."""


def columns_of(schema: "StructType", options: TaskOptions, hint: str = _OPTIONS) -> Columns:
    """Return the roles of the columns. hint: how to name another one.

    Raises InvalidInput with the column that is missing or of a wrong type.
    """
    types = {column.name: column.dataType for column in schema.fields}
    if PACKED in types:
        return Columns(options.target, (), PACKED, options.split)
    _check_there(types, [options.target, *(options.variables or ()), *options.split], hint)
    if types[options.target].typeName() not in TEXTS:
        raise _wrong(options.target, types[options.target], "the target must be text")
    for name in options.split:
        if types[name].typeName() not in KEYS:
            raise _wrong(name, types[name], "a split column must be text or a whole number")
    named = _variables(types, options)
    for name in named:
        if part := _without_text(types[name]):
            raise _wrong(name, part, _WITHOUT_TEXT.get(part.typeName(), "its values have no text"))
    if len(named) == 1 and (options.variables or named == (WHOLE,)) and types[named[0]].typeName() in ("struct", "map"):
        return Columns(options.target, (), named[0], options.split)
    return Columns(options.target, named, "", options.split)


def _variables(types: "dict[str, DataType]", options: TaskOptions) -> tuple[str, ...]:
    if options.variables is not None:
        return options.variables
    if WHOLE in types and types[WHOLE].typeName() in ("struct", "map"):
        return (WHOLE,)
    return tuple(name for name in types if name not in (options.target, REFUSED, *options.split))


def _check_there(columns: Collection[str], required: Sequence[str], hint: str) -> None:
    for name in required:
        if name not in columns:
            raise InvalidInput(f"The table has no column {name}; it has {', '.join(columns)}.", hint.format(name=name))


def _without_text(kind: "DataType") -> "DataType | None":
    """Return the first type of a column, or within it, whose values have no text; None if all have one."""
    name = kind.typeName()
    if name not in _NESTED or (name == "map" and kind.keyType.typeName() not in TEXTS):
        return None if name in _SCALARS else kind
    inner = {"struct": lambda: [field.dataType for field in kind.fields], "map": lambda: [kind.valueType]}
    parts = inner.get(name, lambda: [kind.elementType])()
    return next(filter(None, map(_without_text, parts)), None)


def _wrong(name: str, kind: "DataType", need: str) -> InvalidInput:
    cast = f"map<string, {kind.valueType.simpleString()}>" if kind.typeName() == "map" else "string"
    return InvalidInput(
        f"The column {name} is of type {kind.simpleString()}; {need}.",
        f'Convert it (Spark: `.withColumn("{name}", col("{name}").cast("{cast}"))`), or leave it out of `variables`.',
    )
