"""`fairlane api`."""

from typing import Any

import click

from fairlane.cli.base.settings import settings_of
from fairlane.local_stack import addresses_in_force
from web.listening import LOCAL_HOSTS, ServerSettings
from web.process import run_servers


def api(ctx: click.Context, hosts: tuple[str, ...], host: str, **given: Any) -> int:
    own = f"[{host}]" if ":" in host else host
    names = frozenset(name.lower() for name in (*LOCAL_HOSTS, own, *hosts))
    settings = settings_of(ctx)
    stack = addresses_in_force(settings.home_folder)
    is_local = stack is not None and (settings.pulsar.url, settings.redis.url) == (stack.pulsar_url, stack.redis_url)
    board = settings.estate.grafana_url or ""
    return run_servers(settings, ServerSettings(host=host, hosts=names, is_local=is_local, estate_board=board, **given))
