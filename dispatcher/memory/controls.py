"""The control topic as one worker follows it, in memory: read up to its end whenever something is asked of it."""

from dispatcher.clock import Clock
from dispatcher.control import decode_control
from dispatcher.known_tasks import KnownTask, KnownTasks
from dispatcher.memory.logs import MemoryControlLog


class MemoryControls:
    """Implements dispatcher.known_tasks.Controls. stuck: the topic cannot be read for now."""

    def __init__(self, log: MemoryControlLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._known = KnownTasks()
        self._read = 0
        self._until_s = 0.0
        self.stuck = False
        self.closely = False

    def attend(self, closely: bool) -> None:
        self.closely = closely

    def read_until_s(self) -> float:
        self._follow()
        return self._until_s

    def task(self, task: str) -> KnownTask | None:
        self._follow()
        return self._known.task(task)

    def setting(self, field: str) -> str:
        self._follow()
        return self._known.setting(field)

    def _follow(self) -> None:
        if self.stuck:
            return
        for body in self._log.records[self._read :]:
            self._known.apply(decode_control(body))
        self._read = len(self._log.records)
        self._until_s = self._clock.monotonic_s()
