"""Record the events of a run, from outside ledger and engine, and check them against the invariants.

A key is an envelope's identity within its task: sequence and attempt.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dispatcher.ports import Batch
from dispatcher.wire.lease import GivenBack, LaneAsk, LaneKind, LeaseAnswer, LeaseRequest, Status, StatusRun, Want
from lab.simulator.findings.gaps import GapWatch, TierCall
from lab.simulator.findings.result import Violation
from lab.simulator.run.agenda import Agenda

GRANTED, NO_CREDIT, RETRY = Status.GRANTED, Status.NO_CREDIT, LaneKind.RETRY
ATTEMPTS = 64
"""More attempts than a task may have."""
MAX_VIOLATIONS = 100


class Amount(NamedTuple):
    """A number of targets at one moment: granted (negative: given back), published, or sent."""

    at_us: int
    task: str
    tier: str
    targets: int
    size: int
    """The largest envelope."""


@dataclass(slots=True)
class _Claim:
    name: str
    lease_ends_us: int
    ends_us: int


@dataclass(slots=True)
class _ClaimedEnvelope:
    claim: _Claim
    size: int
    called: bool = False
    """Whether the provider was called under the claim."""


def key_of(sequence: int, attempt: int) -> int:
    return sequence * ATTEMPTS + attempt


class RunLog:
    """The journal of one run.

    `tier_of` returns a task's current tier; `is_capped`, whether a task has a cap besides the capacity, or shares one
    with others; `excused`, whether a worker has died or stalled since a given time.
    """

    def __init__(
        self,
        agenda: Agenda,
        tier_of: Callable[[str], str],
        is_capped: Callable[[str], bool],
        excused: Callable[[str, int], bool],
    ) -> None:
        self.granted: list[Amount] = []
        self.sent: list[Amount] = []
        self.published: list[Amount] = []
        self.violations: list[Violation] = []
        self.blocked: defaultdict[str, set[str]] = defaultdict(set)
        """The reasons why a task may be granted nothing, by task."""
        self.counts: Counter[str] = Counter()
        """Granted targets by what became of them: used (sent), returned (given back in time), expired. And violations.
        """
        self.repeats = 0
        self.lease_calls = 0
        self.gaps = GapWatch()
        self._agenda = agenda
        self._tier_of = tier_of
        self._is_capped = is_capped
        self._excused = excused
        self._numbers: dict[str, int] = {}
        self._claimed: defaultdict[str, dict[int, _ClaimedEnvelope]] = defaultdict(dict)
        self._calls: defaultdict[str, dict[int, tuple[str, int]]] = defaultdict(dict)

    def violate(self, rule: str, what: str) -> None:
        self.counts[f"violation:{rule}"] += 1
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(Violation(rule, self._agenda.now_s, what))

    def publish(self, task: str, tier: str, targets: int, size: int) -> None:
        self.published.append(Amount(self._agenda.now_us, task, tier, targets, size))

    # ------------------------------------------------------------- the ledger
    def leased(self, request: LeaseRequest, answer: LeaseAnswer) -> None:
        """Record a call and its answer, at the moment the ledger gave it."""
        self.lease_calls += 1
        if not answer.ready or request.number <= self._numbers.get(request.worker, 0):
            return
        self._numbers[request.worker] = request.number
        for given in request.given_back:
            self._given_back(given)
        now_us = self._agenda.now_us
        claim = _Claim(request.claim, now_us + request.lease_ms * 1000, now_us + request.claim_ms * 1000)
        calls: defaultdict[str, TierCall] = defaultdict(TierCall)
        for ask, wants in zip(request.lanes, answer.lanes, strict=True):
            for want, pieces in zip(ask.wants, wants, strict=True):
                self._answered(calls, ask, want, pieces, claim)
        for wrong in self.gaps.called(now_us, calls):
            self.violate("gap", wrong)

    def _answered(
        self, calls: defaultdict[str, TierCall], ask: LaneAsk, want: Want, pieces: Sequence[StatusRun], claim: _Claim
    ) -> None:
        """Record the granted part of a want, and whether some of it was refused only because its tier had no credit."""
        first, granted, refused = want.first, 0, False
        for piece in pieces:
            if piece.status == GRANTED:
                self._granted(ask, want, first, piece.count, claim)
                granted += piece.count
            elif piece.status == NO_CREDIT:
                refused = True
            first += piece.count
        if first != want.first + want.count:
            self.violate("answer", f"{ask.lane}: {first - want.first} of {want.count} envelopes have an answer")
        waits = refused and not self._is_capped(want.task)
        if granted or waits:
            calls[self._paid_by(ask, want)].add(granted * want.size, want.size, waits=waits)

    def _paid_by(self, ask: LaneAsk, want: Want) -> str:
        """Return the tier whose credit pays for an envelope."""
        return ask.tier if ask.kind == RETRY else self._tier_of(want.task)

    def _granted(self, ask: LaneAsk, want: Want, first: int, count: int, claim: _Claim) -> None:
        task, now_us = want.task, self._agenda.now_us
        if self.blocked[task]:
            why = " and ".join(sorted(self.blocked[task]))
            self.violate("pause", f"{count} envelopes of {task} granted although: {why}")
        held = self._claimed[task]
        for sequence in range(first, first + count):
            key = key_of(sequence, want.attempt)
            before = held.get(key)
            if before is not None:
                self._again(task, sequence, before, claim)
            held[key] = _ClaimedEnvelope(claim, want.size)
        self.counts["granted"] += count * want.size
        self.granted.append(Amount(now_us, task, self._paid_by(ask, want), count * want.size, want.size))

    def _again(self, task: str, sequence: int, before: _ClaimedEnvelope, claim: _Claim) -> None:
        """Record the grant of an identity that was held before."""
        if before.claim.ends_us > self._agenda.now_us:
            self.violate(
                "one claim", f"{task} {sequence}: granted to {claim.name} while {before.claim.name} still holds it"
            )
        if not before.called:
            self.counts["expired"] += before.size

    def _given_back(self, given: GivenBack) -> None:
        held, targets = self._claimed[given.task], 0
        for sequence in range(given.first, given.first + given.count):
            key = key_of(sequence, given.attempt)
            entry = held.get(key)
            if entry is None or entry.claim.name != given.claim:
                continue
            if entry.called:
                self.violate("unused", f"{given.task} {sequence}: returned under {given.claim} though it was sent")
                continue
            del held[key]
            if self._agenda.now_us // 1000 < entry.claim.lease_ends_us // 1000:  # the ledger's clock has milliseconds
                targets += given.size
            else:
                self.counts["expired"] += given.size
        if targets:
            tier = self._tier_of(given.task)
            self.counts["returned"] += targets
            self.granted.append(Amount(self._agenda.now_us, given.task, tier, -targets, given.size))
            self.gaps.returned(tier, targets)

    # ------------------------------------------------------------- the provider
    def called(self, worker: str, batch: Batch) -> None:
        """Record the start of a provider call, and check that its envelopes were granted."""
        now_us = self._agenda.now_us
        sums: dict[str, int] = {}
        size = 0
        for delivery in batch.deliveries:
            envelope = delivery.envelope
            targets = len(envelope.targets)
            sums[envelope.task] = sums.get(envelope.task, 0) + targets
            size = max(size, targets)
            self._called_one(worker, batch.claim, envelope.task, envelope.sequence, envelope.attempt, targets)
        for task, targets in sums.items():
            self.sent.append(Amount(now_us, task, batch.tier, targets, size))

    def _called_one(self, worker: str, claim: str, task: str, sequence: int, attempt: int, targets: int) -> None:
        now_us, key = self._agenda.now_us, key_of(sequence, attempt)
        held = self._claimed[task].get(key)
        if held is None or held.claim.name != claim:
            self.violate("grant", f"{task} {sequence} attempt {attempt}: sent by {worker} without a grant")
        elif now_us >= held.claim.lease_ends_us:
            self.violate("use-by", f"{task} {sequence}: sent by {worker} after the use-by of {claim}")
        elif held.called:
            self.violate("grant", f"{task} {sequence}: sent twice under {claim}")
        elif held.size != targets:
            self.violate("whole envelopes", f"{task} {sequence}: {held.size} targets paid for, {targets} sent")
        else:
            held.called = True
            self.counts["used"] += targets
        earlier = self._calls[task].get(key)
        if earlier is not None:
            self._repeat(task, sequence, earlier)
        self._calls[task][key] = (worker, now_us)

    def _repeat(self, task: str, sequence: int, earlier: tuple[str, int]) -> None:
        worker, at_us = earlier
        self.repeats += 1
        if not self._excused(worker, at_us):
            self.violate(
                "repeat", f"{task} {sequence}: sent again, though {worker}, which sent it first, never stopped"
            )

    # ------------------------------------------------------------- the end
    def check_conservation(self, ledger_counts: Mapping[str, int], ledger_holds: int) -> None:
        """Check that granted = used + returned + expired + held, by the journal and by the ledger's own counts.

        `ledger_counts` are by kind and tier; `ledger_holds` is the number of targets under live claims.
        """
        counts = self.counts
        counts["held"] = sum(each.size for task in self._claimed.values() for each in task.values() if not each.called)
        accounted = sum(counts[kind] for kind in ("used", "returned", "expired", "held"))
        if counts["granted"] != accounted:
            self.violate("conservation", f"{counts['granted']} targets granted, {accounted} accounted for")
        totals: Counter[str] = Counter()
        for name, count in ledger_counts.items():
            totals[name.partition(":")[0]] += count
        for kind in ("granted", "returned"):
            if totals[kind] != counts[kind]:
                self.violate(
                    "conservation", f"the ledger counts {totals[kind]} targets {kind}, the journal {counts[kind]}"
                )
        accounted = totals["used"] + totals["returned"] + totals["expired"] + ledger_holds
        if totals["granted"] != accounted:
            self.violate("conservation", f"the ledger granted {totals['granted']} targets and accounts for {accounted}")
