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
_VALUES = (
    *("string", "char", "varchar", "boolean", "byte", "short", "integer", "long", "float", "double"),
    *("date", "time", "timestamp", "timestamp_ntz", "decimal"),
)
"""Types of variables. Those of the second line become texts."""
_SPLITS = ("string", "char", "varchar", "byte", "short", "integer", "long")


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
    if types[options.target].typeName() not in _VALUES[:3]:
        raise _wrong(options.target, types[options.target], "the target must be text", "string")
    for name in options.split:
        if types[name].typeName() not in _SPLITS:
            raise _wrong(name, types[name], "a split column must be text or a whole number", "string")
    named = _variables(types, options)
    if len(named) == 1 and types[named[0]].typeName() in ("struct", "map"):
        _check_whole(named[0], types[named[0]])
        return Columns(options.target, (), named[0], options.split)
    for name in named:
        if types[name].typeName() not in _VALUES:
            raise _wrong(name, types[name], "a variable must be text, a number, a truth value or a time", "string")
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


def _check_whole(name: str, kind: "DataType") -> None:
    if kind.typeName() == "map" and kind.keyType.typeName() != "string":
        raise _wrong(name, kind, "the names of variables must be text", "map<string, string>")
    parts = [kind]
    while parts:
        part = parts.pop()
        inner = [field.dataType for field in part.fields] if part.typeName() == "struct" else []
        inner += [getattr(part, side) for side in ("keyType", "valueType", "elementType") if hasattr(part, side)]
        if not inner and part.typeName() not in _VALUES:
            raise _wrong(
                name, part, "variables in a struct or map must be text, numbers, truth values or times", "string"
            )
        parts += inner


def _wrong(name: str, kind: "DataType", need: str, cast: str) -> InvalidInput:
    return InvalidInput(
        f"The column {name} is of type {kind.simpleString()}; {need}.",
        f'Convert it (Spark: `.withColumn("{name}", col("{name}").cast("{cast}"))`), or leave it out of `variables`.',
    )
