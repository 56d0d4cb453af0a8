"""Addresses of Redis: those that are refused, and the parts of `redis+sentinel://host:port,host:port/SERVICE/DB`."""

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

PORT = 26379
"""The port of a Sentinel whose address has none."""
FORM = "redis+sentinel://host:port,host:port/SERVICE/DB"
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
        raise ValueError(f"it must be {FORM}, with an @ or / in a password written as %40 or %2F")
    if url["more"]:
        raise ValueError("an address of Sentinels has no options after ? or #; set redis.* instead")
    name, _, db = (url["path"] or "").removeprefix("/").partition("/")
    service = unquote(name)
    if not service:
        raise ValueError(f"it lacks the name of the service that the Sentinels watch: {FORM}")
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
    port = int(host[2] or PORT) if host else 0
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
