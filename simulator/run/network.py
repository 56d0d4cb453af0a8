"""How long things take on their way, and what becomes of them."""

from random import Random

from dispatcher.ports import Done
from simulator.run.agenda import Agenda, Call
from simulator.scenario.scenario import Faults

TIMEOUT_S = 0.5
"""After so long an answer or a receipt is given up."""


class Network:
    """All delays and faults of a run come from here, in the order of the agenda, from one source of randomness."""

    def __init__(self, agenda: Agenda, random: Random, faults: Faults) -> None:
        self.agenda = agenda
        self.random = random
        self.faults = faults
        self._draw = random.random
        self._until_us = None if faults.until_s is None else int(faults.until_s * 1e6)

    @property
    def troubled(self) -> bool:
        """Whether faults happen at present."""
        return self._until_us is None or self.agenda.now_us < self._until_us

    def hits(self, part: float) -> bool:
        """Whether a fault of this probability happens now."""
        return part > 0 and self.troubled and self._draw() < part

    def delay_s(self, least_ms: float, most_ms: float) -> float:
        """Of one message."""
        delay_ms = least_ms + (most_ms - least_ms) * self._draw()
        if self.hits(self.faults.late):
            delay_ms += self.random.uniform(0, self.faults.late_ms)
        return delay_ms / 1000

    def carry(self, call: Call, least_ms: float = 0.5, most_ms: float = 2.0) -> None:
        """Makes a call when its message has arrived."""
        self.agenda.after(self.delay_s(least_ms, most_ms), call)

    def receipt(self, done: Done, error: Exception | None, least_ms: float = 0.5, most_ms: float = 2.0) -> None:
        """Tells that something is stored, or what went wrong."""
        self.agenda.after(self.delay_s(least_ms, most_ms), lambda: done(error))
