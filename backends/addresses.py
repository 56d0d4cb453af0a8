"""Addresses of servers: where they were configured, what is wrong with one that is missing, and Redis' by Sentinels."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import unquote

from pydantic import ValidatorFunctionWrapHandler

from dispatcher.model.errors import NotConfigured, Unreachable
from dispatcher.model.shown import bare, hide_in, without_credentials

_SENTINEL_PORT = 26379
"""The port of a Sentinel whose address has none."""
_SENTINEL_FORM = "redis+sentinel://host:port,host:port/SERVICE/DB"
_URL = re.compile(
    r"(?P<scheme>rediss?)\+sentinel://(?:(?P<user>[^/?#]*)@)?(?P<hosts>[^/?#@]*)(?P<path>/[^?#]*)?(?P<more>[?#].*)?"
)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")
_SERVICE = re.compile(r"[A-Za-z0-9._-]{1,100}")
_OPTIONS = (
    *("client_name", "db", "health_check_interval", "max_connections", "password", "protocol", "retry_on_timeout"),
    *("socket_connect_timeout", "socket_keepalive", "socket_timeout", "username"),
)
_TLS_OPTIONS = (
    *("ssl_ca_certs", "ssl_ca_data", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname"),
    *("ssl_ciphers", "ssl_keyfile", "ssl_password"),
)
"""Options of an address that the vendor's connections take."""


class Address(str):
    """A server's address, without white space around it. Its repr hides credentials, and so does all of the process."""

    __slots__ = ("source", "stopped")

    source: str
    """Where it was configured, such as "from the environment"; empty if the program itself gave it."""
    stopped: bool
    """Whether it is the address of a local stack's server that has ended. Any server that answers there now is another
    program."""

    def __new__(cls, text: str, source: str = "", *, stopped: bool = False) -> Self:
        address = super().__new__(cls, hide_in(bare(text)))
        address.source, address.stopped = source, stopped
        return address

    def __repr__(self) -> str:
        return repr(without_credentials(str(self)))

    def named(self) -> str:
        """Return the address without credentials, and where it was configured, for messages."""
        address = without_credentials(str(self))
        return f"{address} ({self.source})" if self.source else address


def as_address(value: Any, validate: ValidatorFunctionWrapHandler) -> Address:
    """Validate the text of an address; its source is kept."""
    text = validate(bare(value) if type(value) is str else value)
    return value if isinstance(value, Address) and value == text else Address(text)


def as_given(text: str) -> Address:
    """Return the address, whether its server runs or not."""
    return text if isinstance(text, Address) else Address(text)


def usable(server: str, text: str | None, missing: Iterable[tuple[str, str]]) -> Address:
    """Return the address of a server. Raise NotConfigured, naming all missing settings, if there is none; Unreachable
    if the server has ended."""
    if text is None:
        raise not_configured(missing)
    address = as_given(text)
    if address.stopped:
        raise Unreachable(f"{server} of the local stack ({address}) is not running.", "Run `fairlane stack up`.")
    return address


def not_configured(missing: Iterable[tuple[str, str]]) -> NotConfigured:
    """Return the error for settings without a value: (server, setting), as in ("Redis", "redis.url")."""
    pairs = list(missing)
    servers, settings = list(dict.fromkeys(server for server, _ in pairs)), [setting for _, setting in pairs]
    variables = [f"FAIRLANE_{setting.upper().replace('.', '_')}" for setting in settings]
    return NotConfigured(
        f"{_listed(servers)} {_be(servers)} not configured: {_listed(settings)} {_be(settings)} not set, and no local "
        "stack is up.",
        f"Run `fairlane stack up`, or set {_listed(variables)}.",
    )


def _be(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _listed(names: list[str]) -> str:
    """Join names, as in "a, b and c"."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


@dataclass(frozen=True, kw_only=True)
class SentinelUrl:
    """The parts of such an address."""

    hosts: tuple[tuple[str, int], ...]
    """Host and port of each Sentinel."""
    service: str
    """The name under which the Sentinels watch the primary."""
    db: int
    username: str | None
    """Redis' user, not the Sentinels'."""
    password: str | None = field(repr=False)
    """Redis' password, not the Sentinels'."""
    tls: bool
    """Whether Redis and the Sentinels are spoken to over TLS."""

    @property
    def name(self) -> str:
        """Return the address without credentials, the same for the Sentinels in any order."""
        hosts = ",".join(f"{host}:{port}" for host, port in sorted(self.hosts))
        return f"{self.service}/{self.db} of the Sentinels {hosts}"


def is_sentinel_url(text: str) -> bool:
    """Return whether the address names Sentinels."""
    return text.startswith(("redis+sentinel://", "rediss+sentinel://"))


def sentinel_url(text: str) -> SentinelUrl:
    """Parse an address. Raises ValueError, which shows no part of it, since a wrong address may show its password."""
    url = _URL.fullmatch(text)
    if url is None or not url["hosts"] or "@" in (url["path"] or ""):
        raise ValueError(f"it must be {_SENTINEL_FORM}, with an @ or / in a password written as %40 or %2F")
    if url["more"]:
        raise ValueError("an address of Sentinels has no options after ? or #; set redis.* instead")
    name, _, db = (url["path"] or "").removeprefix("/").partition("/")
    service = unquote(name)
    if not service:
        raise ValueError(f"it lacks the name of the service that the Sentinels watch: {_SENTINEL_FORM}")
    if not _SERVICE.fullmatch(service):
        raise ValueError("the name of the service may have A-Z a-z 0-9 . _ - only")
    if db and not re.fullmatch(r"\d{1,5}", db):
        raise ValueError("the database after the service must be a number")
    username, password = _credentials(url["user"])
    return SentinelUrl(
        hosts=tuple(_host(number, part) for number, part in enumerate(url["hosts"].split(","), 1)),
        service=service,
        db=int(db or 0),
        username=username,
        password=password,
        tls=url["scheme"] == "rediss",
    )


def _host(number: int, text: str) -> tuple[str, int]:
    host = _HOST.fullmatch(text)
    port = int(host[2] or _SENTINEL_PORT) if host else 0
    if host is None or not 0 < port < 65_536:
        raise ValueError(f"the address of Sentinel {number} is not host:port")
    return host[1].strip("[]"), port


def _credentials(user: str | None) -> tuple[str | None, str | None]:
    """Return user name and password; each may be missing."""
    name, colon, password = (user or "").partition(":")
    return unquote(name) or None, (unquote(password) or None) if colon else None


def checked_redis_url(text: str) -> str:
    """Return an address that the vendor's parser does not misread: it would take a part of a password for a host.

    Raises ValueError, which shows no part of it, since a wrong address may show its password.
    """
    if is_sentinel_url(text):
        sentinel_url(text)
        return text
    scheme, _, rest = text.partition("://")
    user, at, host = rest.rpartition("@")
    if at and not rest.startswith("/") and set(user) & set("/?#"):
        raise ValueError(
            "its password has / ? or # as they are. Write %2F, %3F and %23 (and %40 for @), or leave the password out "
            "of the address and set FAIRLANE_REDIS_PASSWORD to it"
        )
    named = [option.partition("=")[0] for option in host.partition("?")[2].partition("#")[0].split("&") if option]
    options = (*_OPTIONS, *(_TLS_OPTIONS if scheme == "rediss" else ()))
    if unknown := [name for name in named if name not in options]:
        raise ValueError(
            f"there is no option {unknown[0]!r} in it. TLS is set by rediss:// and redis.tls_ca, tls_cert and tls_key; "
            f"the other options are {', '.join(_OPTIONS)}"
        )
    return text
