"""Addresses of Redis: what is refused before the vendor's parser takes a part of a password for a host."""

from backends.sentinel_url import is_sentinel_url, sentinel_url

_OPTIONS = (
    *("client_name", "db", "health_check_interval", "max_connections", "password", "protocol", "retry_on_timeout"),
    *("socket_connect_timeout", "socket_keepalive", "socket_timeout", "username"),
)
_TLS_OPTIONS = (
    *("ssl_ca_certs", "ssl_ca_data", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname"),
    *("ssl_ciphers", "ssl_keyfile", "ssl_password"),
)
"""Options of an address that the vendor's connections take."""


def checked_redis_url(text: str) -> str:
    """Return the address. Raises ValueError, which shows no part of it, since a wrong address may show its password."""
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
