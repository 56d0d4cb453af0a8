"""The user's table that a command reads: how, and the names of its columns."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from backends.settings import StorageSettings
from fairlane.cli.base.arguments import named_values
from spark_jobs.ingest.audience import TableSource
from spark_jobs.ingest.suppression import SuppressOptions

_SUPPRESS: Final = "suppress."
"""Prefix of the names in --option and --map that are for suppress lists only."""


def source_of(path: str, given: Mapping[str, Any], storage: StorageSettings) -> TableSource:
    """Return the table at a path, with the given options."""
    return TableSource(path, given["table_format"] or "", _parted(_reader(given))[0], storage)


def names_of(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the new names of columns, by column."""
    return _parted(named_values("--map", given["names"]))[0]


def suppress_of(audience: TableSource, given: Mapping[str, Any]) -> SuppressOptions:
    """Return the suppress lists. The options of the audience's reader count for lists of its format, and its keys for
    all."""
    names, own_names = _parted(named_values("--map", given["names"]))
    own = _parted(_reader(given))[1]
    lists = [TableSource(path, storage=audience.storage) for path in given["suppress"]]
    return SuppressOptions(
        lists=tuple(
            replace(each, options={**(audience.options if each.kind == audience.kind else {}), **own}) for each in lists
        ),
        names={**names, **own_names},
        min_matched=given["min_matched"],
    )


def _reader(given: Mapping[str, Any]) -> dict[str, str]:
    return named_values("--option", given["reader"], may_be_empty=True)  # `quote=` turns quotes off


def _parted(values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the values for the audience and those for suppress lists only."""
    own = {name.removeprefix(_SUPPRESS): value for name, value in values.items() if name.startswith(_SUPPRESS)}
    return {name: value for name, value in values.items() if not name.startswith(_SUPPRESS)}, own
