"""The client and the settings of a command's invocation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from fairlane.logging import configure_logging
from fairlane.settings import Settings, load_settings
from producers.client import PushClient


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


@contextmanager
def client_of(ctx: click.Context) -> Iterator[PushClient]:
    """Yield a client on the configured servers."""
    with PushClient.connect(settings_of(ctx)) as client:
        client.check_view()
        yield client
