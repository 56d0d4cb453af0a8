"""The client and the settings of a command's invocation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli.base.invocation import Invocation

if TYPE_CHECKING:
    from fairlane.settings import Settings
    from producers.client import PushClient


def settings_of(ctx: click.Context, **options: Any) -> "Settings":
    """Return the settings from all sources; logging is configured accordingly. Raises InvalidInput.

    options: those of the command, by group, besides the global ones.
    """
    return Invocation({**ctx.ensure_object(Invocation).options, **options}).settings()


@contextmanager
def client_of(ctx: click.Context) -> "Iterator[PushClient]":
    """Yield a client on the configured servers."""
    from producers.client import PushClient

    with PushClient.connect(settings_of(ctx)) as client:
        client.check_view()
        yield client
