"""How the shared channel asks a provider, and the settings of a channel and its apps."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec

from consumers.delivery.http2.port import Headers, HttpRequest, HttpResponse
from consumers.delivery.http2.settings import ClientCertificate
from consumers.delivery.push.credentials import Credential
from dispatcher.channels.spec import ChannelSpec
from dispatcher.channels.verdict_table import Answer
from dispatcher.model.errors import InvalidInput
from dispatcher.wire.envelope import Envelope


class AppSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one app."""

    credentials: str
    """Reference to the secret: file:PATH, env:NAME, the scheme of an entry point, or google:default (FCM)."""
    project_id: str | None = None
    """FCM: the Firebase project, if the credential does not name it."""
    key_id: str | None = None
    """APNs: the id of the key."""
    team_id: str | None = None
    """APNs: the id of the team that owns the key."""
    topic: str | None = None
    """APNs: the app's bundle id."""
    environment: Literal["production", "sandbox"] = "production"
    """APNs: the environment that the app's device tokens come from."""
    url: str | None = None
    """Where to send instead of the provider's own address, such as a fake."""
    proxy: str | None = None
    """Address of the egress proxy, also for access tokens."""
    ca_file: str | None = None
    """PEM file of the accepted authorities. None: those of the package certifi."""
    connections: int | None = None
    """Maximum connections of a worker. None: the provider's usual number."""
    streams: int | None = None
    """Maximum concurrent requests of a connection. None: the provider's usual number."""


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


class Authorization(msgspec.Struct, frozen=True, kw_only=True):
    """Proof that an app may send."""

    url: str
    """Address of a request; for APNs without the target."""
    headers: Headers
    version: str
    """Version of the credential it was made from."""
    from_s: float
    """Unix time before which another one is made: the clock was set back."""
    renew_s: float
    """Unix time after which another one is made."""
    ends_s: float
    """Unix time after which the provider refuses it."""

    def is_due(self, wall_s: float) -> bool:
        """Return whether another one should be made."""
        return not self.from_s <= wall_s < self.renew_s

    def is_over(self, wall_s: float) -> bool:
        """Return whether it can no longer be used."""
        return not self.from_s <= wall_s < self.ends_s


class Provider(ABC):
    """How one provider is asked for one app."""

    spec: ClassVar[ChannelSpec]
    target_in_path: ClassVar[bool]
    """Whether the target is appended to the address."""
    first_alone: ClassVar[bool]
    """Whether a connection allows one request until the provider has seen a valid proof."""
    connections: ClassVar[int]
    """The usual number of connections of a worker."""
    streams: ClassVar[int]
    """The usual number of concurrent requests of a connection."""
    too_large: ClassVar[Answer]
    """The provider's answer to a request with a body above its limit, of which none is sent."""
    malformed_target: ClassVar[Answer]
    """The provider's answer to a target that cannot exist."""

    def certificate(self, _credential: Credential, /) -> ClientCertificate | None:
        """Return the client's certificate if the credential is one."""
        return None

    @abstractmethod
    def authorize(self, credential: Credential, wall_s: float) -> Authorization:
        """Make a proof. May block. Raises InvalidInput if the credential cannot be used, Unreachable if its issuer
        cannot be reached."""

    def joined(self, proof: Headers, message: Headers, /) -> Headers:
        """Return the headers of a request: those of the proof and those of the message."""
        return (*proof, *message)

    @abstractmethod
    def read(self, response: HttpResponse) -> Answer:
        """Read an answer."""

    @abstractmethod
    def took(self, response: HttpResponse) -> bool:
        """Return whether an answer with status 200 has the provider's form, so that it took the message."""

    @abstractmethod
    def id_in(self, response: HttpResponse) -> str:
        """Return the provider's id of a message that it took; empty if it names none."""

    def own_headers(self, _envelope: Envelope, _index: int, /) -> Headers:
        """Return headers of the request for one target alone."""
        return ()

    @abstractmethod
    def dry_run(self, authorization: Authorization, target: str | None) -> HttpRequest:
        """Return a request that shows whether the app may send, and shows nothing to anybody. Without a target it
        names one that does not exist."""
