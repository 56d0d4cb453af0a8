"""Ports whose calls a test counts, so that a worker dies at one of them."""

from collections.abc import Sequence
from typing import Any


class Crash(BaseException):
    """The worker's process is gone."""


class Tripwire:
    """Counts a worker's steps (each port call has a moment before it and one after it) and kills it at one of them."""

    def __init__(self) -> None:
        self.steps = 0
        self.dies_at = -1

    def pass_by(self) -> None:
        self.steps += 1
        if self.steps == self.dies_at:
            raise Crash


class Tripped:
    """A port whose calls pass a tripwire."""

    def __init__(self, port: Any, wire: Tripwire, calls: Sequence[str]) -> None:
        self._port = port
        self._wire = wire
        self._calls = frozenset(calls)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name not in self._calls:
            return found

        def call(*args: Any) -> Any:
            self._wire.pass_by()
            result = found(*args)
            self._wire.pass_by()
            return result

        return call
