"""The result of a run, for people and as JSON."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from benchmarks.nemesis.checker import Case, CheckResult, Fault
from benchmarks.nemesis.evidence import Submissions

EXAMPLES = 10


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of a run."""

    seed: int
    seconds: float
    verdict: CheckResult
    faults: list[Fault]
    failed: list[str]
    """Faults that could not be applied."""
    submissions: Submissions
    ended: dict[str, int]
    """Workers and submitters that ended without being killed."""

    @property
    def holds(self) -> bool:
        """Return whether no law was broken and every submission completed.

        That is, no target was lost, left open or called twice without a reason.
        """
        return self.verdict.holds and not self.submissions.open

    def document(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "benchmark": "nemesis",
            "seed": self.seed,
            "seconds": self.seconds,
            "holds": self.holds,
            "accepted": verdict.accepted,
            "tasks": len(self.submissions.accepted),
            "calls": verdict.calls,
            "lost": _cases(verdict.lost),
            "never_ended": _cases(verdict.never_ended),
            "twice_and_excused": _cases(verdict.excused),
            "excused_by": dict(Counter(case.fault.kind for case in verdict.excused if case.fault)),
            "twice_and_not_excused": _cases(verdict.not_excused),
            "never_confirmed": self.submissions.open,
            "submissions_repeated": self.submissions.failed,
            "faults": dict(Counter(fault.kind for fault in self.faults)),
            "faults_not_applied": self.failed,
            "ended_by_themselves": self.ended,
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return the figures alone."""
        document = self.document()
        counts = ("lost", "never_ended", "twice_and_excused", "twice_and_not_excused")
        return [
            *({"figure": name, "value": document[name]} for name in ("accepted", "tasks", "calls")),
            *({"figure": name, "value": document[name]["count"]} for name in counts),
            {"figure": "never_confirmed", "value": len(self.submissions.open)},
            {"figure": "faults", "value": len(self.faults)},
        ]

    def examples(self) -> Iterator[str]:
        """Yield lines about targets that break a law."""
        verdict = self.verdict
        broken = (
            ("lost", verdict.lost),
            ("never ended", verdict.never_ended),
            ("twice and not excused", verdict.not_excused),
        )
        for name, cases in broken:
            yield from (f"{name}: {_text(case)}" for case in cases[:EXAMPLES])


def _text(case: Case) -> str:
    """Return a case in one line; times are wall-clock times."""
    calls = ", ".join(f"{call.worker} at {_clock(call.at_ms)}" for call in case.calls) or "nobody"
    fault = case.fault
    near = f"{fault.kind} {fault.worker or fault.what}, {_clock(fault.from_ms)}" if fault else "none"
    return f"{case.target}: {case.why}; called by {calls}; nearest fault: {near}"


def _clock(at_ms: float) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%H:%M:%S.%f")[:-3]


def _cases(cases: list[Case]) -> dict[str, Any]:
    return {"count": len(cases), "examples": [_case(case) for case in cases[:EXAMPLES]]}


def _case(case: Case) -> dict[str, Any]:
    """Return a target, who called it and when, what was recorded, and the nearest fault."""
    return {
        "task": case.task,
        "target": case.target,
        "why": case.why,
        "calls": [{"worker": call.worker, "attempt": call.attempt, "at_ms": call.at_ms} for call in case.calls],
        "records": [
            dict(zip(("worker", "attempt", "code", "stored_ms"), record, strict=True)) for record in case.records
        ],
        "nearest_fault": case.fault._asdict() if case.fault else None,
    }
