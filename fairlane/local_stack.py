"""The local stack as the rest of the program sees it: its directory, and the addresses of its servers.

`fairlane stack` (the laboratory) writes the state file that is read here; cheap enough for every command.
"""

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from backends.addresses import Address
from dispatcher.model.errors import FairlaneError, InvalidInput

HOST = "127.0.0.1"
STATE_FILE = "state.json"
_SOURCE = "of the local stack"


@dataclass(frozen=True)
class StackAddresses:
    """Addresses of the local stack's servers."""

    pulsar_url: str
    pulsar_admin_url: str
    redis_url: str
    bookie_http: str | None = None
    """Address of the bookies' HTTP interfaces with {host} for the bookie's; None without an estate."""
    brokers: int | None = None
    """Brokers of the estate; None without an estate."""
    already_running: bool = False
    changed: tuple[str, ...] = ()
    """Changes that provisioning made, one line each."""


class _Server(msgspec.Struct, frozen=True):
    pid: int
    birth: str


class _Ports(msgspec.Struct, frozen=True):
    broker: int
    web: int
    redis: int


class _EstatePorts(msgspec.Struct, frozen=True):
    brokers: tuple[int, ...]
    webs: tuple[int, ...]
    bookie_http: int


class _Shape(msgspec.Struct, frozen=True):
    brokers: int


class _Estate(msgspec.Struct, frozen=True):
    shape: _Shape
    ports: _EstatePorts
    servers: dict[str, _Server]

    def addresses(self, redis_url: Address) -> StackAddresses:
        """Return the addresses: of all brokers, and for REST of the first one that runs."""
        count = self.shape.brokers
        living = [number for number in range(count) if _lives(self.servers.get(f"broker-{number + 1}"))]
        hosts = ",".join(f"{HOST}:{port}" for port in self.ports.brokers[:count])
        return StackAddresses(
            pulsar_url=Address(f"pulsar://{hosts}", _SOURCE, stopped=not living),
            pulsar_admin_url=Address(
                f"http://{HOST}:{self.ports.webs[living[0] if living else 0]}", _SOURCE, stopped=not living
            ),
            redis_url=redis_url,
            bookie_http=f"http://{{host}}:{self.ports.bookie_http}",
            brokers=count,
        )


class _State(msgspec.Struct, frozen=True):
    """The fields of the state file that are read here."""

    ports: _Ports | None = None
    """In force from the end of `stack up` to `stack down`."""
    pulsar: _Server | None = None
    estate: _Estate | None = None
    redis: _Server | None = None


def addresses_in_force(home: Path) -> StackAddresses | None:
    """Return the addresses of the local stack in `home` if it was started and not stopped by `stack down`.

    A server that has ended is marked as stopped. Another user's stack is none. Reads one file and two process entries.
    Raises FairlaneError for a damaged file.
    """
    state = _stored(home / STATE_FILE)
    ports = state.ports
    if ports is None:
        return None
    redis_url = Address(f"redis://{HOST}:{ports.redis}/0", _SOURCE, stopped=not _lives(state.redis))
    if state.estate is not None:
        return state.estate.addresses(redis_url)
    stopped = not _lives(state.pulsar)
    return StackAddresses(
        pulsar_url=Address(f"pulsar://{HOST}:{ports.broker}", _SOURCE, stopped=stopped),
        pulsar_admin_url=Address(f"http://{HOST}:{ports.web}", _SOURCE, stopped=stopped),
        redis_url=redis_url,
    )


def _stored(file: Path) -> _State:
    if not os.access(file, os.R_OK):
        return _State()
    try:
        return msgspec.json.decode(file.read_bytes(), type=_State)
    except FileNotFoundError:
        return _State()
    except msgspec.DecodeError as error:
        raise FairlaneError(
            f"The file {file} cannot be read: {error}.",
            "Stop its servers by hand if any are running, then delete the file.",
        ) from error


# ----------------------------------------------------------------- processes


def _lives(server: _Server | None) -> bool:
    return server is not None and is_alive(server.pid, server.birth)


def is_alive(pid: int, birth: str) -> bool:
    """Return whether the same process that was started is still alive. birth: as `birth_of` returned it then."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return birth_of(pid) == birth


def birth_of(pid: int) -> str | None:
    """Return the birth time of a living process, as text that identifies it; None if there is none.

    No other process with this pid ever has the same text.
    """
    if Path("/proc/self/stat").exists():
        return _birth_linux(pid)
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


def _birth_linux(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    # A killed process becomes a zombie at once, but holds its ports until the last of its threads has ended.
    if fields[0] in "ZX" and int(fields[17]) <= 1:
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{fields[19]}"


# ----------------------------------------------------------------- directories


def home_folder(env: Mapping[str, str], given: Path | None = None) -> Path:
    """Return the given directory, else FAIRLANE_HOME, else `fairlane` in the user's data directory.

    Raises InvalidInput if the user has no home.
    """
    return _directory(env, given, "FAIRLANE_HOME", "XDG_DATA_HOME", ".local/share")


def cache_folder(env: Mapping[str, str], given: Path | None = None) -> Path:
    """Return the given directory, else FAIRLANE_CACHE, else `fairlane` in the user's cache directory.

    Raises InvalidInput if the user has no home.
    """
    return _directory(env, given, "FAIRLANE_CACHE", "XDG_CACHE_HOME", ".cache")


def _directory(env: Mapping[str, str], given: Path | None, ours: str, xdg: str, fallback: str) -> Path:
    try:
        if given or env.get(ours):
            return Path(given or env[ours]).expanduser().absolute()
        base = Path(env[xdg]) if env.get(xdg) else Path.home() / fallback
        return base.absolute() / "fairlane"
    except (RuntimeError, OSError) as error:  # a user without a home, a relative path in a deleted directory
        reason = str(error).removesuffix(".")
        raise InvalidInput(f"{ours} is not set, or relative: {reason}.", f"Set {ours} to an absolute path.") from error
