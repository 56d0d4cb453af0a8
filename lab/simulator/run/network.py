"""Delay messages, and inject faults."""

from random import Random

from lab.simulator.run.agenda import Agenda, Call
from lab.simulator.scenario.scenario import Faults

TIMEOUT_S = 0.5
"""The time after which waiting for an answer or a receipt ends."""


class Network:
    """The single source of all delays and faults of a run: one random generator, used in the order of the agenda."""

    def __init__(self, agenda: Agenda, random: Random, faults: Faults) -> None:
        self.agenda = agenda
        self.random = random
        self.faults = faults
        self._draw = random.random
        self._until_us = None if faults.until_s is None else int(faults.until_s * 1e6)

    @property
    def troubled(self) -> bool:
        """Return whether faults happen now."""
        return self._until_us is None or self.agenda.now_us < self._until_us

    def hits(self, part: float) -> bool:
        """Return whether a fault of this probability happens now."""
        return part > 0 and self.troubled and self._draw() < part

    def delay_s(self, min_ms: float, max_ms: float) -> float:
        """Return the delay of one message."""
        delay_ms = min_ms + (max_ms - min_ms) * self._draw()
        if self.hits(self.faults.late):
            delay_ms += self.random.uniform(0, self.faults.late_ms)
        return delay_ms / 1000

    def carry(self, call: Call, min_ms: float = 0.5, max_ms: float = 2.0) -> None:
        """Run a call after the delay of one message."""
        self.agenda.after(self.delay_s(min_ms, max_ms), call)
