"""A control log whose server can be gone."""

from dispatcher.model.errors import Unreachable
from dispatcher.wire.control import ControlRecord
from lab.simulator.logs import MemoryControlLog


class AwayLog(MemoryControlLog):
    """Stores nothing while it is away. With `answers_lost` it stores, and the answer does not arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.answers_lost = False

    def append(self, record: ControlRecord) -> str:
        if self.is_away:
            raise Unreachable("Pulsar is gone.", "Wait.")
        stored = super().append(record)
        if self.answers_lost:
            raise Unreachable("The answer is lost.", "Try again.")
        return stored
