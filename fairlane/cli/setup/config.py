"""`fairlane config`: the settings in force."""

from dataclasses import asdict
from typing import Any

import click

from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.invocation import Invocation, pass_invocation
from fairlane.cli.base.output import Output, output_option


@click.group(cls=CommandGroup)
def config() -> None:
    """The settings and where they come from."""


@config.command()
@output_option
@pass_invocation
def show(invocation: Invocation, output: Output) -> None:
    """Print every setting with its value, its source and its meaning. Secrets are masked.

    Settings are read in this order; the first match wins: option, environment, TOML file, the local stack (from
    `stack up` to `stack down`), default.
    """
    from fairlane.settings_sources import explain_settings

    rows = explain_settings(invocation.settings(), invocation.options)
    fields = [asdict(row) for row in rows]
    shown = [{**row, "value": as_written(row["value"])} for row in fields]
    output.emit_rows(fields, ["name", "value", "source", "description"], shown=shown)


def as_written(value: Any) -> Any:
    """Return a setting's value as a user writes it: numbers without separators."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
