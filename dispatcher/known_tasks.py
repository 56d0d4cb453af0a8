"""What the control topic says of tasks and of the service, as far as sending without Redis needs it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from dispatcher.control import (
    MAIN_WRITER,
    ControlChange,
    ControlRecord,
    Finished,
    GlobalChange,
    Sealed,
    TaskRecord,
    override_message,
)
from dispatcher.service_settings import CAPACITY, TIER_WEIGHTS, Cap, cap_field, paused_field, tier_weights_of


class KnownTask(msgspec.Struct, frozen=True, gc=False):
    """A task that has not ended. lane: where its envelopes are sent from now. shared: it shares that lane with others.
    weight in thousandths; cap in targets/s, 0 for none; *_ms wall times, 0 for none. writers: those that count, where
    the seal is known. override: the message as last edited, encoded as in an envelope; empty if it never was."""

    id: str
    app: str
    channel: str
    lane: str
    shared: bool
    tier: str
    weight: int
    cap: int = 0
    paused: bool = False
    cancelled: bool = False
    start_ms: int = 0
    expires_ms: int = 0
    hold: bool = False
    sealed: bool = False
    writers: frozenset[str] = frozenset()
    override: bytes = b""

    def may_be_sent(self, writer: str, now_ms: int) -> bool:
        """Whether its envelopes by this writer may be sent now, as far as controls and times say."""
        if self.paused or self.cancelled or self.start_ms > now_ms or 0 < self.expires_ms <= now_ms:
            return False
        if self.hold and not self.sealed:
            return False
        return writer in self.writers if self.sealed and self.writers else writer == MAIN_WRITER


class Controls(Protocol):
    """Tasks and settings as the control topic has them. Written by one thread, read by any."""

    def attend(self, closely: bool) -> None:
        """closely: from now on `read_until_s` is to be kept close to the present."""
        ...

    def read_until_s(self) -> float:
        """Monotonic time: all that was stored by then has been read."""
        ...

    def task(self, task: str) -> KnownTask | None:
        """None: not known, or ended."""
        ...

    def setting(self, field: str) -> str:
        """Of the whole service (dispatcher.service_settings); empty where it was never set."""
        ...


class KnownTasks:
    """The fold of the control topic into what is known. Records come in topic order; those that stand in what it was
    filled with already may come again, and what is restated stood there before."""

    def __init__(self) -> None:
        self._tasks: dict[str, KnownTask] = {}
        self._settings: dict[str, str] = {}

    def fill(self, tasks: Mapping[str, KnownTask], settings: Mapping[str, str]) -> None:
        """Begins with these instead of nothing."""
        self._tasks = dict(tasks)
        self._settings = dict(settings)

    def task(self, task: str) -> KnownTask | None:
        return self._tasks.get(task)

    def setting(self, field: str) -> str:
        return self._settings.get(field, "")

    def apply(self, record: ControlRecord) -> None:
        match record:
            case TaskRecord() if record.task not in self._tasks:
                self._tasks[record.task] = _known(record)
            case Sealed() | ControlChange():
                self._change(record)
            case Finished():
                self._tasks.pop(record.task, None)
            case GlobalChange():
                self._settings[record.field] = record.value
            case _:
                pass

    def _change(self, record: Sealed | ControlChange) -> None:
        known = self._tasks.get(record.task)
        if known is not None:
            self._tasks[record.task] = _sealed(known, record) if isinstance(record, Sealed) else _changed(known, record)


def _known(record: TaskRecord) -> KnownTask:
    return KnownTask(
        record.task,
        record.app,
        record.channel,
        record.lane,
        record.shared,
        str(record.tier),
        record.weight,
        record.cap,
        start_ms=record.start_ms,
        expires_ms=record.expires_ms,
        hold=record.hold_until_sealed,
    )


def _sealed(known: KnownTask, record: Sealed) -> KnownTask:
    if known.sealed and known.writers:
        return known
    return msgspec.structs.replace(known, sealed=True, writers=frozenset(record.writers))


def _changed(known: KnownTask, record: ControlChange) -> KnownTask:
    read = _CONTROLS.get(record.field)
    return known if read is None else msgspec.structs.replace(known, **read(record.value))


_CONTROLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "weight": lambda value: {"weight": int(value)},
    "cap": lambda value: {"cap": Cap.parse(value).rate},
    "tier": lambda value: {"tier": value},
    "paused": lambda value: {"paused": value == "1"},
    "cancelled": lambda value: {"cancelled": True} if value == "1" else {},
    "lane": lambda value: {"lane": value, "shared": False},
    "override": lambda value: {"override": override_message(value)},
}


TOTAL = "total"


def cap_of_pool(controls: Controls, pool: str) -> int:
    """Targets/s that the pool `total`, or a pool of dispatcher.service_settings, may be granted; 0: it has no cap."""
    text = controls.setting(CAPACITY if pool == TOTAL else cap_field(pool))
    return Cap.parse(text).rate if text else 0


def is_paused(controls: Controls, channel: str) -> bool:
    return controls.setting(paused_field(channel)) == "1"


def weights_of(controls: Controls) -> dict[str, int]:
    """Of the tiers, in thousandths."""
    return tier_weights_of(controls.setting(TIER_WEIGHTS))
