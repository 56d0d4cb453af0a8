"""`fairlane config`: the settings in force."""

from dataclasses import asdict

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
    from fairlane.settings import explain_settings

    rows = explain_settings(invocation.settings(), invocation.options)
    fields = [asdict(row) for row in rows]
    # As users write them: numbers without separators.
    shown = [
        {**row, "value": str(row["value"]) if type(row["value"]) in (int, float) else row["value"]} for row in fields
    ]
    output.emit_rows(fields, ["name", "value", "source", "description"], shown=shown)
