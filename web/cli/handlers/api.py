"""`fairlane api`."""

from typing import Any

import click

from fairlane.cli.base.settings import options_in, settings_of
from fairlane.settings import Sources
from web.listening import LOCAL_HOSTS, ServerSettings
from web.process import run_servers


def api(ctx: click.Context, hosts: tuple[str, ...], host: str, **given: Any) -> int:
    own = f"[{host}]" if ":" in host else host
    names = frozenset(name.lower() for name in (*LOCAL_HOSTS, own, *hosts))
    sources = Sources(options_in(ctx))
    is_local = {sources.of((server, "url")) for server in ("pulsar", "redis")} == {"local stack"}
    return run_servers(settings_of(ctx), ServerSettings(host=host, hosts=names, is_local=is_local, **given))
