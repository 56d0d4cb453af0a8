"""A channel that takes no time and records every delivery in a few bytes, so that recording takes little time."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.deliveries import Delivery
from consumers.delivery.channels.log import NullChannel
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import Report

NAME = "tally"


class TallyChannel(NullChannel):
    """The `null` channel, with a line for each run of equal envelopes in a call.

    A line has wall time (us), task, tier, targets per envelope, and number of envelopes. Worker processes may share the
    file.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__({"name": NAME})
        self._path = settings["path"]
        self._file = -1

    async def open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        at_us = time.time_ns() // 1_000
        equal = groupby([(envelope.task, len(envelope.targets)) for envelope in envelopes])
        lines = [f"{at_us} {task} {tier} {size} {len(list(run))}\n" for (task, size), run in equal]
        os.write(self._file, "".join(lines).encode())
        return await super().deliver(envelopes, tier)

    async def close(self) -> None:
        os.close(self._file)


def tallied(path: Path) -> Iterator[Delivery]:
    """Yield every delivery in the order recorded; complete lines only, since workers may still write."""
    with path.open() as lines:
        for line in lines:
            if not line.endswith("\n"):
                return
            at_us, task, tier, targets, count = line.split()
            yield from [Delivery(int(at_us), tier, int(targets), task)] * int(count)


def environment(path: Path) -> dict[str, str]:
    """Return the environment of workers that serve it and write to this file."""
    classes, channels = {NAME: f"{__name__}:{TallyChannel.__name__}"}, {NAME: {"path": str(path)}}
    return {"FAIRLANE_WORKER_CHANNELS": json.dumps(classes), "FAIRLANE_CHANNELS": json.dumps(channels)}
