"""Clock and gate that channels of the project share with the worker that runs them."""

from dataclasses import dataclass, field

from consumers.delivery.fleet_gate import FleetGate
from consumers.delivery.flow_figures import FlowTable
from dispatcher.channels.guards.payload_guard import MessageRefusal, MessageRefused
from dispatcher.clock import Clock


def _go_on(_: MessageRefusal) -> None:
    """Let the task go on."""


@dataclass(frozen=True)
class ChannelContext:
    """Given to channels that have a method `use`, before they are opened."""

    clock: Clock
    gate: FleetGate
    message_refused: MessageRefused = _go_on
    """Called for a task whose message the provider refuses for everybody."""
    figures: FlowTable = field(default_factory=FlowTable)
    """The figures of all flows."""
