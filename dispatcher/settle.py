"""Decide the steps for envelopes that were sent, or that need no sending: pure decisions, no I/O.

No target is lost or settled twice because of the order of a plan: dead letters, the outcome record, the next attempts,
the acks. Each step starts once the one before is stored.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Literal, Self, cast

import msgspec

from dispatcher.analysis.send_errors import SendError
from dispatcher.engine.runs import EnvelopeRun
from dispatcher.ports import DeadLetter, Delivery
from dispatcher.retry import NextStep
from dispatcher.rounds import groups_after, open_indexes, retry_wait, steps_after
from dispatcher.wire.envelope import Envelope, encode_envelope
from dispatcher.wire.groups import TargetGroup
from dispatcher.wire.outcome import (
    ALL_SENT,
    FORMAT,
    MAX_REASON,
    OPEN_NAMES,
    UNKNOWN,
    UNSENT,
    Mixed,
    Named,
    Outcome,
    Outcomes,
    ProviderIds,
    Report,
    Run,
    Verdict,
)

NamedTargets = Literal["none", "dead", "all"]
"""The targets that outcome records name beside those that a provider called invalid: none, none ("dead"), or all final
ones. Invalid ones are named always: nothing else has them."""

_SENT = int(Outcome.SENT)
_INVALID = int(Outcome.INVALID)
_FAILED = int(Outcome.FAILED)
_ERRORS = frozenset((*OPEN_NAMES, _FAILED))
_NAMED: dict[NamedTargets, frozenset[int]] = {
    "none": frozenset((_INVALID,)),
    "dead": frozenset((_INVALID,)),
    "all": frozenset(map(int, Outcome)),
}
_NEVER_MS = 1 << 62
MAX_SAMPLE_BYTES = 2_000
"""Maximum bytes of an envelope that was set apart in its dead letter."""
MAX_NAMED_CHARACTERS = 700_000
"""Maximum characters of named targets in one record, so that it stays below 4 MiB. Targets beyond it are not named; an
envelope whose targets are within their limits always fits, so no invalid one is left out (`Settling.reported`)."""


class Draft:
    """The steps for some envelopes of one task, sent under one claim: it collects their outcomes in one record."""

    def __init__(self, task: str, claim: str, channel: str, app: str = "", named: NamedTargets = "dead") -> None:
        self.letters: list[DeadLetter] = []
        self.record = Outcomes(
            format=FORMAT,
            task=task,
            claim=claim,
            at_ms=0,
            channel=channel,
            runs=[],
            mixed=[],
            app=app,
            named=[],
            provider_ids=[],
        )
        self.next_attempts: dict[int, list[Envelope]] = {}
        """By the delay of their retry lane in seconds."""
        self.acks: list[Delivery] = []
        self.targets = 0
        self.counts: dict[int, int] = {}
        """Targets by final outcome."""
        self.retried = 0
        """Targets with a next attempt."""
        self.unknown = 0
        """Targets that the provider may have taken without an answer."""
        self.error: SendError | None = None
        """Error of the targets that were not sent."""
        self.named_characters = 0
        """Characters of the named targets and their reasons, and of the provider's ids."""
        self._name_sent = named == "all"
        self._names = _NAMED[named]
        self._oldest_ms = _NEVER_MS

    @property
    def task(self) -> str:
        return self.record.task

    def add(self, part: EnvelopeRun, reports: Sequence[Report], at_ms: int) -> None:
        """Add the channel's reports on the envelopes of `part`, one for each."""
        if part.attempt == 0 and part.groups is None and reports.count(ALL_SENT) == len(reports):
            self.add_all(part, _SENT)
            return
        self._add_part(part)
        for delivery, report in zip(part.deliveries, reports, strict=True):
            self._add_one(delivery.envelope, part, report, at_ms)

    def add_all(self, part: EnvelopeRun, code: int) -> None:
        """Add the outcome `code` for all targets of `part`, due or not."""
        self._add_part(part)
        self._count(code, part.open * part.count)
        if self._name_sent:
            for delivery in part.deliveries:
                self._name(delivery.envelope, range(part.open), None)
        if part.attempt == 0:
            self._add_run(part.writer, part.first, part.count, part.open, code)
            return
        codes = bytes((code,)) * part.open
        for delivery in part.deliveries:
            self._add_mixed(delivery.envelope, codes)

    def set_apart(self, part: EnvelopeRun, report: Report | None, reason: str, at_ms: int) -> None:
        """Add an envelope that cannot be read or settled. What the provider answered for good stays; the rest fails."""
        envelope = part.deliveries[0].envelope
        codes = _final_codes(part, report)
        failed = [i for i, code in enumerate(codes) if code == _FAILED]
        self._add_part(part)
        for code in set(codes):
            self._count(code, codes.count(code))
        self._add_mixed(envelope, bytes(codes))
        self._name(envelope, [i for i, code in enumerate(codes) if code in self._names], None)
        if failed:
            self.letters.append(_letter_apart(envelope, failed, reason, at_ms))
            self.error = SendError(reason, len(failed), at_ms, envelope.attempt + 1, 0).after(self.error)

    def finish(self, at_ms: int) -> Self:
        """Set the wall time of the record. Nothing may be added any more: the steps are to be taken now."""
        latency_ms = max(0, at_ms - self._oldest_ms)
        self.record = msgspec.structs.replace(self.record, at_ms=at_ms, latency_ms=latency_ms)
        return self

    def _add_part(self, part: EnvelopeRun) -> None:
        self.acks += part.deliveries
        self.targets += part.targets
        since_ms = part.not_before_ms or part.deliveries[0].envelope.published_ms
        if since_ms < self._oldest_ms:
            self._oldest_ms = since_ms

    def _count(self, code: int, targets: int) -> None:
        self.counts[code] = self.counts.get(code, 0) + targets

    def _add_run(self, writer: str, first: int, count: int, size: int, code: int) -> None:
        runs = self.record.runs
        if runs:
            last = runs[-1]
            if last.first + last.count == first and last.size == size and last.code == code and last.writer == writer:
                first, count = last.first, last.count + count
                runs.pop()
        runs.append(Run(writer=writer, attempt=0, first=first, count=count, size=size, code=code))

    def _add_mixed(
        self, envelope: Envelope, codes: bytes, delay_s: int = 0, groups: Sequence[TargetGroup] = ()
    ) -> None:
        self.record.mixed.append(
            Mixed(
                writer=envelope.writer,
                attempt=envelope.attempt,
                sequence=envelope.sequence,
                size=envelope.size,
                positions=envelope.positions,
                codes=codes,
                delay_s=delay_s,
                groups=list(groups),
            )
        )

    def _add_one(self, envelope: Envelope, part: EnvelopeRun, report: Report, at_ms: int) -> None:
        steps = steps_after(envelope, part.groups, part.turn_ms, report, at_ms)
        codes = bytes([step.code for step in steps])
        kinds = set(codes)
        self.unknown += _unknown(report, part.size if part.groups is None else len(part.called()))
        self._note_errors(steps, at_ms)
        for code in kinds.difference(OPEN_NAMES):
            self._count(code, codes.count(code))
        if envelope.attempt == 0 and len(kinds) == 1 and kinds.isdisjoint(OPEN_NAMES):
            self._add_run(envelope.writer, envelope.sequence, 1, len(steps), codes[0])
        else:
            self._add_round(envelope, codes, steps, at_ms)
        if _FAILED in kinds:
            failed = [i for i, code in enumerate(codes) if code == _FAILED]
            self.letters.append(letter_of(envelope, failed, steps, at_ms))
        if not kinds.isdisjoint(self._names):
            self._name(envelope, [i for i, code in enumerate(codes) if code in self._names], steps)
        if any(step.provider_id for step in steps):
            self._keep_ids(envelope, steps)

    def _add_round(self, envelope: Envelope, codes: bytes, steps: Sequence[NextStep], at_ms: int) -> None:
        """Record a round, and publish the open targets again: one envelope, in the lane of the earliest one."""
        indexes = open_indexes(steps)
        if not indexes:
            self._add_mixed(envelope, codes)
            return
        groups = groups_after(envelope, steps, indexes)
        wait = retry_wait(groups, at_ms)
        again = envelope.next_round(indexes, groups, envelope.attempt + 1, wait.leaves_ms)
        self._add_mixed(envelope, codes, max(1, round((groups[0].due_ms - at_ms) / 1000)), groups)
        self.next_attempts.setdefault(wait.step_s, []).append(again)
        self.retried += len(indexes)

    def _name(self, envelope: Envelope, indexes: Sequence[int], steps: Sequence[NextStep] | None) -> None:
        """Name targets of an envelope in the record. `steps` has one per target; None if no target has a reason."""
        if not indexes:
            return
        all_named = len(indexes) == len(envelope.targets)
        targets = envelope.targets if all_named else [envelope.targets[i] for i in indexes]
        positions = envelope.positions if all_named else [envelope.position(i) for i in indexes]
        reasons = None if steps is None else [steps[i].reason[:MAX_REASON] for i in indexes]
        if reasons is not None and not any(reasons):
            reasons = None
        characters = sum(map(len, targets)) + sum(map(len, reasons or ()))
        if self.named_characters + characters <= MAX_NAMED_CHARACTERS:
            died_ms = [steps[i].died_ms for i in indexes] if steps else []
            self.record.named.append(
                Named(
                    writer=envelope.writer,
                    attempt=envelope.attempt,
                    sequence=envelope.sequence,
                    positions=positions,
                    targets=targets,
                    reasons=reasons,
                    died_ms=died_ms if any(died_ms) else None,
                )
            )
            self.named_characters += characters

    def _keep_ids(self, envelope: Envelope, steps: Sequence[NextStep]) -> None:
        """Keep the provider's ids. Unlike the names of invalid targets, they may be left out of a full record."""
        indexes = [i for i, step in enumerate(steps) if step.provider_id]
        ids = [steps[i].provider_id for i in indexes]
        prefix = _common_beginning(min(ids), max(ids))
        characters = sum(map(len, ids)) - len(prefix) * (len(ids) - 1)
        if self.named_characters + characters > MAX_NAMED_CHARACTERS:
            return
        self.named_characters += characters
        all_kept = len(ids) == len(steps)
        self.record.provider_ids.append(
            ProviderIds(
                writer=envelope.writer,
                attempt=envelope.attempt,
                sequence=envelope.sequence,
                positions=envelope.positions if all_kept else [envelope.position(i) for i in indexes],
                prefix=prefix,
                ids=[each[len(prefix) :] for each in ids],
            )
        )

    def _note_errors(self, steps: Sequence[NextStep], at_ms: int) -> None:
        """Note the reasons of targets that were not sent. Those that were not due have none."""
        errors = [step for step in steps if step.code in _ERRORS and (step.reason or step.code != UNSENT)]
        if errors:
            failed, put_back = ([step for step in errors if step.put_back == put_back] for put_back in (False, True))
            noted, back = ("", 0, 0, 0), (0, 0, "")
            if failed:
                attempt = failed[-1].state.tries + (failed[-1].code == UNSENT)
                noted = (failed[-1].reason, len(failed), at_ms, attempt)
            if put_back:
                back = (len(put_back), at_ms, put_back[-1].reason)
            error = SendError(*noted, max(step.state.due_ms for step in errors), *back)
            self.error = error.after(self.error)


