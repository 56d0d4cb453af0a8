"""The channels that reach nobody: `log` writes a JSON line per envelope, to a file or to standard output, and `null`
only counts. What `log` writes is also what `http` posts.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from consumers.delivery.settings import LogChannelSettings
from dispatcher.model.errors import InvalidInput
from dispatcher.verdicts import error_text
from dispatcher.wire.envelope import Envelope, decode_message
from dispatcher.wire.outcome import ALL_SENT, Outcome, Report, Verdict

_encode = msgspec.json.Encoder().encode
STDOUT = "-"


def json_or_failed(envelope: Envelope, tier: str, **more: str) -> bytes | Report:
    """Encode an envelope, after further fields. If its message or variables cannot be written as JSON, return FAILED
    for this envelope: the call contains others."""
    try:
        fields = {
            **more,
            "task": envelope.task,
            "app": envelope.app,
            "tier": tier,
            "writer": envelope.writer,
            "sequence": envelope.sequence,
            "attempt": envelope.attempt,
            "message": decode_message(envelope.message),
            "targets": envelope.targets,
        }
        return _encode(fields if envelope.variables is None else {**fields, "variables": envelope.variables})
    except Exception as error:
        return Report(Verdict(int(Outcome.FAILED), f"cannot be written as JSON: {error_text(error)}"))


class LogChannel:
    """Writes a line per envelope; every target is sent once its line is written.

    A line has ts (UTC), task, app, tier, sequence, attempt, message, targets and, if present, variables and writer.
    """

    timeout_s = 5.0
    concurrency = 1
    batch_limit = 500

    def __init__(self, settings: Mapping[str, Any], wall_s: Callable[[], float] = time.time) -> None:
        """Raises InvalidInput."""
        self.name = str(settings.get("name", "log"))
        self._path = LogChannelSettings.read(settings).path
        self._wall_s = wall_s
        self._file = -1
        self._torn = False
        """Whether the last line is incomplete."""

    async def open(self) -> None:
        """Open the file. Raises OSError."""
        if self._path == STDOUT:
            sys.stdout.flush()
            self._file = os.dup(sys.stdout.fileno())
            return
        path = Path(self._path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        """Write a line for each envelope, and report its targets as sent. Raises OSError if the file cannot be written
        (disk full, pipe closed); the courier then retries all of them."""
        ts = datetime.fromtimestamp(self._wall_s(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        made = [json_or_failed(envelope, tier, ts=ts) for envelope in envelopes]
        self._write(b"".join([line + b"\n" for line in made if isinstance(line, bytes)]))
        return [line if isinstance(line, Report) else ALL_SENT for line in made]

    async def close(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = -1

    def _write(self, lines: bytes) -> None:
        """Write in one call where possible, so that lines of processes that share the file do not mix."""
        remaining = memoryview(b"\n" + lines if self._torn else lines)
        while remaining:
            self._torn = True
            remaining = remaining[os.write(self._file, remaining) :]
        self._torn = False


class NullChannel:
    """Reports every target as sent immediately. For benchmarks and demos; it has no settings."""

    timeout_s = 1.0
    concurrency = 64
    batch_limit = 500

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.name = str(settings.get("name", "null"))
        unknown = sorted(set(settings) - {"name"})
        if unknown:
            raise InvalidInput(f"The null channel has no setting {unknown[0]}.", "Remove it.")
        self.envelopes = 0
        """Envelopes delivered so far."""
        self.targets = 0
        """Targets delivered so far."""

    async def open(self) -> None:
        """Do nothing."""

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:  # noqa: ARG002  # the port
        self.envelopes += len(envelopes)
        self.targets += sum([len(envelope.targets) for envelope in envelopes])
        return [ALL_SENT] * len(envelopes)

    async def close(self) -> None:
        """Do nothing."""
