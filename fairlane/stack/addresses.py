"""Where the servers of a local stack are; light enough for every command to ask."""

from dataclasses import dataclass
from pathlib import Path

from fairlane.stack import state as states
from fairlane.stack.homes import Home
from fairlane.stack.ports import HOST
from fairlane.stack.state import ServerState, StackState


@dataclass(frozen=True)
class StackAddresses:
    """Where the local stack's servers are. `changed`: what provisioning changed, one line each."""

    pulsar_url: str
    pulsar_admin_url: str
    redis_url: str
    already_running: bool = False
    changed: tuple[str, ...] = ()


def running_addresses(home: Path) -> StackAddresses | None:
    """The addresses of the local stack in `home` if it is running; reads one file and two process entries."""
    file = Home(home).state_file
    if not file.is_file():
        return None
    state = states.load(file).living()
    return addresses_of(state) if state.ready else None


def addresses_of(state: StackState) -> StackAddresses:
    """The addresses of a stack whose servers are both known."""
    pulsar, redis = both_servers(state)
    return StackAddresses(
        pulsar_url=f"pulsar://{HOST}:{pulsar.ports['broker']}",
        pulsar_admin_url=f"http://{HOST}:{pulsar.ports['web']}",
        redis_url=f"redis://{HOST}:{redis.ports['redis']}/0",
    )


def both_servers(state: StackState) -> tuple[ServerState, ServerState]:
    """Pulsar and Redis of a stack whose servers are both known."""
    if state.pulsar is None or state.redis is None:
        raise ValueError("the stack is not running")
    return state.pulsar, state.redis
