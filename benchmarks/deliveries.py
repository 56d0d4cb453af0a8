"""What the workers' `log` channel writes: every delivery, readable while they write."""

import json
from datetime import datetime
from pathlib import Path
from typing import NamedTuple


class Delivery(NamedTuple):
    """One envelope that was delivered. at_us: wall time; targets: how many; body: of the message."""

    at_us: int
    tier: str
    targets: int
    task: str = ""
    body: str = ""


class DeliveryLog:
    """path: may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0
        self._rest = b""

    def new(self) -> list[Delivery]:
        """What was written since the last call, whole lines only. Lines of several workers come nearly, not quite, in
        the order of time."""
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
