"""The laws, judged by what was left behind: a pure function of four logs.

It shares nothing with Fairlane's ledger or view. Its input is what the provider, the submitters and the fault injector
have noted themselves, and the outcome records as they are stored.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

RETRY, UNSENT, UNKNOWN = 9, 8, 7
OPEN = frozenset({RETRY, UNSENT, UNKNOWN})
"""The codes of results that are not final."""
UNDELIVERED = frozenset({2, 3, 4, UNSENT})
"""Codes that may be recorded without a call by the recording worker: failed, expired, cancelled, not sent."""


class Call(NamedTuple):
    """One target in one call of the provider, noted before the provider answered."""

    at_ms: int
    worker: str
    task: str
    target: str
    envelope: tuple[str, int]
    """Writer and sequence number."""
    position: int
    attempt: int


class Fault(NamedTuple):
    """A fault that was applied."""

    kind: str
    worker: str
    """The incarnation that was killed, stopped or cut off; empty if the fault hit something else."""
    from_ms: int
    until_ms: float
    """The time at which it was over."""
    what: str = ""


class Recorded(NamedTuple):
    """The part of one record about one envelope."""

    stored_ms: int
    worker: str
    claim: str
    task: str
    envelope: tuple[str, int]
    attempt: int
    codes: Mapping[int, int]
    """Codes by position."""


@dataclass(frozen=True)
class Evidence:
    """The four logs."""

    accepted: Mapping[str, Sequence[str]]
    """Targets by task."""
    calls: Sequence[Call]
    faults: Sequence[Fault]
    records: Sequence[Recorded]


class CaseRecord(NamedTuple):
    """The part of an outcome record that is about one target."""

    worker: str
    attempt: int
    code: int
    stored_ms: int


class Case(NamedTuple):
    """The history of one target, for people."""

    task: str
    target: str
    why: str
    """One sentence."""
    calls: tuple[Call, ...] = ()
    records: tuple[CaseRecord, ...] = ()
    """Worker, attempt, code and time of each record."""
    fault: Fault | None = None
    """The excuse, or the nearest fault."""


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The result of the check. Each list names a target at most once."""

    accepted: int
    """Number of targets."""
    calls: int
    lost: list[Case] = field(default_factory=list)
    never_ended: list[Case] = field(default_factory=list)
    excused: list[Case] = field(default_factory=list)
    not_excused: list[Case] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not (self.lost or self.never_ended or self.not_excused)


def check(evidence: Evidence) -> CheckResult:
    """Judge every accepted target."""
    return _Court(evidence).verdict()


class _Court:
    """Indexes of the evidence, and the laws."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._calls: dict[tuple[str, str], list[Call]] = defaultdict(list)
        for call in sorted(evidence.calls):
            self._calls[call.task, call.target].append(call)
        self._faults: dict[str, list[Fault]] = defaultdict(list)
        for fault in evidence.faults:
            self._faults[fault.worker].append(fault)
        self._records: dict[tuple[str, tuple[str, int]], list[Recorded]] = defaultdict(list)
        for record in evidence.records:
            self._records[record.task, record.envelope].append(record)

    def verdict(self) -> CheckResult:
        accepted = {(task, target) for task, targets in self._evidence.accepted.items() for target in targets}
        verdict = CheckResult(accepted=len(accepted), calls=len(self._evidence.calls))
        for task, target in sorted(accepted | self._calls.keys()):
            self._judge(task, target, accepted=(task, target) in accepted, verdict=verdict)
        return verdict

    def _judge(self, task: str, target: str, *, accepted: bool, verdict: CheckResult) -> None:
        """Judge one target. A target that was not accepted need not end, but must not be called twice, either."""
        calls = self._calls.get((task, target), [])
        records = self._records_of(calls[0]) if calls else []
        if accepted and not calls:
            verdict.lost.append(Case(task=task, target=target, why="the provider was never called"))
            return
        if stray := _without_call(records, calls):
            verdict.lost.append(self._case(calls, records, f"recorded by {stray.worker}, which has not called"))
        if accepted and all(_code(record, calls[0]) in OPEN for record in records):
            verdict.never_ended.append(self._case(calls, records, "no final outcome is stored"))
        self._judge_calls(calls, records, verdict)

    def _judge_calls(self, calls: list[Call], records: list[Recorded], verdict: CheckResult) -> None:
        excuses = list[Fault]()
        for first, second in _pairs(calls):
            if first.attempt < second.attempt and _was_retried(first, records):
                continue
            excuse = self._excuse(first, second, records)
            if excuse is None:
                why = f"{first.worker} called (attempt {first.attempt}), then {second.worker} ({second.attempt})"
                verdict.not_excused.append(self._case(calls, records, why, about=first))
                return
            excuses.append(excuse)
        if excuses:
            why = ", ".join(dict.fromkeys(f"{excuse.kind} {excuse.worker}" for excuse in excuses))
            verdict.excused.append(self._case(calls, records, why, excuses[0]))

    def _excuse(self, first: Call, second: Call, records: list[Recorded]) -> Fault | None:
        """Return the fault of the first caller between its call and its record, and before the second call."""
        mine = [r.stored_ms for r in records if r.worker == first.worker and r.attempt == first.attempt]
        until_ms = min([*mine, second.at_ms])
        faults = self._faults.get(first.worker, [])
        return next((f for f in faults if f.from_ms <= until_ms and f.until_ms >= first.at_ms), None)

    def _records_of(self, call: Call) -> list[Recorded]:
        records = self._records.get((call.task, call.envelope), [])
        return sorted((r for r in records if call.position in r.codes), key=lambda record: record.stored_ms)

    def _case(
        self,
        calls: list[Call],
        records: Iterable[Recorded],
        why: str,
        fault: Fault | None = None,
        about: Call | None = None,
    ) -> Case:
        """Return the history of a target.

        `fault`: None for the one nearest to the call `about`, by default the first call.
        """
        call = about or calls[0]
        kept = tuple(CaseRecord(r.worker, r.attempt, r.codes[call.position], r.stored_ms) for r in records)
        nearest = fault or min(self._evidence.faults, key=lambda each: _distance_ms(each, call.at_ms), default=None)
        return Case(task=call.task, target=call.target, why=why, calls=tuple(calls), records=kept, fault=nearest)


def _pairs(calls: Sequence[Call]) -> Iterator[tuple[Call, Call]]:
    """Yield pairs of an earlier call and a call that repeats it.

    A call repeats those of its attempt or, if it is the first of that, all earlier ones.
    """
    for index, second in enumerate(calls):
        earlier = calls[:index]
        same = [call for call in earlier if call.attempt == second.attempt]
        yield from ((first, second) for first in same or earlier)


def _distance_ms(fault: Fault, at_ms: int) -> float:
    return max(fault.from_ms - at_ms, at_ms - fault.until_ms, 0.0)


def _code(record: Recorded, call: Call) -> int:
    return record.codes[call.position]


def _was_retried(call: Call, records: Iterable[Recorded]) -> bool:
    return any(record.attempt == call.attempt and _code(record, call) in OPEN for record in records)


def _without_call(records: Iterable[Recorded], calls: Sequence[Call]) -> Recorded | None:
    """Return a record whose worker has not made the call that the record reports."""
    made = {(call.worker, call.attempt) for call in calls}
    delivered = (record for record in records if _code(record, calls[0]) not in UNDELIVERED)
    return next((record for record in delivered if (record.worker, record.attempt) not in made), None)