def _common_beginning(text: str, other: str) -> str:
    ends = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    return text[:ends]


def _unknown(report: Report, size: int) -> int:
    """Return the number of targets with the verdict UNKNOWN."""
    exceptions = report.exceptions or {}
    common = size - len(exceptions) if report.verdict.code == UNKNOWN else 0
    return common + sum(verdict.code == UNKNOWN for verdict in exceptions.values())


def letter_of(envelope: Envelope, indexes: Sequence[int], steps: Sequence[NextStep], at_ms: int) -> DeadLetter:
    """Return the dead letter with the targets at `indexes`, after these steps."""
    return DeadLetter(
        format=FORMAT,
        task=envelope.task,
        writer=envelope.writer,
        sequence=envelope.sequence,
        attempt=envelope.attempt,
        at_ms=at_ms,
        channel=envelope.channel,
        positions=[envelope.position(i) for i in indexes],
        targets=[envelope.targets[i] for i in indexes],
        outcomes=[steps[i].code for i in indexes],
        reasons=[steps[i].reason for i in indexes],
        app=envelope.app,
        variables=None if envelope.variables is None else [envelope.variables[i] for i in indexes],
        first_call_ms=min((steps[i].state.first_ms for i in indexes if steps[i].state.first_ms), default=0),
    )


