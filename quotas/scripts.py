"""The ledger's Lua scripts, ready to be called."""

from collections.abc import Callable
from importlib.resources.abc import Traversable

import redis

from backends.redis_client import Observe, Scripts, lua_folder


def ledger_scripts(
    client: redis.Redis,
    *,
    on_restart: Callable[[], None],
    observe: Observe | None = None,
    folder: Traversable | None = None,
) -> Scripts:
    """on_restart: what must be done when Redis turns out to have restarted, before any script runs (backends.epochs).
    observe: called with a script's name and the seconds it took. folder: of the scripts, if not this package's."""
    return Scripts(client, folder or lua_folder("quotas"), on_restart=on_restart, observe=observe)
