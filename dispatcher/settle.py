"""Decide the steps for envelopes that were sent, or that need no sending: pure decisions, no I/O.

No target is lost or settled twice because of the order of a plan: dead letters, the outcome record, the next attempts,
the acks. Each step starts once the one before is stored.
"""

from collections.abc import Sequence
from typing import Literal, cast

import msgspec

from dispatcher.analysis.send_errors import SendError
from dispatcher.engine.runs import EnvelopeRun
from dispatcher.ports import DeadLetter, Delivery
from dispatcher.retry import NextStep, next_step
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import (
    ALL_SENT,
    FORMAT,
    MAX_REASON,
    RETRY,
    UNKNOWN,
    Mixed,
    Named,
    Outcome,
    Outcomes,
    Report,
    Run,
    Verdict,
)

NamedTargets = Literal["none", "dead", "all"]
"""The targets that outcome records name: none, those that a provider called invalid, or all final ones."""

_SENT = int(Outcome.SENT)
_INVALID = int(Outcome.INVALID)
_ERRORS = frozenset((RETRY, int(Outcome.FAILED)))
_DEAD = frozenset((int(Outcome.INVALID), int(Outcome.FAILED)))
_NAMED: dict[NamedTargets, frozenset[int]] = {
    "none": frozenset(),
    "dead": frozenset((_INVALID,)),
    "all": frozenset(map(int, Outcome)),
}
_NEVER_MS = 1 << 62
MAX_NAMED_CHARACTERS = 700_000
"""Maximum characters of named targets in one record, so that it stays below 4 MiB. Targets beyond it are not named in
the journal; an envelope whose targets are within their limits always fits."""


class SettlePlan(msgspec.Struct, kw_only=True):
    """The steps for some envelopes of one task, in the order of the fields."""

    task: str
    letters: list[DeadLetter]
    record: Outcomes
    next_attempts: dict[int, list[Envelope]]
    """By delay in seconds."""
    acks: list[Delivery]
    targets: int
    counts: dict[int, int]
    """Targets by final outcome."""
    retried: int = 0
    """Targets with a next attempt."""
    unknown: int = 0
    """Targets that the provider may have taken without an answer."""
    error: SendError | None = None
    """Error of the targets that were not sent."""


