"""Read records of targets from the outcome topics; with the dead letters, those of all targets that failed."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TypeVar

import msgspec

from dispatcher.channels.apns import apns_id
from dispatcher.channels.submission.address import address_form
from dispatcher.letters.marks import TargetKey
from dispatcher.model.flow_pause import FlowPause, flow_name
from dispatcher.ports import DeadLetter
from dispatcher.wire.outcome import OUTCOME_NAMES, Mixed, Named, Outcome, Outcomes, ProviderIds
from producers.outcomes.letter_rows import target_of
from producers.outcomes.record import TargetFilter, TargetRecord

T = TypeVar("T")
_Envelope = tuple[str, int, int]
"""Writer, attempt and sequence."""
_FINAL = range(len(OUTCOME_NAMES))
_SENT, _INVALID = int(Outcome.SENT), int(Outcome.INVALID)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TargetRecord).decode


def outcomes(records: Iterable[Outcomes], task: str, target: str | None = None) -> Iterator[TargetRecord]:
    """Yield the final outcomes of a task's targets, or of one target, in the order of the records.

    target: in any of its spellings. A record may be stored twice: of several outcomes of a target the first counts.
    """
    for record in records:
        if record.task == task:
            address = None if target is None else address_form(record.channel).of(target)
            yield from _targets(record, address=address)


def failures(
    letters: Iterable[DeadLetter], records: Iterable[Outcomes], task: str, invalid: int | None = None
) -> Iterator[TargetRecord]:
    """Yield the targets in the task's letters, and the invalid ones that its records name, each once.

    invalid: the number of its invalid targets; the records are read no further once there are as many (None: unknown).
    """
    for letter in letters:
        yield from (target_of(letter, index) for index in range(len(letter.targets)))
    seen = set[TargetKey]()
    reported = (each for record in records if record.task == task for each in invalid_in(record))
    while len(seen) != invalid and (each := next(reported, None)) is not None:
        if each.key not in seen:
            seen.add(each.key)
            yield each


def invalid_targets(
    records: Iterable[Outcomes], chosen: TargetFilter, flows: Mapping[str, FlowPause]
) -> Iterator[TargetRecord]:
    """Yield the invalid targets that the filter matches, as often as they were reported.

    flows: the last entry of each flow. Reports that an entry doubts are left out, such as those of a minute of a flow
    that is suspected to have a wrong environment.
    """
    for record in records:
        pause = flows.get(flow_name(record.channel, record.app))
        if pause is None or not pause.doubts(record.at_ms):
            yield from filter(chosen.takes, invalid_in(record))


def invalid_in(record: Outcomes) -> Iterator[TargetRecord]:
    """Yield the invalid targets that the record names."""
    if record.named:
        yield from (target for target in _targets(record, (_INVALID,)) if target.target)


def latest(targets: Iterable[TargetRecord]) -> Iterator[TargetRecord]:
    """Yield each target of an app and a channel once, with its latest time of death.

    They are collected in a temporary file, so that memory does not grow with their number.
    """
    import sqlite3  # rarely needed

    with closing(sqlite3.connect("")) as file:
        file.execute("CREATE TABLE dead (app, channel, target, died, row, PRIMARY KEY (app, channel, target))")
        file.executemany(
            "INSERT INTO dead VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET died = excluded.died, row = excluded.row WHERE excluded.died > died",
            ((target.app, target.channel, target.target, target.died_ms, _encode(target)) for target in targets),
        )
        for (row,) in file.execute("SELECT row FROM dead"):
            yield _decode(row)


# ------------------------------------------------------------------ one record
def _targets(record: Outcomes, codes: Collection[int] = _FINAL, address: object = None) -> Iterator[TargetRecord]:
    """Yield the targets of a record with one of these outcomes; with an address, only those that it names so."""
    named = {_envelope(each): each for each in record.named if address is None or address in each.targets}
    ids = {_envelope(provider_id): provider_id for provider_id in record.provider_ids}
    for envelope, outcomes_by_position in _envelopes(record, codes):
        if address is None or envelope in named:
            found = _of_envelope(record, envelope, outcomes_by_position, named.get(envelope), ids.get(envelope))
            yield from (each for each in found if address in (None, each.target))


def _envelope(part: Mixed | Named | ProviderIds) -> _Envelope:
    return part.writer, part.attempt, part.sequence


def _envelopes(record: Outcomes, codes: Collection[int]) -> Iterator[tuple[_Envelope, Mapping[int, int]]]:
    """Yield the envelopes of a record, with the outcomes among these codes by position."""
    for run in record.runs:
        if run.code in codes:
            same = dict.fromkeys(range(run.size), run.code)
            yield from (((run.writer, run.attempt, run.first + number), same) for number in range(run.count))
    for mixed in record.mixed:
        yield _envelope(mixed), {at: code for at, code in _placed(mixed.positions, mixed.codes) if code in codes}


def _of_envelope(
    record: Outcomes, envelope: _Envelope, codes: Mapping[int, int], named: Named | None, kept: ProviderIds | None
) -> Iterator[TargetRecord]:
    writer, attempt, sequence = envelope
    targets = {} if named is None else dict(_placed(named.positions, named.targets))
    reasons = {} if named is None else dict(_placed(named.positions, named.reasons or []))
    died_ms = {} if named is None else dict(_placed(named.positions, named.died_ms or []))
    ids = {} if kept is None else dict(_placed(kept.positions, [kept.prefix + rest for rest in kept.ids]))
    for position, code in codes.items():
        has_known_id = record.channel == "apns" and code == _SENT
        known_id = apns_id(record.task, writer, sequence, position) if has_known_id else ""
        yield TargetRecord(
            task=record.task,
            app=record.app,
            channel=record.channel,
            outcome=OUTCOME_NAMES[code],
            reason=reasons.get(position, ""),
            target=targets.get(position, ""),
            attempt=attempt + 1,
            at_ms=record.at_ms,
            writer=writer,
            sequence=sequence,
            position=position,
            provider_id=ids.get(position) or known_id,
            died_ms=(died_ms.get(position) or record.at_ms) if code == _INVALID else 0,
        )


def _placed(positions: Sequence[int] | None, values: Sequence[T]) -> Iterator[tuple[int, T]]:
    """Yield values with their positions in the first envelope; None: all, in order."""
    return zip(range(len(values)) if positions is None else positions, values, strict=False)
