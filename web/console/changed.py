"""Changes of the audit in plain words: which setting, and its values."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dispatcher.model.errors import Malformed
from dispatcher.model.flow_pause import FLOW_PAUSED, PauseKind
from dispatcher.model.pools import Pool
from dispatcher.model.service_settings import SETTINGS

_NAMES = {
    "override": "message",
    "tiers": "weights of the tiers",
    "channel_paused": "channel {channel} paused",
    FLOW_PAUSED: "app {app} paused on channel {channel}",
    "app_weight": "weight of app {app}",
    "quota": "quota group of app {app} on channel {channel}",
    "quota_unit": "unit of quota group {group}",
    "limit:tasks": "limit of tasks of app {app}",
    "limit:targets": "limit of targets of app {app}",
    "policy": "policy of app {app}",
}
_SWITCHES = ("paused", "cancelled", "channel_paused", FLOW_PAUSED)


def setting_text(field: str) -> str:
    """Return the setting, or the field of a task, that a change is about."""
    kind, name = _parts(field)
    text = field.replace("_", " ").replace(":", " ")
    if pool := Pool.parse(name) if kind == "cap" else None:
        text = f"cap of {pool}"
    elif kind in _NAMES:
        with suppress(Malformed, KeyError):
            text = _NAMES[kind].format(**(SETTINGS[kind].parts(name) if kind in SETTINGS else {}))
    return text[:1].upper() + text[1:]


def value_text(change: Mapping[str, Any], side: str) -> str:
    """Return a value of a change. side: before or after."""
    value, kind = str(change[side]), _parts(change["field"])[0]
    if not value:
        return "no" if kind in _SWITCHES else "none"
    if kind == FLOW_PAUSED:
        pause, comma, reason = value.partition(",")
        word = "no" if pause == PauseKind.ENDED else "by hand" if pause == PauseKind.HAND else pause
        return f"{word}{comma}{reason}"
    return value


def _parts(field: str) -> tuple[str, str]:
    """Return the kind of a stored field, and the name that it is of."""
    kind = next((kind for kind in SETTINGS if f"{field}:".startswith(f"{kind}:")), field)
    return kind, field[len(kind) + 1 :].replace(":", "/", 1)
