"""Settings of the channels `fcm` and `apns`: by channel, and by app."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from dispatcher.model.shown import bare, hide, hide_in
from dispatcher.model.task import Name as AppName
from fairlane.setting_groups import SettingGroup

_PROXIES = ("http://", "https://", "socks5://", "socks5h://")
HttpsUrl = Annotated[str, StringConstraints(pattern=r"^https://[^\s/]+/?$")]
AppleId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]{1,32}$")]


class PushApp(SettingGroup):
    """An app in a channel: its credential, and how its provider is reached."""

    credentials: SecretStr = Field(
        description="reference to the app's secret: file:PATH, env:NAME, a vault's scheme, or google:default (FCM)"
    )
    url: HttpsUrl | None = Field(default=None, description="https:// address to send to instead of the provider's own")
    proxy: SecretStr | None = Field(
        default=None,
        description="egress proxy, http://HOST:PORT, https:// or socks5h:// (which FCM's access tokens do not pass); "
        "the environment's is not used",
    )
    ca_file: Path | None = Field(default=None, description="PEM file of accepted authorities; default: Mozilla's")
    connections: int | None = Field(
        default=None, ge=1, le=100, description="maximum connections of a worker; default: 10 (fcm), 1 (apns)"
    )
    streams: int | None = Field(
        default=None, ge=1, le=10_000, description="maximum requests of a connection; default: 100 (fcm), 1,000 (apns)"
    )

    @field_validator("credentials")
    @classmethod
    def _is_reference(cls, value: SecretStr) -> SecretStr:
        value = SecretStr(bare(value.get_secret_value()))
        scheme, colon, rest = value.get_secret_value().partition(":")
        if not colon or not rest or not scheme.replace("-", "").isalnum():
            hide(value.get_secret_value())
            raise ValueError("it must be a reference such as file:/run/secrets/shop.json or env:NAME, not the secret")
        return value

    @field_validator("credentials")
    @classmethod
    def _is_known_to_google(cls, value: SecretStr) -> SecretStr:
        reference = value.get_secret_value()
        if reference.startswith("google:") and reference != "google:default":
            raise ValueError("of Google there is only google:default")
        return value

    @field_validator("proxy")
    @classmethod
    def _is_proxy(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        if not value.get_secret_value().startswith(_PROXIES):
            raise ValueError("it must be an address such as http://HOST:PORT")
        return SecretStr(hide_in(bare(value.get_secret_value())))


class FcmApp(PushApp):
    """An app that sends through Firebase Cloud Messaging."""

    project_id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.:-]{0,99}$")] | None = Field(
        default=None, description="Firebase project; default: the credential's"
    )


class ApnsApp(PushApp):
    """An app that sends through the Apple Push Notification service."""

    topic: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]{1,255}$")] = Field(
        description="the app's bundle id"
    )
    key_id: AppleId | None = Field(default=None, description="id of the key, unless the credential is a certificate")
    team_id: AppleId | None = Field(default=None, description="id of the team that owns the key")
    environment: Literal["production", "sandbox"] = Field(
        default="production", description="environment that the app's device tokens come from"
    )

    @model_validator(mode="after")
    def _has_both_ids(self) -> Self:
        if (self.key_id is None) != (self.team_id is None):
            raise ValueError("key_id and team_id belong together: set both, or none for a certificate")
        return self

    @field_validator("credentials")
    @classmethod
    def _is_of_apple(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value().startswith("google:"):
            raise ValueError("google:default is a credential for fcm; APNs needs a key or a certificate")
        return value


class PushChannelGroup(SettingGroup):
    """A channel with one request per target."""

    timeout_s: float = Field(default=12.0, gt=0, le=120, description="seconds one call, of up to 500 targets, may take")
    request_timeout_s: float = Field(
        default=6.0, gt=0, le=60, description="seconds one request may take; less than timeout_s"
    )
    concurrency: int = Field(default=10, ge=1, le=100, description="maximum concurrent calls of each app in a process")
    keep_ids: bool = Field(
        default=False, description="whether outcome records keep the provider's id of each message that it took"
    )

    @model_validator(mode="after")
    def _is_shorter(self) -> Self:
        if self.request_timeout_s >= self.timeout_s:
            raise ValueError("request_timeout_s must be less than timeout_s")
        return self


class FcmChannelSettings(PushChannelGroup):
    """The `fcm` channel."""

    apps: dict[AppName, FcmApp] = Field(default_factory=dict, description="apps that may send, by name")


class ApnsChannelSettings(PushChannelGroup):
    """The `apns` channel."""

    apps: dict[AppName, ApnsApp] = Field(default_factory=dict, description="apps that may send, by name")


PushChannelSettings = FcmChannelSettings | ApnsChannelSettings
PUSH_CHANNELS: dict[str, type[PushChannelSettings]] = {"fcm": FcmChannelSettings, "apns": ApnsChannelSettings}
