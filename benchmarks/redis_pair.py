"""A Redis with a replica, and an address that leads clients to the one in charge."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import redis

from benchmarks.cuttable_proxy import NamedProxy, named_proxy
from benchmarks.redis_server import RedisServer, running
from dispatcher.model.errors import FairlaneError

SYNC_S = 20.0
"""Maximum time for a replica to receive the primary's data."""
ACK_S = 1.5


class RedisPair:
    """A primary, its replica, and the proxy that leads to the one in charge."""

    def __init__(self, binary: str, servers: ExitStack) -> None:
        """Start the pair. `servers` ends the servers that are started here."""
        self._binary = binary
        self._servers = servers
        self.primary = servers.enter_context(running(binary=binary))
        self.proxy: NamedProxy = servers.enter_context(named_proxy(self.primary.port))
        self.replica = self._replica()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.proxy.port}/0"

    def stop_replication(self) -> None:
        """Stop replication: from now on the replica lacks new writes to the primary."""
        _command(self.replica, "REPLICAOF", "NO", "ONE")

    def fail_over(self) -> None:
        """End the primary; clients then reach the replica."""
        self.proxy.set_cut(cut=True)
        self.primary.kill()
        self.proxy.to_port = self.replica.port
        self.proxy.set_cut(cut=False)

    def renew(self) -> None:
        """After a fail-over, give the server now in charge a replica of its own."""
        self.primary = self.replica
        self.replica = self._replica()

    def wipe(self) -> None:
        """Delete everything that the primary holds."""
        _command(self.primary, "FLUSHALL")

    def has_all(self) -> bool:
        """Return whether the replica has everything the primary was given until this call; it reports once a second."""
        with _client(self.primary) as client:
            given, until_s = client.info("replication")["master_repl_offset"], time.monotonic() + ACK_S
            while time.monotonic() < until_s:
                replica = client.info("replication").get("slave0", {})
                if replica.get("state") == "online" and replica["offset"] >= given:
                    return True
                time.sleep(0.02)
        return False

    def _replica(self) -> RedisServer:
        """Start a replica, and return once it has the primary's data."""
        options = ("--replicaof", f"127.0.0.1 {self.primary.port}", "--repl-diskless-sync-delay", "0")
        server = self._servers.enter_context(running(*options, binary=self._binary))
        until_s = time.monotonic() + SYNC_S
        while not self.has_all():
            if time.monotonic() > until_s:
                raise FairlaneError(f"The replica of Redis lacks the primary's data after {SYNC_S:.0f} s.")
        return server


@contextmanager
def redis_pair(binary: str = "") -> Iterator[RedisPair]:
    """Run both servers for as long as the context lasts. `binary`: see running."""
    with ExitStack() as servers:
        yield RedisPair(binary, servers)


def _command(server: RedisServer, *words: str | int) -> None:
    with _client(server) as client:
        client.execute_command(*words)


def _client(server: RedisServer) -> redis.Redis:
    """Return a client of the server itself: Fairlane's connections write its guard, which a replica refuses."""
    return redis.Redis(port=server.port, protocol=2)
