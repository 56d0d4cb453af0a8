"""The provider of the workers: a channel that notes every call in a log of its worker before it answers."""

import asyncio
import json
import os
import random
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from consumers.delivery.channels.log import NullChannel
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import RETRY, SENT, Outcome, Report, Verdict

NAME = "nemesis"
TAKES_S = (0.02, 0.4)
"""Minimum and maximum time of a call: long enough to be hit by a fault."""
RETRIED, DEAD = 40, 50
"""Thresholds in a thousand targets: those below the first are retried, the rest below the second are invalid."""


class NemesisChannel(NullChannel):
    """Notes every call before it answers.

    Settings: the path of the log, and the incarnation of the worker, which is in each line.
    """

    timeout_s = 5.0
    concurrency = 8
    batch_limit = 20

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__({"name": NAME})
        self._path, self._worker = settings["path"], settings["worker"]
        self._file = -1

    async def open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:  # noqa: ARG002  # the port
        self.note(envelopes)
        await asyncio.sleep(random.uniform(*TAKES_S))
        return [_report(envelope) for envelope in envelopes]

    def note(self, envelopes: Sequence[Envelope]) -> None:
        """Write a line for each envelope. A killed process leaves the lines it has written."""
        at_ms = time.time_ns() // 1_000_000
        lines = [json.dumps([at_ms, self._worker, *_fields(envelope)]) + "\n" for envelope in envelopes]
        os.write(self._file, "".join(lines).encode())

    async def close(self) -> None:
        os.close(self._file)


def _fields(envelope: Envelope) -> list[Any]:
    positions = [envelope.position(index) for index in range(len(envelope.targets))]
    return [envelope.task, envelope.writer, envelope.sequence, envelope.attempt, positions, envelope.targets]


def _report(envelope: Envelope) -> Report:
    verdicts = {index: _verdict(envelope, target) for index, target in enumerate(envelope.targets)}
    return Report(SENT, {index: verdict for index, verdict in verdicts.items() if verdict is not SENT} or None)


def _verdict(envelope: Envelope, target: str) -> Verdict:
    """Return the verdict, which depends only on task, target and attempt."""
    text = f"{envelope.task}/{target}/{envelope.attempt}"
    drawn = int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") % 1_000
    if drawn < RETRIED:
        return Verdict(RETRY, "busy", 1.0)
    return Verdict(int(Outcome.INVALID), "gone") if drawn < DEAD else SENT


def environment(path: Path, worker: str, channel: str) -> dict[str, str]:
    """Return the environment of a worker that serves the channel. `channel`: module:Class."""
    settings = {NAME: {"path": str(path), "worker": worker}}
    return {"FAIRLANE_WORKER_CHANNELS": json.dumps({NAME: channel}), "FAIRLANE_CHANNELS": json.dumps(settings)}
