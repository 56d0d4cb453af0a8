"""Pools of connections to Redis, as the settings say: to one address, or to the primary that Sentinels name."""

import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, ConnectionPool, parse_url
from redis.retry import Retry

from backends.addresses import SentinelUrl, is_sentinel_url, sentinel_url
from backends.redis.faults import NotPrimary
from backends.settings import RedisSettings
from dispatcher.model.errors import InvalidInput

if TYPE_CHECKING:
    from backends.redis.sentinel import FollowingPool

OnConnect = Callable[[AbstractConnection], None]
"""Called with every new connection before its first command, in place of the vendor's `on_connect`."""
Options = dict[str, Any]
_LEAVE = "leave"


class _LeavesReplica(AbstractConnection):
    """A connection that ends when the server answers that it is a replica: the address may lead elsewhere by now."""

    def __init__(self, *, leave: Callable[[], None], **options: Any) -> None:
        """`leave` ends the other idle connections, which lead to the same server."""
        self._leave = leave
        super().__init__(**options)

    def read_response(self, *args: Any, **options: Any) -> Any:
        """Read an answer. Raises NotPrimary in place of the vendor's error."""
        try:
            return super().read_response(*args, **options)
        except exceptions.ReadOnlyError as error:
            self.disconnect()  # type: ignore[no-untyped-call]  # the vendor's
            self._leave()
            raise NotPrimary from error


class _Plain(_LeavesReplica, redis.Connection):
    pass


class _Tls(_LeavesReplica, redis.SSLConnection):
    pass


class _Unix(_LeavesReplica, redis.UnixDomainSocketConnection):
    pass


_KINDS: Mapping[type, type] = {
    redis.Connection: _Plain,
    redis.SSLConnection: _Tls,
    redis.UnixDomainSocketConnection: _Unix,
}


def open_pool(settings: RedisSettings, address: str, on_connect: OnConnect | None) -> ConnectionPool:
    """Return a pool for the address of the settings; nothing is sent yet. Raises InvalidInput."""
    common: Options = {
        "decode_responses": False,
        "protocol": 2,
        "socket_connect_timeout": settings.connect_timeout_s,
        "socket_timeout": settings.socket_timeout_s,
        "health_check_interval": 15,
        "retry": Retry(NoBackoff(), 1, supported_errors=(exceptions.ConnectionError,)),
        "redis_connect_func": on_connect,
    }
    try:
        if is_sentinel_url(address):
            return _following(sentinel_url(address), settings, common)
        options = dict(parse_url(address))  # type: ignore[no-untyped-call]  # the vendor's
    except ValueError as error:
        raise InvalidInput(
            f"The Redis URL is not usable: {str(error).rstrip('.')}.", "Write redis://host:port/db or rediss://..."
        ) from error
    if settings.sentinel_username or settings.sentinel_password:
        raise InvalidInput(
            "Credentials of Sentinels are set, but the Redis URL names none.",
            "Write redis+sentinel://host:port,host:port/SERVICE, or remove redis.sentinel_username and _password.",
        )
    pool = _single({**options, **common}, settings)
    try:
        pool.connection_class(**pool.connection_kwargs)  # connects to nothing
    except (TypeError, ValueError, exceptions.RedisError) as error:
        cause = f"An option of the Redis URL is not usable: {str(error).rstrip('.')}."
        raise InvalidInput(cause, "Correct the part after its `?`.") from error
    return pool


def copy_of(pool: ConnectionPool, **changes: Any) -> ConnectionPool:
    """Return a pool of its own connections to the same server, with changed options."""
    options = {name: value for name, value in pool.connection_kwargs.items() if name != "connection_pool"}
    options |= {"connection_class": pool.connection_class, **changes}
    follows = following(pool)
    return type(follows)(follows.sentinels, **options) if follows else _with_leave(options)


def following(pool: ConnectionPool) -> "FollowingPool | None":
    """Return the pool if it follows the primary that Sentinels name; None if it has one address."""
    return cast("FollowingPool", pool) if hasattr(pool, "sentinels") else None


def _single(options: Options, settings: RedisSettings) -> ConnectionPool:
    kind = options.get("connection_class", redis.Connection)
    options["connection_class"] = _KINDS[kind]
    options |= _credentials(settings)
    if kind is redis.SSLConnection:
        options |= _tls(settings)
    else:
        _refuse_tls_files(settings)
    if kind is not redis.UnixDomainSocketConnection:
        options["socket_keepalive"] = True
    return _with_leave(options)


def _with_leave(options: Options) -> ConnectionPool:
    pool = ConnectionPool(**{**options, _LEAVE: lambda: None})
    reference = weakref.ref(pool)

    def leave() -> None:
        if (found := reference()) is not None:
            found.disconnect(inuse_connections=False)

    pool.connection_kwargs[_LEAVE] = leave
    return pool


def _following(url: SentinelUrl, settings: RedisSettings, common: Options) -> ConnectionPool:
    from redis.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection

    from backends.redis.sentinel import FollowingPool, Sentinels, asker

    options = {**common, "db": url.db, "username": url.username, "password": url.password, "socket_keepalive": True}
    options |= _credentials(settings)
    to_sentinels: Options = {
        "decode_responses": True,
        "protocol": 2,
        "socket_connect_timeout": settings.connect_timeout_s,
        "socket_timeout": settings.connect_timeout_s,
        "socket_keepalive": True,
        "retry": Retry(NoBackoff(), 1, supported_errors=(exceptions.ConnectionError,)),
        "username": settings.sentinel_username,
        "password": settings.sentinel_password.get_secret_value() if settings.sentinel_password else None,
    }
    if url.tls:
        options |= _tls(settings)
        to_sentinels |= {"ssl": True, **_tls(settings)}
    else:
        _refuse_tls_files(settings)
    kind = SentinelManagedSSLConnection if url.tls else SentinelManagedConnection
    sentinels = Sentinels(url.service, url.hosts, asker(url.service, to_sentinels))
    return cast("ConnectionPool", FollowingPool(sentinels, connection_class=kind, **options))


def _credentials(settings: RedisSettings) -> Options:
    """Return the credentials of the settings, which override those in the address."""
    given = {"username": settings.username, "password": settings.password and settings.password.get_secret_value()}
    return {name: value for name, value in given.items() if value}


def _refuse_tls_files(settings: RedisSettings) -> None:
    if settings.tls_ca or settings.tls_cert:
        raise InvalidInput(
            "Redis has TLS files but its URL does not use TLS.",
            "Write rediss:// instead of redis://, or rediss+sentinel:// instead of redis+sentinel://.",
        )


def _tls(settings: RedisSettings) -> Options:
    files_given = {
        "ssl_ca_certs": settings.tls_ca,
        "ssl_certfile": settings.tls_cert,
        "ssl_keyfile": settings.tls_key,
    }
    options: Options = {name: str(path) for name, path in files_given.items() if path}
    return options | {"ssl_check_hostname": settings.tls_verify_hostname}
