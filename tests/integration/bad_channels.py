"""Channels that break the worker they run in: a part of it ends or hangs. Copied to where the workers are started.

Each logs like the `log` channel until there is a file `break`. What the worker had in flight then goes to `held.json`.
"""

import asyncio
import contextlib
import ctypes
import gc
import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from consumers.delivery.channels.log import LogChannel
from consumers.lanes.pulsar_lanes import PulsarLanes
from dispatcher.engine.stats import EngineStats
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import Report
from fairlane.worker.process import guardian, watchdog
from fairlane.worker.process.stop_signal import StopSignal
from quotas.ledger import RedisLedger

FOR_EVER_S = 1_000_000

# What a part may take before it counts as hung; it is sooner here, so that the tests need not wait a minute each.
watchdog.MAIN_S = 4.0
watchdog.ENGINE_S = 4.0
watchdog.LEASE_S = 2.0
watchdog.OVERDUE_S = 2.0
guardian.SILENT_S = 4.0


class Logs(LogChannel):
    """Does what it should."""

    timeout_s = 2.0


class _Breaks(Logs):
    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        if is_due():
            note_held()
            await self.break_it()
        return await super().deliver(envelopes, tier)

    async def break_it(self) -> None:
        """In the middle of a call, nothing of which was sent."""


class Exits(_Breaks):
    async def break_it(self) -> None:
        raise SystemExit(3)


class BlocksTheLoop(_Breaks):
    async def break_it(self) -> None:
        time.sleep(FOR_EVER_S)  # noqa: ASYNC251  # that is the fault


class HoldsTheInterpreter(_Breaks):
    async def break_it(self) -> None:
        ctypes.PyDLL(None).sleep(FOR_EVER_S)  # unlike a CDLL's, its calls keep the interpreter's lock


class IgnoresCancelling(_Breaks):
    """Its one place is taken for ever, while the event loop goes on."""

    async def break_it(self) -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(FOR_EVER_S)


class HangsTheMainThread(_Breaks):
    """The main thread's next wait for a stop does not return: it would handle no signal, either."""

    async def break_it(self) -> None:
        StopSignal.wait = hang  # type: ignore[method-assign,assignment]


class HangsTheEngine(_Breaks):
    """The engine's next call of the Pulsar client does not return."""

    async def break_it(self) -> None:
        PulsarLanes.ack = hang  # type: ignore[method-assign,assignment]


class HangsTheLedger(_Breaks):
    """The next call to the ledger does not return."""

    async def break_it(self) -> None:
        RedisLedger.lease = hang  # type: ignore[method-assign,assignment]


def is_due() -> bool:
    return Path("break").exists() and not Path("held.json").exists()


def hang(*_: object) -> None:
    threading.Event().wait()


def note_held() -> None:
    """Targets handed to the channel or not yet recorded."""
    stats = next(one for one in gc.get_objects() if isinstance(one, EngineStats))
    Path("held.json").write_text(json.dumps(stats.in_flight_targets + stats.unsettled_targets))
