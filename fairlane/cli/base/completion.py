"""Shell completion of names that the servers know: task ids, channels and apps."""

from collections.abc import Callable, Iterable
from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click

from fairlane.cli.base.invocation import Invocation, options_of

if TYPE_CHECKING:
    from producers.client import PushClient

Complete = Callable[[click.Context, click.Parameter, str], list[str]]
_PATIENCE_S = 1.0
"""How long a server that does not answer may delay the shell."""
_SHOWN = 100


def _asking(read: "Callable[[PushClient, str], Iterable[str]]") -> Complete:
    """Make a completion from what a client knows.

    If the client cannot be queried, nothing is completed: a shell in the middle of a line cannot show an error.
    """

    @wraps(read)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001  # click's
        try:
            with _client(ctx) as client:
                return [name for name in read(client, incomplete) if name.startswith(incomplete)]
        except Exception:
            return []

    return complete


def _client(ctx: click.Context) -> "PushClient":
    from producers.client import PushClient

    settings = Invocation(options_of(**ctx.find_root().params)).settings()
    redis = settings.redis.model_copy(
        update={"connect_timeout_s": _PATIENCE_S, "socket_timeout_s": _PATIENCE_S},
    )
    return PushClient.connect(SimpleNamespace(pulsar=settings.pulsar, redis=redis, producer=settings.producer))


@_asking
def task_ids(client: "PushClient", incomplete: str) -> Iterable[str]:
    """Return the newest tasks whose ids begin with the text."""
    return [view.id for view in client.task_page(id_prefix=incomplete or None, limit=_SHOWN)[0]]


@_asking
def channel_names(client: "PushClient", incomplete: str) -> Iterable[str]:  # noqa: ARG001
    """Return the channels that a worker has, or that a live task or a setting names."""
    from fairlane.figures.usage import channels

    named = {usage.channel for usage in channels(client.globals(), client.live_tasks())}
    return sorted(named.union(*(beat.channels or () for beat in client.workers())))


@_asking
def app_names(client: "PushClient", incomplete: str) -> Iterable[str]:  # noqa: ARG001
    """Return the apps that a live task or a setting names."""
    from fairlane.figures.usage import apps

    return [usage.app for usage in apps(client.globals(), client.live_tasks())]


task_argument = click.argument("task_id", metavar="ID", shell_complete=task_ids)
