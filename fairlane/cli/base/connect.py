"""The client of a command."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from dispatcher.access.principal import Caller
from fairlane.cli.base.settings import settings_of
from producers.client import PushClient
from producers.owner import this_user


@contextmanager
def client_of(ctx: click.Context) -> Iterator[PushClient]:
    """Yield a client on the configured servers."""
    with PushClient.connect(settings_of(ctx), Caller.named("cli", this_user())) as client:
        client.check_view()
        yield client