def _final_codes(part: EnvelopeRun, report: Report | None) -> list[int]:
    """Return the outcome of each target of one envelope: the provider's, if it is final, or FAILED."""
    codes = [_FAILED] * len(part.deliveries[0].envelope.targets)
    if report is not None:
        exceptions = report.exceptions or {}
        for number, index in enumerate(part.called()):
            code = exceptions.get(number, report.verdict).code
            codes[index] = _FAILED if code in OPEN_NAMES else code
    return codes


def _letter_apart(envelope: Envelope, failed: Sequence[int], reason: str, at_ms: int) -> DeadLetter:
    """Return the dead letter of an envelope that was set apart. Its body is the beginning of the envelope."""
    return msgspec.structs.replace(
        letter_of(envelope, [], [], at_ms),
        positions=[envelope.position(i) for i in failed],
        targets=[envelope.targets[i] for i in failed],
        outcomes=[_FAILED] * len(failed),
        reasons=[reason] * len(failed),
        body=encoded_or_name(envelope)[:MAX_SAMPLE_BYTES],
        variables=None,
    )


def encoded_or_name(envelope: Envelope) -> bytes:
    """Return the encoded envelope, or the name of the error if it cannot be encoded."""
    try:
        return encode_envelope(envelope)
    except Exception as error:
        return type(error).__name__.encode()


