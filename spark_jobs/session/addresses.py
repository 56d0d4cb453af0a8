"""Columns of targets in their canonical form, as expressions of Spark."""

from typing import TYPE_CHECKING

from dispatcher.channels.specs import SPECS
from dispatcher.channels.submission.address import BLANKS, address_form

if TYPE_CHECKING:
    from pyspark.sql import Column


def quoted(name: str) -> str:
    """Return a column's name for Spark's expressions, whatever letters it has."""
    return "`" + name.replace("`", "``") + "`"


def canonical(target: "Column", channel: "str | Column") -> "Column":
    """Return targets as `address_form` of their channel makes them."""
    from pyspark.sql import functions as f

    trimmed = f.btrim(target, f.lit(BLANKS))
    if isinstance(channel, str):
        return f.lower(trimmed) if address_form(channel).folds_case else trimmed
    folding = [name for name in SPECS if address_form(name).folds_case]
    return f.when(channel.isin(folding), f.lower(trimmed)).otherwise(trimmed)
