"""How the shared channel asks a provider."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import msgspec

from consumers.delivery.http2.port import Headers, HttpRequest, HttpResponse
from consumers.delivery.http2.settings import ClientCertificate
from consumers.delivery.push.credentials import Credential
from consumers.delivery.settings import PushChannelSettings
from dispatcher.channels.spec import ChannelSpec
from dispatcher.channels.verdict_table import Answer
from dispatcher.wire.envelope import Envelope


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

    settings: ClassVar[type[PushChannelSettings[Any]]]
    """The model of the channel's settings."""
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

    @abstractmethod
    def __init__(self, app: Any) -> None:
        """Take the settings of the app. Raises Missing without fairlane[push]."""

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
