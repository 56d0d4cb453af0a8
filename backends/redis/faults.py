"""Errors of a connection that say in our words what is wrong with the server, with what to do next."""

import re
from typing import Final

from redis import exceptions

from dispatcher.model.errors import FairlaneError, InvalidInput, Refused, Unreachable

OLDEST: Final = (7, 0)
"""The oldest version of Redis that Fairlane works with."""


def is_new_enough(version: str) -> bool:
    """Return whether Fairlane works with servers of this version of Redis. False if it is no version."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and tuple(map(int, numbers.groups())) >= OLDEST


class ServerFault(exceptions.RedisError):
    """A server that may not be used. The cause has a `{redis}` for its name and address."""

    kind: type[FairlaneError] = Unreachable

    def __init__(self, cause: str, next_step: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.next_step = next_step


class NotPrimary(ServerFault, exceptions.ConnectionError):
    """The server is a replica. The client connects once more, since the address may lead elsewhere by now."""

    def __init__(self) -> None:
        super().__init__(
            "{redis} is a read-only replica.",
            "Point the Redis URL at the primary. During a failover, wait: Fairlane continues on its own.",
        )


class NoPrimary(ServerFault, exceptions.ConnectionError):
    """No Sentinel names a primary."""


class IsCluster(ServerFault):
    """The server is part of a Redis Cluster."""

    kind = Refused

    def __init__(self) -> None:
        super().__init__(
            "{redis} is a Redis Cluster, which Fairlane cannot use.",
            "Use a single Redis, with Sentinels for a failover (redis+sentinel://): each script of the ledger works on "
            "keys that a cluster keeps on different servers.",
        )


class IsSentinel(ServerFault):
    """The server is a Sentinel."""

    kind = InvalidInput

    def __init__(self) -> None:
        super().__init__(
            "{redis} is a Sentinel, not a Redis.", "Write redis+sentinel://host:port,host:port/SERVICE as its URL."
        )
