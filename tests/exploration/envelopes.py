"""The envelopes, answers of the provider and records of an exploration, by small numbers."""

from collections.abc import Sequence

import msgspec

from dispatcher.wire.envelope import FORMAT, Envelope, encode_message
from dispatcher.wire.outcome import ALL_SENT, RETRY, Outcomes, Report, Verdict, decode_record, encode_record

TASK = "t"
MESSAGE = encode_message({"title": "hello"})
SIZE = 2
"""Targets A and B of each first envelope."""
TRY_AGAIN = Verdict(RETRY, "busy")

Kind = tuple[str, int, int, tuple[int, ...]]
"""Writer, sequence, attempt, positions."""


def first(sequence: int = 0, writer: str = "0") -> Kind:
    return (writer, sequence, 0, tuple(range(SIZE)))


def kind_of(envelope: Envelope) -> Kind:
    return (envelope.writer, envelope.sequence, envelope.attempt, tuple(envelope.positions or range(SIZE)))


def envelope_of(kind: Kind) -> Envelope:
    """Due at once: a retry's delay is over whenever the exploration lets it be received."""
    writer, sequence, attempt, positions = kind
    targets = [f"{writer}:{sequence}:{position}" for position in positions]
    places = None if attempt == 0 else list(positions)
    return Envelope(
        format=FORMAT,
        task=TASK,
        writer=writer,
        sequence=sequence,
        attempt=attempt,
        app="app",
        channel="null",
        published_ms=0,
        not_before_ms=0,
        expires_ms=0,
        size=SIZE,
        max_attempts=2,
        message=MESSAGE,
        targets=targets,
        positions=places,
    )


def answers(kind: Kind) -> tuple[tuple[str, Report, int], ...]:
    """The provider's possible answers: name, report, positions it accepted (bits). Attempt 1 is the last one."""
    _, sequence, attempt, positions = kind
    everything = sum(1 << position for position in positions)
    both = ("all sent", ALL_SENT, everything)
    if attempt == 0 and sequence == 0:
        return (("A sent, B retry", Report(exceptions={1: TRY_AGAIN}), 1), both)
    return (both,) if sequence else (both, ("failed", Report(TRY_AGAIN), 0))


def stripped(record: Outcomes) -> tuple[str, bytes]:
    """The claim's name, and the record without it and without its times."""
    return record.claim, encode_record(msgspec.structs.replace(record, claim="", at_ms=0, latency_ms=0))


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
        found += [((run.writer, sequence, run.attempt, positions), codes) for sequence in sequences]
    for mixed in record.mixed:
        positions = tuple(range(mixed.size)) if mixed.positions is None else tuple(mixed.positions)
        found.append(((mixed.writer, mixed.sequence, mixed.attempt, positions), list(mixed.codes)))
    return found
