"""A change is written to the control topic first, then to the registry; the caller hears of it after both."""

from dispatcher.control import ControlChange, GlobalChange
from dispatcher.errors import Unreachable
from producers.ports import Services


def store_change(services: Services, record: ControlChange | GlobalChange) -> None:
    """Raises Unreachable; it says so where the change is stored all the same."""
    position = services.control.append(record)
    try:
        services.registry.apply(position, record)
    except Unreachable as error:
        raise Unreachable(
            f"The change is stored, but the registry could not be told: {error.cause}",
            "It takes effect by itself once Redis is back.",
        ) from error
