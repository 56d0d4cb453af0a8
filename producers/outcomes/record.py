"""The record of one target, wherever it was read; the filter of records, and their number by reason."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import Any

import msgspec

from dispatcher.letters.marks import TargetKey
from dispatcher.model.errors import InvalidInput


class TargetKind(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields that targets of one group have in common."""

    task: str
    """The task's id; empty for a message that was not an envelope."""
    app: str
    """The app that owns the task; empty if it is not known."""
    channel: str
    """The channel of the task."""
    outcome: str
    """sent, invalid, failed, expired or cancelled; message for a message that could not be sent."""
    reason: str
    """The reason, in the words of the channel; empty if there is none, or the record does not name the target."""
    state: str = ""
    """State of a dead letter: open, replaying, replayed or dropped. Empty where the marks of letters were not read."""
    replay: str = ""
    """Id of the task that sends a dead letter again; empty if there is none."""


class TargetRecord(TargetKind, frozen=True, kw_only=True, gc=False, array_like=True):
    """The outcome of one target, or of a message that could not be sent."""

    target: str
    """The target's address; empty if the record does not name it (the workers' setting `journal.targets`), and for a
    message."""
    attempt: int
    """The number of the last attempt, from 1."""
    at_ms: int
    """Wall time when the outcome was recorded, or the target given up."""
    writer: str
    """With sequence and position: which target of the task it is."""
    sequence: int
    """The envelope."""
    position: int
    """The place in the envelope."""
    provider_id: str = ""
    """The provider's id of the message; empty if it is not known. That of `apns` follows from the target's place;
    others are in the record if the channel keeps them (`channels.fcm.keep_ids`)."""
    died_ms: int = 0
    """Wall time from which on the provider knew that an invalid target is gone. Where it does not say so, `at_ms`."""
    variables: dict[str, Any] | None = None
    """Variables of the target of a dead letter, if it has any."""
    first_call_ms: int = 0
    """Wall time of the first call of a dead letter's target, or of one of the same envelope; 0 if it is not known."""
    lane: str = ""
    """The lane of a message that could not be sent."""

    @property
    def key(self) -> TargetKey:
        """Return which target of the task it is."""
        return TargetKey(self.writer, self.sequence, self.position)


class ReasonGroup(TargetKind, frozen=True, kw_only=True, gc=False):
    """The number of targets of one task with the same outcome, reason and state."""

    count: int
    """The number of targets, or of messages."""
    example: str
    """The address of one of these targets, or the lane of one of the messages."""
    first_ms: int
    """Wall time of the first."""
    last_ms: int
    """Wall time of the last."""


_kind_of = attrgetter("task", "outcome", "reason", "state", "replay")


def group_by_reason(records: Iterable[TargetRecord]) -> list[ReasonGroup]:
    """Return the number of targets by task, reason and state; the latest task first, the most frequent reason first."""
    groups: dict[tuple[str, ...], ReasonGroup] = {}
    latest: dict[str, int] = {}
    for record in records:
        group = groups.get(_kind_of(record)) or _empty_group(record)
        groups[_kind_of(record)] = msgspec.structs.replace(
            group,
            count=group.count + 1,
            first_ms=min(group.first_ms, record.at_ms),
            last_ms=max(group.last_ms, record.at_ms),
        )
        latest[record.task] = max(latest.get(record.task, 0), record.at_ms)
    return sorted(groups.values(), key=lambda group: (-latest[group.task], group.task, -group.count))


def _empty_group(record: TargetRecord) -> ReasonGroup:
    kind = {name: getattr(record, name) for name in TargetKind.__struct_fields__}
    return ReasonGroup(
        **kind, count=0, example=record.target or record.lane, first_ms=record.at_ms, last_ms=record.at_ms
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFilter:
    """Selects the targets that match all fields. None matches any."""

    task: str | None = None
    """Id of the task."""
    app: str | None = None
    """The app that owns the task."""
    channel: str | None = None
    """The channel of the task."""
    error: str | None = None
    """A part of the reason; upper and lower case are alike."""
    since: datetime | None = None
    """The outcome was recorded, or the target given up, then or later. With a time zone."""
    until: datetime | None = None
    """It was recorded or given up before. With a time zone."""
    without_task: bool = False
    """Only messages that were not envelopes: they have no task."""

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if value == "":  # as of a variable that is not set; it would select the wrong ones, or all
                raise InvalidInput(f"{name}: is empty.", "Give a text, or leave it out to select by nothing.")
            if isinstance(value, datetime) and value.tzinfo is None:
                raise InvalidInput(f"{name}: {value.isoformat()} has no time zone.", "Add one, such as Z or +08:00.")

    @property
    def since_ms(self) -> int:
        """Return `since` as wall time in ms; 0 for none."""
        return 0 if self.since is None else int(self.since.timestamp() * 1000)

    def takes(self, record: TargetRecord) -> bool:
        """Return whether a target matches."""
        return (
            self.task in (None, record.task)
            and self.app in (None, record.app)
            and self.channel in (None, record.channel)
            and not (self.without_task and record.task)
            and (self.error is None or self.error.casefold() in record.reason.casefold())
            and record.at_ms >= self.since_ms
            and (self.until is None or record.at_ms < self.until.timestamp() * 1000)
        )
