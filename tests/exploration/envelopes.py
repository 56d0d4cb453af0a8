"""The envelopes, answers of the provider and records of an exploration, by small numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from dispatcher.wire.envelope import ROUNDS_FORMAT, Envelope, encode_message
from dispatcher.wire.groups import TargetGroup, pack_positions, unpack_positions
from dispatcher.wire.outcome import (
    ALL_SENT,
    RETRY,
    UNKNOWN,
    UNSENT,
    Outcomes,
    Report,
    Verdict,
    decode_record,
    encode_record,
)
from tests.unit.dispatch.consumers.envelopes import envelope
from tests.virtual_clock import VirtualClock

TASK = "t"
MESSAGE = encode_message({"title": "hello"})
SIZE = 2
"""Targets A and B of each first envelope."""
TRY_AGAIN = Verdict(RETRY, "busy")


@dataclass(frozen=True)
class TaskRules:
    """The task's options for targets that are not sent. answers: which the provider may give to the first call."""

    answers: str = ""
    max_attempts: int = 2
    gives_up_unknown: bool = False


STARTED_MS = VirtualClock().wall_ms()
DAY_MS = 86_400_000
SOON, LATER, LAST = DUES = (1, 2, 3)
"""When a target is due, by label: in its lane's time, a day after the start, or ten days after it."""
_DUE_MS = dict(zip(DUES, (STARTED_MS + DAY_MS // 4, STARTED_MS + DAY_MS, STARTED_MS + 10 * DAY_MS), strict=True))
NEVER_DUE = 0
REOPENED = 9
"""Instead of a label: no target is due, and a pause of the flow has been ended. What is due LATER waits for that."""

State = tuple[int, int]
"""Tries of a target, and the label of its due time."""
Kind = tuple[str, int, int, tuple[int, ...], tuple[State, ...]]
"""Writer, sequence, round, positions, states."""
FRESH: tuple[State, ...] = ((0, SOON),) * SIZE


def first(sequence: int = 0, writer: str = "0") -> Kind:
    return (writer, sequence, 0, tuple(range(SIZE)), FRESH)


def label(due_ms: int) -> int:
    """Return the label of a due time; a time that is a label is that label."""
    if due_ms in DUES:
        return due_ms
    return max((one for one in (LATER, LAST) if due_ms >= _DUE_MS[one] - DAY_MS // 2), default=SOON)


def due_at(label: int, turn: int) -> int:
    """Return the due time for a label: past if it is up to `turn`, and else far ahead."""
    return label if label <= turn != REOPENED else _DUE_MS[label]


def kind_of(one: Envelope) -> Kind:
    positions = tuple(one.positions or range(SIZE))
    states = dict.fromkeys(range(SIZE), (one.attempt, SOON))
    for group in one.groups or ():
        states |= dict.fromkeys(unpack_positions(group.positions), (group.tries, label(group.due_ms)))
    return (one.writer, one.sequence, one.attempt, positions, tuple(states[position] for position in positions))


def turns(kind: Kind) -> tuple[int, ...]:
    """Return the labels up to which its targets may be due when it is received."""
    return tuple(sorted({due for _, due in kind[4]}))


def envelope_of(kind: Kind, turn: int, rules: TaskRules, leaves_ms: int = 0) -> Envelope:
    """turn: targets with labels up to this are due. leaves_ms: when it leaves its retry lane."""
    writer, sequence, attempt, positions, states = kind
    targets = [f"{writer}:{sequence}:{position}" for position in positions]
    later: dict[str, Any] = {}
    if attempt:
        groups = _groups(positions, states, turn)
        later = {"format": ROUNDS_FORMAT, "attempt": attempt, "positions": list(positions), "groups": groups}
    return envelope(
        sequence, targets, task=TASK, writer=writer, app="app", channel="null", message=MESSAGE, size=SIZE,
        not_before_ms=leaves_ms, max_attempts=rules.max_attempts, gives_up_unknown=rules.gives_up_unknown, **later
    )  # fmt: skip


def _groups(positions: Sequence[int], states: Sequence[State], turn: int) -> list[TargetGroup]:
    members: dict[State, list[int]] = {}
    for position, state in zip(positions, states, strict=True):
        members.setdefault(state, []).append(position)
    return [
        TargetGroup(
            positions=pack_positions(own, SIZE), tries=tries, due_ms=due_at(due, turn), waits_for_flow=due == LATER
        )
        for (tries, due), own in members.items()
    ]


class Answer(NamedTuple):
    """A provider's answer. started, accepted: positions (bits) that it may have taken, and that it has. A target that
    is reported as unknown and may be tried again counts as not accepted: then it may come twice."""

    name: str
    report: Report
    started: int
    accepted: int


def answers(kind: Kind, rules: TaskRules) -> tuple[Answer, ...]:
    """Return the provider's possible answers to a call with these targets."""
    _, sequence, attempt, positions, _ = kind
    everything = sum(1 << position for position in positions)
    both = Answer("all sent", ALL_SENT, everything, everything)
    if attempt == 0 and sequence == 0:
        return (*_FIRST_ANSWERS[rules.answers](rules.gives_up_unknown), both)
    return (both,) if sequence else (both, Answer("not sent", Report(TRY_AGAIN), everything, 0))


def _one_fails(_: bool) -> tuple[Answer, ...]:
    return (Answer("A sent, B retry", Report(exceptions={1: TRY_AGAIN}), 3, 1),)


def _in_parts(_: bool) -> tuple[Answer, ...]:
    unsent, later = Verdict(UNSENT, "stopped"), Verdict(UNSENT, "paused", 86_400.0, paused=True)
    return (
        Answer("A sent, B unsent", Report(exceptions={1: unsent}), 1, 1),
        Answer("A unsent, B retry", Report(exceptions={0: unsent, 1: TRY_AGAIN}), 2, 0),
        Answer("A retry, B unsent until later", Report(exceptions={0: TRY_AGAIN, 1: later}), 1, 0),
        Answer("A sent, B unsent until later", Report(exceptions={1: later}), 1, 1),
    )


def _unknown(gives_up: bool) -> tuple[Answer, ...]:
    report = Report(exceptions={1: Verdict(UNKNOWN, "no answer")})
    return (
        Answer("A sent, B unknown and taken", report, 3, 3 if gives_up else 1),
        Answer("A sent, B unknown and not taken", report, 3, 1),
    )


_FIRST_ANSWERS = {"": _one_fails, "parts": _in_parts, "unknown": _unknown}


def stripped(record: Outcomes) -> tuple[str, bytes]:
    """The claim's name, and the record without it and with labels instead of times."""
    mixed = [
        msgspec.structs.replace(
            one,
            delay_s=0,
            groups=[msgspec.structs.replace(group, due_ms=label(group.due_ms), first_ms=0) for group in one.groups],
        )
        for one in record.mixed
    ]
    plain = msgspec.structs.replace(record, claim="", at_ms=0, latency_ms=0, mixed=mixed)
    return record.claim, encode_record(plain)


def filled(body: bytes, claim: str) -> bytes:
    record = decode_record(body)
    assert isinstance(record, Outcomes)
    return encode_record(msgspec.structs.replace(record, claim=claim))


def results(body: bytes) -> list[tuple[Kind, Sequence[int]]]:
    """For each envelope of a record its codes by position."""
    record = decode_record(body)
    assert isinstance(record, Outcomes)
    found: list[tuple[Kind, Sequence[int]]] = []
    for run in record.runs:
        positions, codes = tuple(range(run.size)), [run.code] * run.size
        sequences = range(run.first, run.first + run.count)
        found += [((run.writer, sequence, run.attempt, positions, ()), codes) for sequence in sequences]
    for mixed in record.mixed:
        positions = tuple(range(mixed.size)) if mixed.positions is None else tuple(mixed.positions)
        found.append(((mixed.writer, mixed.sequence, mixed.attempt, positions, ()), list(mixed.codes)))
    return found
