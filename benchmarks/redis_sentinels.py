"""A Redis with two replicas, watched by three Sentinels, for tests and faults."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import redis

from benchmarks.redis_server import RedisServer, free_port, running

SERVICE = "fairlane"
DOWN_AFTER_MS = 1_000
READY_S = 30.0


@dataclass
class SentinelGroup:
    """The servers and Sentinels of one service."""

    servers: dict[int, RedisServer]
    """By port."""
    sentinels: tuple[int, ...]
    """Ports of the Sentinels."""
    password: str = ""
    """The password of the servers."""
    sentinel_password: str = ""

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in self.sentinels)}/{SERVICE}/0"

    def primary(self) -> RedisServer:
        """Return the server that the first Sentinel names."""
        with self._sentinel(self.sentinels[0]) as client:
            named: Any = client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE)
        return self.servers[int(named[1])]

    def fail_over(self) -> None:
        """Ask for a failover, as an operator would, while the primary is well."""
        with self._sentinel(self.sentinels[0]) as client:
            client.execute_command("SENTINEL FAILOVER", SERVICE)

    def role(self, server: RedisServer) -> str:
        """Return `master` or `slave`, as the server itself says."""
        with self.client(server) as client:
            return str(client.info("replication")["role"])

    def client(self, server: RedisServer) -> redis.Redis:
        """Return a client of one server, whatever its role."""
        return redis.Redis(port=server.port, protocol=2, password=self.password or None)

    def is_whole(self) -> bool:
        """Return whether each Sentinel sees the others and both replicas, and these are in step with the primary."""
        for port in self.sentinels:
            with self._sentinel(port) as client:
                state: Any = client.execute_command("SENTINEL MASTER", SERVICE)
                if (state["num-slaves"], state["num-other-sentinels"]) != (
                    len(self.servers) - 1,
                    len(self.sentinels) - 1,
                ):
                    return False
        with self.client(self.primary()) as client:
            info: Any = client.info("replication")
            states = [info.get(f"slave{number}", {}).get("state") for number in range(len(self.servers))]
            return states.count("online") == len(self.servers) - 1

    def _sentinel(self, port: int) -> redis.Redis:
        return redis.Redis(port=port, protocol=2, password=self.sentinel_password or None)


@contextmanager
def sentinel_group(
    binary: str, *options: str, password: str = "", sentinel_password: str = "", sentinel_options: Sequence[str] = ()
) -> Iterator[SentinelGroup]:
    """Run three servers and three Sentinels for as long as the block runs. `options`: of the servers, as on a command
    line; `sentinel_options`: more lines of the Sentinels' files."""
    with ExitStack() as stack:
        secret = ("--requirepass", password, "--masterauth", password) if password else ()
        fast = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", *secret, *options)
        primary = stack.enter_context(running(*fast, binary=binary))
        follow = ("--replicaof", f"127.0.0.1 {primary.port}")
        servers = [primary, *(stack.enter_context(running(*follow, *fast, binary=binary)) for _ in range(2))]
        folder = Path(stack.enter_context(TemporaryDirectory()))
        lines = [*sentinel_options, *([f"sentinel auth-pass {SERVICE} {password}"] if password else ())]
        ports = tuple(stack.enter_context(_sentinel(binary, folder, primary.port, lines)) for _ in range(3))
        group = SentinelGroup({server.port: server for server in servers}, ports, password, sentinel_password)
        _until(group.is_whole, "the Sentinels see all servers")
        yield group


@contextmanager
def _sentinel(binary: str, folder: Path, primary: int, lines: Sequence[str]) -> Iterator[int]:
    port = free_port()
    (folder / str(port)).mkdir()
    config = folder / str(port) / "sentinel.conf"
    watched = (
        f"monitor {SERVICE} 127.0.0.1 {primary} 2",
        f"down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
        f"failover-timeout {SERVICE} 10000",
    )
    texts = (f"port {port}", "bind 127.0.0.1", *(f"sentinel {line}" for line in watched), *lines)
    config.write_text("\n".join(texts) + "\n")
    process = subprocess.Popen(
        [binary, str(config), "--sentinel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=config.parent
    )
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + READY_S
    while True:
        try:
            if condition():
                return
        except (redis.RedisError, KeyError):
            pass
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"not within {READY_S:.0f} s: {what}")
        time.sleep(0.05)
