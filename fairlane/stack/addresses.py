"""Addresses of a local stack's servers; cheap enough for every command to read."""

from dataclasses import dataclass
from pathlib import Path

from backends.addresses import Address
from fairlane.stack import state as states
from fairlane.stack.homes import Home
from fairlane.stack.ports import HOST
from fairlane.stack.state import StackState

SOURCE = "of the local stack"


@dataclass(frozen=True)
class StackAddresses:
    """Addresses of the local stack's servers."""

    pulsar_url: str
    pulsar_admin_url: str
    redis_url: str
    already_running: bool = False
    changed: tuple[str, ...] = ()
    """Changes that provisioning made, one line each."""


def addresses_in_force(home: Path) -> StackAddresses | None:
    """Return the addresses of the local stack in `home` if it was started and not stopped by `stack down`.

    A server that has ended is marked as stopped. Reads one file and two process entries.
    """
    file = Home(home).state_file
    return addresses_of(states.load(file).living()) if file.is_file() else None


def addresses_of(state: StackState) -> StackAddresses | None:
    """Return the addresses in force of a state without ended servers; None if there are none."""
    ports = state.ports
    if ports is None:
        return None
    no_pulsar, no_redis = state.pulsar is None, state.redis is None
    return StackAddresses(
        pulsar_url=Address(f"pulsar://{HOST}:{ports.broker}", SOURCE, stopped=no_pulsar),
        pulsar_admin_url=Address(f"http://{HOST}:{ports.web}", SOURCE, stopped=no_pulsar),
        redis_url=Address(f"redis://{HOST}:{ports.redis}/0", SOURCE, stopped=no_redis),
    )
