"""The group of all commands on the estate."""

import click

from fairlane.cli.base.groups import CommandGroup

_COMMANDS = ("show", "balance", "drain", "spread", "guard", "capture")


@click.group(cls=CommandGroup, modules={name: f"estate.cli.{name}:{name}" for name in _COMMANDS})
def estate() -> None:
    """Look at the Pulsar estate under the service, guard it, record its state, and move its load on purpose."""
