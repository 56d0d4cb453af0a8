"""Names that the servers know, for the shell's completion."""

from collections.abc import Callable, Iterable
from functools import wraps
from types import SimpleNamespace

import click

from fairlane.cli.main import options_of
from fairlane.figures.usage import apps, channels
from fairlane.logging import configure_logging
from fairlane.settings import load_settings
from producers.client import PushClient
from producers.desk.board.groups import grouped

_PATIENCE_S = 1.0
"""How long a server that does not answer may delay the shell."""
_SHOWN = 100


def _asking(read: Callable[[PushClient, str], Iterable[str]]) -> Callable[[click.Context, str], list[str]]:
    """Make a completion from what a client knows.

    If the client cannot be queried, nothing is completed: a shell in the middle of a line cannot show an error.
    """

    @wraps(read)
    def complete(ctx: click.Context, incomplete: str) -> list[str]:
        try:
            with _client(ctx) as client:
                return [name for name in read(client, incomplete) if name.startswith(incomplete)]
        except Exception:
            return []

    return complete


def _client(ctx: click.Context) -> PushClient:
    settings = load_settings(options_of(**ctx.find_root().params))
    configure_logging(settings.log)
    patience = {"connect_timeout_s": _PATIENCE_S, "socket_timeout_s": _PATIENCE_S}
    redis = settings.redis.model_copy(update=patience)
    return PushClient.connect(SimpleNamespace(pulsar=settings.pulsar, redis=redis, producer=settings.producer))


@_asking
def task_ids(client: PushClient, incomplete: str) -> Iterable[str]:
    """Return the newest tasks whose ids begin with the text."""
    return [view.id for view in client.task_page(id_prefix=incomplete or None, limit=_SHOWN)[0]]


@_asking
def channel_names(client: PushClient, _: str) -> Iterable[str]:
    """Return the channels that a worker has, or that a live task or a setting names."""
    named = {usage.channel for usage in channels(client.globals(), grouped(client.live_tasks()))}
    return sorted(named.union(*(beat.channels or () for beat in client.workers())))


@_asking
def app_names(client: PushClient, _: str) -> Iterable[str]:
    """Return the apps that a live task or a setting names."""
    return [usage.app for usage in apps(client.globals(), grouped(client.live_tasks()))]
