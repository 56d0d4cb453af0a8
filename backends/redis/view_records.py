"""Turns the view back into records of the control topic, to be restated before the topic's retention deletes them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from backends.redis.client import translated
from backends.redis.keys import COUNT_FIELDS
from backends.redis.registry.task_rows import entries_of
from backends.redis.view import ViewPart
from dispatcher.model.errors import Malformed
from dispatcher.model.flow_pause import FLOW_PAUSED, FlowPause
from dispatcher.model.task import TOMBSTONE_MS
from dispatcher.model.task_control import CONTROLS
from dispatcher.wire.control import (
    FORMAT,
    ControlChange,
    ControlRecord,
    Finished,
    GlobalChange,
    Restated,
    Sealed,
    encode_control,
)

_SCAN = 1_000

Fields = Mapping[str, str]


class ViewRecords(ViewPart):
    """Records of the view, each with its original position. Only pauses keep their time; in other changes `at_ms` is 0.
    Every method raises Unreachable if Redis cannot be reached."""

    def settings(self) -> list[Restated]:
        """Return the settings of the whole service, as records. Pauses of flows that are over are left out."""
        keys = self._view.keys
        fields = self._view.texts(keys.globals) | self._view.texts(keys.access)
        set_at = {name.removeprefix("pos|"): at for name, at in fields.items() if name.startswith("pos|")}
        now_ms = self._view.now_ms()
        records = [(at, _setting(fields, field, at)) for field, at in set_at.items() if field in fields]
        return [_restated(at, record) for at, record in records if _holds(record, now_ms)]

    def tasks(self, accepted_before_ms: int, ended_since_ms: int, lived_ms: int) -> list[str]:
        """Return live tasks accepted before a time, and tasks that ended since another time and lived at least
        lived_ms."""
        live = self._view.command("ZRANGEBYSCORE", self._view.keys.tasks, "-inf", accepted_before_ms)
        return [task.decode() for task in (*live, *self._ended(ended_since_ms, lived_ms))]

    def of_tasks(self, tasks: Sequence[str]) -> list[Restated]:
        """Return all records of these tasks, each task as of one moment; unknown tasks have none."""
        with translated(self._view.client):
            asked = self._view.client.pipeline(transaction=False)
            for task in tasks:
                asked.hgetall(self._view.keys.task(task))
            hashes: list[Mapping[bytes, bytes]] = asked.execute()
        return [each for task, fields in zip(tasks, hashes, strict=True) for each in _of_task(task, fields)]

    def last_ms(self) -> int:
        """Return when the records were last restated; 0: long ago, or in another view."""
        return int(self._view.command("GET", self._view.keys.restated) or 0)

    def restated(self, at_ms: int) -> None:
        """Store the time of a restatement."""
        self._view.command("SET", self._view.keys.restated, at_ms, "PX", TOMBSTONE_MS)

    def _ended(self, since_ms: int, lived_ms: int) -> Iterator[bytes]:
        cursor: Any = 0
        while True:
            cursor, page = self._view.command("ZSCAN", self._view.keys.ended, cursor, "COUNT", _SCAN)
            ended = {task: ended_ms for task, ended_ms in page if ended_ms >= since_ms}
            if ended:
                accepted = self._view.command("ZMSCORE", self._view.keys.index, *ended)
                for (task, ended_ms), accepted_ms in zip(ended.items(), accepted, strict=True):
                    if accepted_ms is not None and ended_ms - float(accepted_ms) >= lived_ms:
                        yield task
            if int(cursor) == 0:
                return


def _restated(position: str, record: ControlRecord) -> Restated:
    return Restated(FORMAT, position, msgspec.Raw(encode_control(record)))


def _holds(record: GlobalChange, now_ms: int) -> bool:
    """Return whether a setting still means something. Pauses of flows have an end."""
    if not record.field.startswith(f"{FLOW_PAUSED}:"):
        return True
    try:
        return FlowPause.parse(record.value).is_needed(now_ms)
    except Malformed:
        return True  # a later version knows


def _setting(fields: Fields, field: str, position: str) -> GlobalChange:
    switches = fields.get(f"pauses|{field.partition(':')[2]}", "")
    return GlobalChange(FORMAT, field, fields[field], _switched_ms(switches, position))


def _switched_ms(switches: str, position: str) -> int:
    """Return when a pause or resume was requested. Restated with another time it would count as a different one
    (backends/redis/lua/registry/pauses.lua)."""
    entries = (entry.partition("=") for entry in switches.split())
    return next((int(switch.partition("@")[2].partition(":")[0]) for at, _, switch in entries if at == position), 0)


def _of_task(task: str, stored: Mapping[bytes, bytes]) -> Iterator[Restated]:
    """Yield a task's records, the task record first and the end last."""
    if b"record" not in stored:
        return
    yield Restated(FORMAT, stored[b"record_pos"].decode(), msgspec.Raw(stored[b"record"]))
    checkpoints = [name for name in stored if name.startswith(b"ckpt:")]
    for name in checkpoints:
        position = stored[name.replace(b"ckpt:", b"ckpt_pos:", 1)]
        yield Restated(FORMAT, position.decode(), msgspec.Raw(stored[name]))
    for at, entry in entries_of(stored.get(b"submission")):
        yield _restated(at, entry)
    packed = (b"record", b"submission", *checkpoints)
    texts = {name.decode(): value.decode() for name, value in stored.items() if name not in packed}
    yield from _changes(task, texts)


def _changes(task: str, fields: Fields) -> Iterator[Restated]:
    if at := fields.get("sealed_pos"):
        writers = [writer for writer in fields["writers"].split(",") if writer]
        seal = Sealed(
            format=FORMAT,
            task=task,
            targets=int(fields["total"]),
            refused=int(fields["sealed_refused"]),
            digest=fields["sealed_digest"],
            writers=writers,
        )
        yield _restated(at, seal)
    for name, kind in CONTROLS.items():
        if at := fields.get(f"{name}_pos"):
            at_ms = _switched_ms(fields.get("pauses", ""), at) if name == "paused" else 0
            yield _restated(at, ControlChange(FORMAT, task, name, fields[kind.stored_in or name], at_ms))
    if at := fields.get("ended_pos"):
        counted = [int(fields[name]) for name in COUNT_FIELDS]
        finished_ms, reason = int(fields["finished_ms"]), fields.get("reason", "")
        yield _restated(
            at,
            Finished(format=FORMAT, task=task, state=fields["ended"], counts=counted, at_ms=finished_ms, reason=reason),
        )
