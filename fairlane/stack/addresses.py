"""Addresses of a local stack's servers; cheap enough for every command to read."""

import os
from dataclasses import dataclass
from pathlib import Path

from backends.addresses import Address
from fairlane.stack import state as states
from fairlane.stack.estate.shape import bookie_template
from fairlane.stack.homes import Home
from fairlane.stack.ports import HOST
from fairlane.stack.state import EstateState, StackPorts, StackState

SOURCE = "of the local stack"


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


def addresses_in_force(home: Path) -> StackAddresses | None:
    """Return the addresses of the local stack in `home` if it was started and not stopped by `stack down`.

    A server that has ended is marked as stopped. Another user's stack is none. Reads one file and two process entries.
    """
    file = Home(home).state_file
    return addresses_of(states.load(file).living()) if os.access(file, os.R_OK) else None


def addresses_of(state: StackState) -> StackAddresses | None:
    """Return the addresses in force of a state without ended servers; None if there are none."""
    ports = state.ports
    if ports is None:
        return None
    if state.estate is not None:
        return _of_estate(state.estate, ports, stopped_redis=state.redis is None)
    no_pulsar, no_redis = state.pulsar is None, state.redis is None
    return StackAddresses(
        pulsar_url=Address(f"pulsar://{HOST}:{ports.broker}", SOURCE, stopped=no_pulsar),
        pulsar_admin_url=Address(f"http://{HOST}:{ports.web}", SOURCE, stopped=no_pulsar),
        redis_url=Address(f"redis://{HOST}:{ports.redis}/0", SOURCE, stopped=no_redis),
    )


def _of_estate(estate: EstateState, ports: StackPorts, *, stopped_redis: bool) -> StackAddresses:
    """Return the addresses of an estate: of all brokers, and for REST of the first one that runs."""
    numbers, living = estate.ports, estate.living_brokers()
    hosts = ",".join(f"{HOST}:{port}" for port in numbers.brokers[: estate.shape.brokers])
    web = numbers.webs[living[0] if living else 0]
    return StackAddresses(
        pulsar_url=Address(f"pulsar://{hosts}", SOURCE, stopped=not living),
        pulsar_admin_url=Address(f"http://{HOST}:{web}", SOURCE, stopped=not living),
        redis_url=Address(f"redis://{HOST}:{ports.redis}/0", SOURCE, stopped=stopped_redis),
        bookie_http=bookie_template(numbers),
        brokers=estate.shape.brokers,
    )
