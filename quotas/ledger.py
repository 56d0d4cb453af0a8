"""The ledger in Redis, which decides who may send now. One method per script."""

import logging
from collections.abc import Iterable, Mapping
from importlib.resources.abc import Traversable
from typing import Any

import msgspec

from backends.redis.client import lua_folder
from backends.redis.view import RedisView
from dispatcher.analysis.send_errors import SendError
from dispatcher.analysis.task_times import NO_PULSAR, PROVIDER
from dispatcher.model.errors import FairlaneError, Refused
from dispatcher.model.pools import CapState, cap_state
from dispatcher.wire.lease import (
    DUE_AGAIN_MS,
    SPARED_MS,
    Closable,
    LeaseAnswer,
    LeaseRequest,
    claim_name,
    decode_answer,
    encode,
)
from dispatcher.wire.outcome import Outcome
from dispatcher.wire.topics import Topics

PAGE = 200
"""Live tasks that one call scans for closable ones; Redis serves no other client during these few milliseconds."""
MAX_CLAIMS = 400
"""Maximum claims that one call scans; a claim of twenty runs takes 25 us of Redis' time."""
SWEEP = "sweep"
"""Name of the worker that claims envelopes whose claim was lost."""
MAX_LOST = 5_000
"""Maximum envelopes per task that one sweep claims after a lost claim; one call handles up to 1,000."""
_log = logging.getLogger(__name__)
_encode = msgspec.msgpack.Encoder().encode


class RedisLedger:
    """Implements dispatcher.ports.Ledger. Methods raise Unreachable when Redis is gone; the call may be repeated."""

    def __init__(self, view: RedisView, topics: Topics, folder: Traversable | None = None) -> None:
        """`folder` holds the scripts; the default is this package's."""
        self._scripts = view.scripts.of(folder or lua_folder("quotas"))
        self._view = view
        self._prefix = view.keys.prefix
        self._topics = topics

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        """Return the envelopes that the worker may send. Repeating a request's number returns the same answer; raises
        Refused for a lower number."""
        answer = self._call("lease", encode(request))
        if isinstance(answer, int):
            raise Refused(
                f"Worker {request.worker} sent request {request.number} after request {answer}.",
                "Give each worker process an id of its own.",
            )
        try:
            return decode_answer(answer)
        except msgspec.MsgspecError as error:
            raise FairlaneError(f"The ledger's answer cannot be read: {error}.", "Report this as a defect.") from error

    def slow_flow(self, channel: str, app: str, for_ms: int) -> bool:
        """Halve the caps that only this app on the channel, or its quota group, draws from, for at least this time.

        Return whether there is one. A repeat within the time changes nothing.
        """
        return bool(self._call("slow_flow", channel, app, for_ms))

    def due_claims(self) -> dict[int, list[str]]:
        """Return overdue claims, grouped by outcome partition, to be written into ClaimsEnded records.

        A claim is not returned again for a few seconds. Claims of workers that are still alive become overdue later.
        """
        due: dict[int, list[str]] = {}
        for name in self._call("due_claims", MAX_CLAIMS, DUE_AGAIN_MS, SPARED_MS):
            member = name.decode()
            due.setdefault(self._topics.partition_of(member.partition("|")[2]), []).append(member)
        return due

    def now_ms(self) -> int:
        """Return Redis' time."""
        return self._view.now_ms()

    def lengthen_claims(self, step_ms: int) -> None:
        """Lengthen claims that were live before Redis' clock was set forward by step_ms."""
        self._call("lengthen_claims", step_ms)

    def claim_lost(self) -> int:
        """Claim envelopes that are marked as claimed but whose claim was deleted. Return their number.

        Their outcomes may be on their way. So they are granted again only after the new claim has ended, like the
        envelopes of a dead worker.
        """
        name, claimed, index = claim_name(SWEEP, self._view.now_ms()), 0, 0
        while True:
            scanned, *tasks = self._call("unclaimed", index, PAGE)
            claimed += sum(self._claim_lost_of(task, name) for task in tasks)
            index += scanned
            if not scanned:
                break
        if claimed:
            _log.warning(
                "%d envelopes were marked as claimed but belong to no claim: another program deleted keys of the view",
                claimed,
            )
        return claimed

    def _claim_lost_of(self, task: bytes, name: str) -> int:
        """Claim up to MAX_LOST envelopes of one task; the next sweep finds any others."""
        claimed, next_key = 0, b""
        while claimed < MAX_LOST:
            next_key, count = self._call("claim_lost", task, name, next_key)
            claimed += count
            if not next_key:
                break
        return claimed

    def closable(self) -> list[Closable]:
        """Return the tasks whose open targets can be closed, with their outcome: cancelled, stopped or expired tasks
        without live claims, and tasks that an operator closed, with or without claims."""
        closable: list[Closable] = []
        first, scanned = 0, PAGE
        while scanned == PAGE:
            scanned, *rows = self._call("closable", first, PAGE)
            closable += [
                Closable(
                    task.decode(), int(Outcome[outcome.decode().upper()]), reason.decode(), bool(closed), bool(waits)
                )
                for task, outcome, reason, closed, waits in rows
            ]
            first += scanned
        return closable

    def note_sends(
        self, errors: Mapping[str, SendError], waits: Mapping[str, int], unrecorded: Mapping[str, int] = {}
    ) -> None:
        """Store a worker's send errors and waits in the view.

        `errors` are those since the last call, by task. `waits` is how long (ms) the oldest envelope of each task has
        been in its channel, `unrecorded` how long its oldest outcome has waited to be stored.
        """
        rows = [(task, *msgspec.structs.astuple(error)) for task, error in errors.items()]
        causes = {PROVIDER: waits, NO_PULSAR: unrecorded}
        waiting = [(task, ms, cause) for cause, tasks in causes.items() for task, ms in tasks.items()]
        self._call("note_sends", _encode(rows), _encode(waiting))

    def _call(self, name: str, *args: str | bytes | int) -> Any:
        return self._scripts.call(name, [self._prefix], args)


def read_cap_states(view: RedisView, pools: Iterable[str], folder: Traversable | None = None) -> dict[str, CapState]:
    """Return the state of each pool's cap. Raises Unreachable. `folder` holds the scripts; the default is this
    package's."""
    names = sorted(pools)
    if not names:
        return {}
    rows = view.scripts.of(folder or lua_folder("quotas")).call("cap_states", [view.keys.prefix], names)[1:]
    return {
        name: cap_state(part, slow_until_ms, grown_ms, ramp_end_ms, rests=rests == 1)
        for name, (part, slow_until_ms, grown_ms, ramp_end_ms, rests) in zip(names, rows, strict=True)
    }
