"""Settings of the built-in channels, one frozen model for each: what a channel is constructed with.

They hold values only. The program reads them from the environment, a file or the command line (`fairlane.settings`).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Generic, Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from backends.settings import HttpUrl, Secret, SettingGroup
from dispatcher.model.errors import InvalidInput
from dispatcher.model.field_errors import in_words
from dispatcher.model.shown import SECRET_NAME, bare, hide, hide_in
from dispatcher.model.task import Name as AppName

_LONG_VALUE = 16
_PROXIES = ("http", "https", "socks5", "socks5h")


def _one_line(value: SecretStr) -> SecretStr:
    text = bare(value.get_secret_value())
    if not text.isprintable():
        raise ValueError("it has a line break, or another character that no header may have")
    return SecretStr(text)


def _names_host(url: str) -> str:
    if not urlsplit(url).hostname:
        raise ValueError("it names no host")
    return url


def _is_proxy(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in _PROXIES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


HeaderValue = Annotated[SecretStr, AfterValidator(_one_line)]
ClientName = Literal["auto", "aiohttp", "pycurl"]
HttpsUrl = Annotated[str, StringConstraints(pattern=r"^https://[^\s/]+/?$")]
AppleId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]{1,32}$")]


class ChannelSettings(SettingGroup):
    """Base class of the settings of channels."""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings of a channel, which are given with its `name`.

        Raises InvalidInput, which names each wrong setting and no value: that may be a secret.
        """
        try:
            return cls.model_validate({name: value for name, value in values.items() if name != "name"})
        except ValidationError as error:
            faults = (f"{'.'.join(map(str, fault['loc']))}: {in_words(dict(fault))}" for fault in error.errors())
            cause = f"The settings of the channel {values.get('name', '')} are wrong: {'; '.join(faults)}."
            raise InvalidInput(cause, "Correct them.") from None


class LogChannelSettings(ChannelSettings):
    """The `log` channel."""

    path: str = "-"
    """A file to append to (worker processes may share one), or "-" for standard output."""


class HttpChannelSettings(ChannelSettings):
    """The `http` channel: each envelope is a POST to one address."""

    url: Annotated[HttpUrl, AfterValidator(_names_host)] | None = Field(
        default=None,
        description="URL that the http channel posts to, http:// or https://; without it there is no http channel",
    )
    timeout_s: float = Field(default=10.0, gt=0, le=120, description="seconds one POST may take")
    concurrency: int = Field(default=64, ge=1, le=10_000, description="maximum concurrent POSTs of each process")
    headers: dict[str, HeaderValue] = Field(default_factory=dict, description="headers added to each POST")
    signing_secret: Secret | None = Field(
        default=None,
        description="POSTs are signed with it as Standard Webhooks says: whsec_ and the base64 of 24 to 64 bytes",
    )
    strict_answers: bool = Field(
        default=True,
        description="whether an answer of 2xx that is neither empty nor a JSON object with `failed` is a fault "
        "(its targets fail) rather than sent",
    )
    client: ClientName = Field(
        default="auto",
        description="client that posts: aiohttp, or pycurl (of the extra push), which takes less CPU; auto: pycurl if "
        "it is installed",
    )

    @field_validator("headers")
    @classmethod
    def _hide_secrets(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        """Hide the values that may be secrets, but not such as `production`, which are in other texts too."""
        for name, value in headers.items():
            if SECRET_NAME.search(name) or len(value) >= _LONG_VALUE:
                hide(value.get_secret_value())
        return headers


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
    ca_file: str | None = Field(default=None, description="PEM file of accepted authorities; default: Mozilla's")
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
    def _can_be_proxy(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        address = hide_in(bare(value.get_secret_value()))
        if not _is_proxy(address):
            raise ValueError("it must be an address such as http://HOST:PORT")
        return SecretStr(address)

    @property
    def proxy_address(self) -> str | None:
        """Return the address of the egress proxy in clear text."""
        return None if self.proxy is None else self.proxy.get_secret_value()


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


App = TypeVar("App", bound=PushApp)


class PushChannelSettings(ChannelSettings, Generic[App]):
    """A channel with one request per target."""

    timeout_s: float = Field(default=12.0, gt=0, le=120, description="seconds one call, of up to 500 targets, may take")
    request_timeout_s: float = Field(
        default=6.0, gt=0, le=60, description="seconds one request may take; less than timeout_s"
    )
    concurrency: int = Field(default=10, ge=1, le=100, description="maximum concurrent calls of each app in a process")
    keep_ids: bool = Field(
        default=False, description="whether outcome records keep the provider's id of each message that it took"
    )
    apps: dict[AppName, App] = Field(default_factory=dict, description="apps that may send, by name")

    @model_validator(mode="after")
    def _is_shorter(self) -> Self:
        if self.request_timeout_s >= self.timeout_s:
            raise ValueError("request_timeout_s must be less than timeout_s")
        return self


class FcmChannelSettings(PushChannelSettings[FcmApp]):
    """The `fcm` channel."""


class ApnsChannelSettings(PushChannelSettings[ApnsApp]):
    """The `apns` channel."""


class PushChannels(SettingGroup):
    """The channels that ask a provider target by target."""

    fcm: FcmChannelSettings = FcmChannelSettings()
    apns: ApnsChannelSettings = ApnsChannelSettings()
