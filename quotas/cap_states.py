"""Read how much of the caps of flows and quota groups may be used at present."""

from collections.abc import Iterable
from importlib.resources.abc import Traversable

from backends.redis.client import lua_folder
from backends.redis.view import RedisView
from dispatcher.model.cap_state import CapState, cap_state


def read_cap_states(view: RedisView, pools: Iterable[str], folder: Traversable | None = None) -> dict[str, CapState]:
    """Return the state of each pool's cap. Raises Unreachable. `folder` holds the scripts; the default is this
    package's."""
    names = sorted(pools)
    if not names:
        return {}
    rows = view.scripts.of(folder or lua_folder("quotas")).call("cap_states", [view.keys.prefix], names)[1:]
    return {
        name: cap_state(part, slow_until_ms, grown_ms, ramp_end_ms, rests=rests == 1)
        for name, (part, slow_until_ms, grown_ms, ramp_end_ms, rests) in zip(names, rows, strict=True)
    }