def match(
    parts: Sequence[EnvelopeRun], reports: Sequence[Report | None]
) -> list[tuple[EnvelopeRun, Sequence[Report] | None]]:
    """Match the parts of a batch with its reports; None for parts that were not sent. Splits parts as needed.

    Missing reports (the channel made an error) count as UNKNOWN: the call was made.
    """
    count = sum([len(part.deliveries) for part in parts])
    if len(reports) != count:
        reports = [*reports[:count], *[_MISSING] * (count - len(reports))]
    if len(parts) == 1 and None not in reports:
        return [(parts[0], cast("Sequence[Report]", reports))]
    everything = reports.count(ALL_SENT) == count
    matched: list[tuple[EnvelopeRun, Sequence[Report] | None]] = []
    start = 0
    for part in parts:
        end = start + part.count
        part_reports = reports[start:end]
        start = end
        if everything or None not in part_reports:
            matched.append((part, cast("Sequence[Report]", part_reports)))
        else:
            matched += _cut(part, part_reports)
    return matched


_MISSING = Report(Verdict(UNKNOWN, "the channel gave no report"))


def _cut(part: EnvelopeRun, reports: Sequence[Report | None]) -> list[tuple[EnvelopeRun, Sequence[Report] | None]]:
    stretches = [list(same) for _, same in groupby(reports, key=lambda report: report is None)]
    return [(part.take(len(same)), [each for each in same if each is not None] or None) for same in stretches]
