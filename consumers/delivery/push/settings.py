"""Settings of the channels `fcm` and `apns`, checked."""

from collections.abc import Mapping
from typing import Any

import msgspec

from consumers.delivery.push.provider import AppSettings
from dispatcher.model.errors import InvalidInput


class PushSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one channel."""

    name: str
    apps: dict[str, AppSettings] = {}
    timeout_s: float = 12.0
    """Time limit of a call."""
    request_timeout_s: float = 6.0
    """Time limit of a request. FCM gives up after 5 s and says so."""
    concurrency: int = 10
    """Maximum calls of an app at once."""
    keep_ids: bool = False
    """Whether the provider's ids of the messages that it took are kept in the outcome records."""


def read_settings(values: Mapping[str, Any]) -> PushSettings:
    """Return the settings of a channel. Raises InvalidInput, which names the setting and no value."""
    channel = values.get("name", "push")
    try:
        settings = msgspec.convert(dict(values), PushSettings)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"channels.{channel} is wrong: {error}.", "Correct the settings.") from error
    if not 0 < settings.request_timeout_s < settings.timeout_s:
        raise InvalidInput(
            f"channels.{channel}.request_timeout_s must be above 0 and below timeout_s.", "Correct the settings."
        )
    return settings
