"""`fairlane api`."""

from typing import Any

import click

from fairlane.cli.base.settings import settings_of
from web.process import run_servers
from web.server import LOCAL_HOSTS, ServerSettings


def api(ctx: click.Context, hosts: tuple[str, ...], host: str, **given: Any) -> int:
    names = frozenset(name.lower() for name in (*LOCAL_HOSTS, host, *hosts))
    return run_servers(settings_of(ctx), ServerSettings(host=host, hosts=names, **given))
