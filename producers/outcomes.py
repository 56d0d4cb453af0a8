"""Final outcomes of a task's targets, one by one, from the outcome records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from dispatcher.channels.apns import apns_id
from dispatcher.channels.submission.address import address_form
from dispatcher.wire.outcome import OUTCOME_NAMES, Named, Outcome, Outcomes, ProviderIds

T = TypeVar("T")
_SENT = int(Outcome.SENT)
_FINAL = len(OUTCOME_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOutcome:
    """The final outcome of one target, as a record has it."""

    task: str
    """The task's id."""
    target: str
    """The target's address; empty if the record does not name it (the workers' setting `journal.targets`)."""
    writer: str
    """With sequence and position: which target of the task it is."""
    sequence: int
    """The envelope."""
    position: int
    """The place in the envelope."""
    outcome: str
    """sent, invalid, failed, expired or cancelled."""
    reason: str
    """The reason, in the words of the channel, if the record names the target."""
    attempt: int
    """The number of the envelope's round, from 1."""
    channel: str
    """The channel of the task."""
    at_ms: int
    """Wall time of the record."""
    provider_id: str
    """The provider's id of the message; empty if it is not known. That of `apns` follows from the target's place;
    others are in the record if the channel keeps them (`channels.fcm.keep_ids`)."""


class _Envelope(NamedTuple):
    """The targets of one envelope that have a final outcome in a record."""

    writer: str
    attempt: int
    sequence: int
    codes: Mapping[int, int]
    """Final outcomes by position."""


def outcomes(records: Iterable[Outcomes], task: str, target: str | None = None) -> Iterator[TargetOutcome]:
    """Yield the final outcomes of a task's targets, or of one target, in the order of the records.

    target: in any of its spellings. A record may be stored twice: of several outcomes of a target the first counts.
    """
    for record in records:
        if record.task != task:
            continue
        names = {(one.writer, one.attempt, one.sequence): one for one in record.named}
        spellings = {target, address_form(record.channel).of(target)}
        if target is not None:
            names = {key: one for key, one in names.items() if not spellings.isdisjoint(one.targets)}
        ids = {(one.writer, one.attempt, one.sequence): one for one in record.provider_ids}
        for envelope in _envelopes(record):
            key = envelope[:3]
            if target is None or key in names:
                found = _of_envelope(record, envelope, names.get(key), ids.get(key))
                yield from (one for one in found if target is None or one.target in spellings)


def _envelopes(record: Outcomes) -> Iterator[_Envelope]:
    for run in record.runs:
        codes = dict.fromkeys(range(run.size), run.code) if run.code < _FINAL else {}
        for sequence in range(run.first, run.first + run.count):
            yield _Envelope(run.writer, run.attempt, sequence, codes)
    for mixed in record.mixed:
        codes = {position: code for position, code in _placed(mixed.positions, mixed.codes) if code < _FINAL}
        yield _Envelope(mixed.writer, mixed.attempt, mixed.sequence, codes)


def _of_envelope(
    record: Outcomes, envelope: _Envelope, named: Named | None, kept: ProviderIds | None
) -> Iterator[TargetOutcome]:
    targets = {} if named is None else dict(_placed(named.positions, named.targets))
    reasons = {} if named is None else dict(_placed(named.positions, named.reasons or []))
    ids = {} if kept is None else dict(_placed(kept.positions, [kept.prefix + rest for rest in kept.ids]))
    for position, code in envelope.codes.items():
        yield TargetOutcome(
            task=record.task,
            target=targets.get(position, ""),
            writer=envelope.writer,
            sequence=envelope.sequence,
            position=position,
            outcome=OUTCOME_NAMES[code],
            reason=reasons.get(position, ""),
            attempt=envelope.attempt + 1,
            channel=record.channel,
            at_ms=record.at_ms,
            provider_id=ids.get(position) or _known_id(record, envelope, position, code),
        )


def _known_id(record: Outcomes, envelope: _Envelope, position: int, code: int) -> str:
    """Return the id that follows from the target's place; empty for channels that have none."""
    is_known = record.channel == "apns" and code == _SENT
    return apns_id(record.task, envelope.writer, envelope.sequence, position) if is_known else ""


def _placed(positions: Sequence[int] | None, values: Sequence[T]) -> Iterator[tuple[int, T]]:
    """Yield values with their positions in the first envelope; None: all, in order."""
    return zip(range(len(values)) if positions is None else positions, values, strict=False)