class Draft:
    """Collects the outcomes of envelopes of one task, under one claim, into one record."""

    def __init__(self, task: str, claim: str, channel: str, app: str = "", named: NamedTargets = "dead") -> None:
        self.task = task
        self.claim = claim
        self.channel = channel
        self.app = app
        self.acks: list[Delivery] = []
        self.targets = 0
        self.named_characters = 0
        """Characters of the named targets and their reasons."""
        self._name_sent = named == "all"
        self._names = _NAMED[named]
        self._named: list[Named] = []
        self._oldest_ms = _NEVER_MS
        self._runs: list[Run] = []
        self._mixed: list[Mixed] = []
        self._letters: list[DeadLetter] = []
        self._next: dict[int, list[Envelope]] = {}
        self._counts: dict[int, int] = {}
        self._retried = 0
        self._unknown = 0
        self._error: SendError | None = None

    def add(self, part: EnvelopeRun, reports: Sequence[Report], at_ms: int) -> None:
        """Add the channel's reports on the envelopes of `part`, one for each."""
        if part.attempt == 0 and reports.count(ALL_SENT) == len(reports):
            self.add_all(part, _SENT)
            return
        self._add_part(part)
        for delivery, report in zip(part.deliveries, reports, strict=True):
            self._add_one(delivery.envelope, report, at_ms)

    def add_all(self, part: EnvelopeRun, code: int) -> None:
        """Add the outcome `code` for all targets of `part`."""
        self._add_part(part)
        self._count(code, part.targets)
        if self._name_sent:
            for delivery in part.deliveries:
                self._name(delivery.envelope, range(part.size), None)
        if part.attempt == 0:
            self._add_run(part.writer, part.first, part.count, part.size, code)
            return
        codes = bytes((code,)) * part.size
        for delivery in part.deliveries:
            self._add_mixed(delivery.envelope, codes, 0)

    def plan(self, at_ms: int) -> SettlePlan:
        """Return the steps to take now. `at_ms`: wall time of the record."""
        latency_ms = max(0, at_ms - self._oldest_ms)
        record = Outcomes(
            format=FORMAT,
            task=self.task,
            claim=self.claim,
            at_ms=at_ms,
            channel=self.channel,
            runs=self._runs,
            mixed=self._mixed,
            app=self.app,
            latency_ms=latency_ms,
            named=self._named,
        )
        return SettlePlan(
            task=self.task,
            letters=self._letters,
            record=record,
            next_attempts=self._next,
            acks=self.acks,
            targets=self.targets,
            counts=self._counts,
            retried=self._retried,
            unknown=self._unknown,
            error=self._error,
        )

    def _add_part(self, part: EnvelopeRun) -> None:
        self.acks += part.deliveries
        self.targets += part.targets
        since_ms = part.not_before_ms or part.deliveries[0].envelope.published_ms
        if since_ms < self._oldest_ms:
            self._oldest_ms = since_ms

    def _count(self, code: int, targets: int) -> None:
        self._counts[code] = self._counts.get(code, 0) + targets

    def _add_run(self, writer: str, first: int, count: int, size: int, code: int) -> None:
        if self._runs:
            last = self._runs[-1]
            if last.first + last.count == first and last.size == size and last.code == code and last.writer == writer:
                self._runs[-1] = Run(
                    writer=writer, attempt=0, first=last.first, count=last.count + count, size=size, code=code
                )
                return
        self._runs.append(Run(writer=writer, attempt=0, first=first, count=count, size=size, code=code))

    def _add_mixed(self, envelope: Envelope, codes: bytes, delay_s: int) -> None:
        self._mixed.append(
            Mixed(
                writer=envelope.writer,
                attempt=envelope.attempt,
                sequence=envelope.sequence,
                size=envelope.size,
                positions=envelope.positions,
                codes=codes,
                delay_s=delay_s,
            )
        )

    def _add_one(self, envelope: Envelope, report: Report, at_ms: int) -> None:
        steps = _steps(envelope, report)
        self._unknown += _unknown(report, len(envelope.targets))
        if steps is None:
            step = next_step(envelope.attempt, envelope.max_attempts, report.verdict)
            self._add_uniform(envelope, step, at_ms)
            return
        codes = bytes([step.code for step in steps])
        kinds = set(codes)
        self._note_errors(envelope, steps, at_ms)
        delay_s = max([step.delay_s for step in steps]) if RETRY in kinds else 0
        self._add_mixed(envelope, codes, delay_s)
        for code in kinds:
            if code != RETRY:
                self._count(code, codes.count(code))
        dead = [] if kinds.isdisjoint(_DEAD) else [i for i, code in enumerate(codes) if code in _DEAD]
        self._dead_letter(envelope, dead, steps, at_ms)
        candidates = range(len(codes)) if self._name_sent else dead
        self._name(envelope, [i for i in candidates if codes[i] in self._names], steps)
        again = [i for i, code in enumerate(codes) if code == RETRY] if RETRY in kinds else []
        self._try_again(envelope, again, NextStep(RETRY, "", delay_s, any(step.is_spared for step in steps)), at_ms)

    def _add_uniform(self, envelope: Envelope, step: NextStep, at_ms: int) -> None:
        size = len(envelope.targets)
        everything = range(size)
        self._note_errors(envelope, [step] * size, at_ms)
        if step.code == RETRY:
            self._add_mixed(envelope, bytes((RETRY,)) * size, step.delay_s)
            self._try_again(envelope, everything, step, at_ms)
            return
        self._count(step.code, size)
        if envelope.attempt == 0:
            self._add_run(envelope.writer, envelope.sequence, 1, size, step.code)
        else:
            self._add_mixed(envelope, bytes((step.code,)) * size, 0)
        if step.code in _DEAD:
            self._dead_letter(envelope, everything, [step] * size, at_ms)
        if step.code in self._names:
            self._name(envelope, everything, [step] * size)

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
            self._named.append(
                Named(
                    writer=envelope.writer,
                    attempt=envelope.attempt,
                    sequence=envelope.sequence,
                    positions=positions,
                    targets=targets,
                    reasons=reasons,
                )
            )
            self.named_characters += characters

    def _note_errors(self, envelope: Envelope, steps: Sequence[NextStep], at_ms: int) -> None:
        errors = [step for step in steps if step.code in _ERRORS]
        if errors:
            delays_s = [step.delay_s for step in errors if step.code == RETRY]
            retry_ms = at_ms + max(delays_s) * 1000 if delays_s else 0
            error = SendError(errors[-1].reason, len(errors), at_ms, envelope.attempt + 1, retry_ms)
            self._error = error.after(self._error)

    def _try_again(self, envelope: Envelope, indexes: Sequence[int], step: NextStep, at_ms: int) -> None:
        """Publish the targets again. If some were not sent, all of them get the attempt back: one envelope has one
        maximum."""
        if indexes:
            again = envelope.next_attempt(indexes, at_ms + step.delay_s * 1000, spared=step.is_spared)
            self._next.setdefault(step.delay_s, []).append(again)
            self._retried += len(indexes)

    def _dead_letter(self, envelope: Envelope, indexes: Sequence[int], steps: Sequence[NextStep], at_ms: int) -> None:
        if indexes:
            self._letters.append(_letter(envelope, indexes, steps, at_ms))


def _steps(envelope: Envelope, report: Report) -> list[NextStep] | None:
    """Return the next step of each target; None if it is the same for all."""
    if not report.exceptions:
        return None
    attempt, max_attempts = envelope.attempt, envelope.max_attempts
    steps = [next_step(attempt, max_attempts, report.verdict)] * len(envelope.targets)
    for index, verdict in report.exceptions.items():
        if 0 <= index < len(steps):
            steps[index] = next_step(attempt, max_attempts, verdict)
    return steps


def _unknown(report: Report, size: int) -> int:
    """Return the number of targets with the verdict UNKNOWN."""
    exceptions = report.exceptions or {}
    common = size - len(exceptions) if report.verdict.code == UNKNOWN else 0
    return common + sum(verdict.code == UNKNOWN for verdict in exceptions.values())


def _letter(envelope: Envelope, indexes: Sequence[int], steps: Sequence[NextStep], at_ms: int) -> DeadLetter:
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
    )


def match(
    parts: Sequence[EnvelopeRun], reports: Sequence[Report | None]
) -> list[tuple[EnvelopeRun, Sequence[Report] | None]]:
    """Match the parts of a batch with its reports; None for parts that were not sent. Splits parts as needed.

    Missing reports (the channel made an error) count as UNKNOWN: the call was made.
    """
    count = sum(part.count for part in parts)
    if len(reports) != count:
        reports = [*reports[:count], *[_MISSING] * (count - len(reports))]
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
    cut: list[tuple[EnvelopeRun, Sequence[Report] | None]] = []
    start = 0
    while start < len(reports):
        end = start + 1
        while end < len(reports) and (reports[end] is None) == (reports[start] is None):
            end += 1
        sent = [report for report in reports[start:end] if report is not None]
        cut.append((part.take(end - start), sent or None))
        start = end
    return cut
