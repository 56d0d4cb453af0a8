"""Reads every delivery from the log of the workers' `log` channel, while they write it."""

import json
from datetime import datetime
from pathlib import Path
from typing import NamedTuple


class Delivery(NamedTuple):
    """One envelope that was delivered."""

    at_us: int
    """Wall-clock time."""
    tier: str
    targets: int
    """Number of targets."""
    task: str = ""
    body: str = ""
    """The body of the message."""


class DeliveryLog:
    """The log of deliveries. The file at `path` may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0
        self._rest = b""

    def new(self) -> list[Delivery]:
        """Return the deliveries written since the last call, from whole lines only.

        Lines of several workers are nearly, but not exactly, in the order of time.
        """
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._place)
            *lines, self._rest = (self._rest + file.read()).split(b"\n")
            self._place = file.tell()
        return [_delivery(line) for line in lines if line]


def _delivery(line: bytes) -> Delivery:
    entry = json.loads(line)
    at_us = round(datetime.fromisoformat(entry["ts"]).timestamp() * 1e6)
    return Delivery(at_us, entry["tier"], len(entry["targets"]), entry["task"], entry["message"].get("body", ""))
