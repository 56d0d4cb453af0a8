"""`fairlane worker`."""

import click

from fairlane.cli.base.arguments import named_values
from fairlane.cli.base.settings import settings_of
from fairlane.worker.process.process import run_workers


def worker(ctx: click.Context, channels: tuple[str, ...], tiers: str | None, **given: str | float | None) -> int:
    named = named_values("--channel", channels, "NAME=MODULE:CLASS")
    options = {**given, "tiers": tiers.split(",") if tiers else None, "channels": named or None}
    return run_workers(settings_of(ctx, worker={name: value for name, value in options.items() if value is not None}))
