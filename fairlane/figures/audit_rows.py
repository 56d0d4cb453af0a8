"""Rows of the audit, with values as users give them: a weight of 2 is stored as 2000."""

from collections.abc import Callable
from typing import Any

import msgspec

from backends.redis.registry.audit import AuditEntry
from dispatcher.access.app_policy import AppPolicy
from dispatcher.access.keys import AccessKey
from dispatcher.access.users import User
from dispatcher.model.errors import Malformed
from dispatcher.model.pools import Cap
from dispatcher.model.service_settings import Setting
from dispatcher.model.task_control import Control
from dispatcher.model.tier import MILLI
from dispatcher.wire.control import FORMAT, ControlChange


def audit_fields(entry: AuditEntry) -> dict[str, Any]:
    """Return a change that a person or a key made. Of a key its rights are shown, and not its digest."""
    values = {name: _shown(entry, getattr(entry, name)) for name in ("before", "after")}
    return msgspec.structs.asdict(entry) | values


def _shown(entry: AuditEntry, stored: str) -> str:
    """Return a stored value as a user gives it; one that this version cannot read, as it is stored."""
    if not stored or entry.field.startswith("letters_"):
        return stored
    if entry.field == "override":  # the beginning of a message, after the number of the edit
        return stored.partition(":")[2]
    try:
        if entry.task:
            return _text(entry.field, Control.parse(ControlChange(FORMAT, entry.task, entry.field, stored, 0)).value)
        setting = Setting.parse(entry.field, stored)
        return _text(setting.kind, setting.value)
    except Malformed:
        return stored


def _text(kind: str, value: Any) -> str:
    if kind in ("weight", "app_weight"):
        return f"{value / MILLI:g}"
    return _FORMS.get(type(value), lambda value: str(value or "none"))(value)


def _policy(policy: AppPolicy) -> str:
    bounds = msgspec.structs.asdict(policy) | {"channels": ",".join(policy.channels) or "none"}
    return " ".join(
        f"{name}={bound:.15g}" if isinstance(bound, float) else f"{name}={bound}" for name, bound in bounds.items()
    )


_FORMS: dict[type, Callable[[Any], str]] = {
    Cap: lambda cap: cap.text if cap.rate else "none",
    bool: lambda on: "yes" if on else "no",
    dict: lambda weights: " ".join(f"{tier}={milli / MILLI:g}" for tier, milli in weights.items()),
    AccessKey: lambda key: (
        f"{key.app or 'all apps'}: {', '.join(sorted(key.scopes))}{', revoked' if key.revoked_ms else ''}"
    ),
    AppPolicy: _policy,
    User: lambda user: f"{user.app or 'all apps'}: {', '.join(sorted(user.scopes))}" if user.scopes else "removed",
}
"""From a value to its text, by type."""
