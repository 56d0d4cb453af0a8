"""The settle rules that can be left out, each by a patch of the real code, to see that it is missed.

Two rules are not of the engine or the ledger; the exploration itself leaves these out (Variant.broken in upkeep.py).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from dispatcher.engine_leases import Leases
from dispatcher.engine_settling import Settling
from dispatcher.events import Stored
from dispatcher.lease import Status
from dispatcher.memory import claims, lease_call, verdicts
from dispatcher.memory.fold import MemoryFold
from dispatcher.memory.ledger import MemoryLedger
from dispatcher.memory.verdicts import GRANTABLE, Segment

EARLY_MARK = "nothing is granted while claims of a lost view may last"
EARLY_WORD = "a cancel is acknowledged once the view holds it"

_advance, _lease, _due_claims = Settling._advance, MemoryLedger.lease, MemoryLedger.due_claims
_envelope, _verdict, _writer, _claimed = MemoryFold._envelope, verdicts.verdict, verdicts._writer, verdicts._claimed
_gate = verdicts.gate


def _acks_at_once(self: Any, job: Any) -> None:
    acks, job.acks = job.acks, []
    self._working.ack(job.lane, acks, 0)
    _advance(self, job)


def _acks_before_the_next_attempt(self: Any, job: Any) -> None:
    last_is_left = job.plan is not None and len(job.steps) == 1 and job.plan.next_attempts
    (_acks_at_once if last_is_left else _advance)(self, job)


def _believes(self: Any, token: int, receipt: Any) -> None:
    self.stored(Stored(token, None))


def _sends_nothing_again(self: Any, lane: Any, part: Any, piece: Any) -> None:
    self.dropped(lane, part)


def _forgets_what_it_asked_for(self: Any, asked: Any) -> None:
    for lane in asked:
        lane.asked, lane.asked_targets = [], 0


def _frees_at_once(self: Any) -> Any:
    found = _due_claims(self)
    for members in found.values():
        for member in members:
            MemoryFold(self.view)._end_claim(member)
    return found


def _counts_again(self: Any, task: Any, mixed: Any) -> None:
    task.finals_of(mixed.writer).discard(mixed.sequence)
    _envelope(self, task, mixed)


def _frees_claims_of_the_caller(self: Any, request: Any) -> Any:
    view = self.view
    for member in [member for member in view.claims if member.startswith(f"{request.worker}.")]:
        for run in view.claims[member].runs:
            claims.free(view.task(claims.task_of(member)), run, member.partition("|")[0])
        claims.close_claim(view, member)
    return _lease(self, request)


def _grants_what_is_final(*given: Any) -> Segment:
    found, task = _verdict(*given), given[1]
    if found.status == Status.DROP and not (task.ended or task.closed):
        found.status = GRANTABLE
    return found


def _moves_what_is_over(view: Any, task: Any, lane: str, want: Any, sequence: int) -> Segment:
    moved = want.attempt == 0 and task.record is not None and not task.record.shared and task.record.lane != lane
    if moved:
        return Segment(Status.MOVE, want, sequence, 1, lane=task.record.lane)
    return _verdict(view, task, lane, want, sequence)


def _passes_what_is_paused(view: Any, task: Any, lane: str) -> tuple[int, str]:
    paused, task.paused = task.paused, False
    found = _gate(view, task, lane)
    task.paused = paused
    return found


def _holds_next_attempts_only(task: Any, envelope: Any, want: Any, sequence: int) -> bool:
    return want.attempt > 0 and _claimed(task, envelope, want, sequence)


def _drops_undecided(task: Any, writer: str) -> Status | None:
    found = _writer(task, writer)
    return Status.DROP if found == Status.HELD else found


_PATCHES: Mapping[str, tuple[Any, str, Callable[..., Any]]] = {
    "the record is stored before the ack": (Settling, "_advance", _acks_at_once),
    "the next attempt is stored before the ack": (Settling, "_advance", _acks_before_the_next_attempt),
    "what has no receipt is stored again": (Settling, "_again", _believes),
    "recorded with open targets: the next attempt is published again": (Settling, "recorded", _sends_nothing_again),
    "what was asked for is kept while the view is not ready": (Leases, "_back_to_lanes", _forgets_what_it_asked_for),
    "an ended claim is freed by the fold only": (MemoryLedger, "due_claims", _frees_at_once),
    "the first final outcome counts": (MemoryFold, "_envelope", _counts_again),
    "a claim is one delivery's, not a worker's": (MemoryLedger, "lease", _frees_claims_of_the_caller),
    "what is claimed is held": (verdicts, "_claimed", _holds_next_attempts_only),
    "what is final is dropped": (lease_call, "verdict", _grants_what_is_final),
    "the tombstone is looked at before a move": (lease_call, "verdict", _moves_what_is_over),
    "a pause spends nothing": (verdicts, "gate", _passes_what_is_paused),
    "a writer is dropped only if the seal leaves it out": (verdicts, "_writer", _drops_undecided),
    "nothing is sent past its use-by": ("tests.exploration.machine", "is_ahead", lambda *_: True),
}


@contextmanager
def left_out(rule: str) -> Iterator[None]:
    """Without this rule; with all if it is empty."""
    found = _PATCHES.get(rule)
    if found is None:
        assert rule in ("", EARLY_MARK, EARLY_WORD), rule
        yield
        return
    where, name, instead = found
    target = patch(f"{where}.{name}", instead) if isinstance(where, str) else patch.object(where, name, instead)
    with target:
        yield
