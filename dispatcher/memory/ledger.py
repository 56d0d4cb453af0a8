"""The ledger in memory: the reference for the one in Redis, and the one unit tests use."""

from dispatcher.errors import Refused
from dispatcher.lease import (
    ALIVE_MS,
    DUE_AGAIN_MS,
    SPARED_MS,
    Closable,
    LeaseAnswer,
    LeaseRequest,
    Piece,
    Status,
    worker_of,
)
from dispatcher.memory import claims
from dispatcher.memory.lease_call import LeaseCall
from dispatcher.memory.view import MemoryTask, MemoryView
from dispatcher.outcome import Outcome
from dispatcher.tier import TIERS


class MemoryLedger:
    """Implements dispatcher.ports.Ledger over a MemoryView."""

    def __init__(self, view: MemoryView) -> None:
        self.view = view

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        """Raises Refused for a number below the worker's last one."""
        last = self.view.calls.get(request.worker)
        if last is not None and request.number == last.number:
            return last
        if last is not None and request.number < last.number:
            raise Refused(
                f"Worker {request.worker} asks with number {request.number} after {last.number}.",
                "Give each worker process an id of its own.",
            )
        if not self.view.grants:
            held = [[[Piece(Status.HELD, want.count)] for want in ask.wants] for ask in request.lanes]
            return self._answer(request, False, held)
        self.view.epoch.claim_ms = max(self.view.epoch.claim_ms, request.claim_ms)
        answer = self._answer(request, True, LeaseCall(self.view, request).run())
        self.view.calls[request.worker] = answer
        return answer

    def _answer(self, request: LeaseRequest, ready: bool, lanes: list[list[list[Piece]]]) -> LeaseAnswer:
        weights = [self.view.tier_weights[tier] for tier in TIERS]
        return LeaseAnswer(request.number, ready, lanes, self.view.capacity, weights, self.view.now_ms())

    def due_claims(self, limit: int = 1_000) -> dict[int, list[str]]:
        """Claims past their end by outcome partition, for a ClaimsEnded record; each is named again only after a few
        seconds, and those of a worker that is alive at first not at all."""
        now = self.view.now_ms()
        due: dict[int, list[str]] = {}
        past = sorted((end, name) for name, end in self.view.due.items() if end <= now)
        for _, name in past[:limit]:
            self.view.due[name] = now + DUE_AGAIN_MS
            if self._is_spared(name, now):
                continue
            due.setdefault(self.view.topics.partition_of(claims.task_of(name)), []).append(name)
        return due

    def now_ms(self) -> int:
        return self.view.now_ms()

    def lengthen_claims(self, step_ms: int) -> None:
        """Lengthen claims that were live before the clock was set forward by this much."""
        now = self.view.now_ms()
        for name, claim in self.view.claims.items():
            more = min(step_ms, now + self.view.epoch.claim_ms - claim.end_ms)
            if claim.end_ms > now - step_ms and more > 0:
                claim.end_ms += more
                claim.lease_end_ms += more
                self.view.due[name] = claim.end_ms

    def _is_spared(self, name: str, now_ms: int) -> bool:
        """Its worker is alive: it knows what became of the claim, and says so once Pulsar stores records again."""
        seen_ms = self.view.beats.get(worker_of(name), -ALIVE_MS)
        return now_ms <= seen_ms + ALIVE_MS and now_ms < self.view.claims[name].end_ms + SPARED_MS

    def closable(self) -> list[Closable]:
        """Return tasks that are cancelled, stopped or expired and have no live claims, with the outcome of their open
        targets."""
        found = ((task, self._closing_code(task)) for task in self.view.tasks.values())
        return [
            Closable(task.id, code, "" if task.cancelled else task.stopped) for task, code in found if code is not None
        ]

    def _closing_code(self, task: MemoryTask) -> int | None:
        record = task.record
        if record is None or task.ended or task.claims:
            return None
        if task.sealed and task.finals >= task.total:
            return None
        if task.called_off:
            return int(Outcome.CANCELLED)
        return int(Outcome.EXPIRED) if 0 < record.expires_ms <= self.view.now_ms() else None
