"""The settings of a command's invocation. A worker loads them, so this imports nothing that it does not need."""

from typing import Any

import click

from fairlane.logging import configure_logging
from fairlane.settings import Settings, load_settings


def options_in(ctx: click.Context) -> dict[str, Any]:
    """Return the settings given as options before the command, nested by group."""
    return ctx.ensure_object(dict)


def settings_of(ctx: click.Context, **options: Any) -> Settings:
    """Return the settings from all sources; logging is configured accordingly. Raises InvalidInput.

    options: those of the command, by group, besides the global ones.
    """
    settings = load_settings({**options_in(ctx), **options})
    configure_logging(settings.log)
    return settings
