"""The ledger in Redis, which decides who may send now. One method per script."""

import logging
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import Any

import msgspec

from backends.redis.client import lua_folder
from backends.redis.view import RedisView
from dispatcher.analysis.send_errors import SendError
from dispatcher.model.errors import FairlaneError, Refused
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
MOST_CLAIMS = 400
"""Maximum number of claims that one call scans; a claim of twenty runs takes 25 us of Redis' time."""
SWEEP = "sweep"
"""Name of the worker that claims envelopes whose claim was lost."""
MAX_LOST = 5_000
"""Maximum number of envelopes per task that one sweep claims after a lost claim; one call handles up to 1,000."""
_log = logging.getLogger(__name__)
_encode = msgspec.msgpack.Encoder().encode


class RedisLedger:
    """Implements dispatcher.ports.Ledger. Methods raise Unreachable when Redis is gone; the call may be repeated."""

    def __init__(self, view: RedisView, topics: Topics, folder: Traversable | None = None) -> None:
        """folder: holds the scripts; default: this package's."""
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

    def due_claims(self, limit: int = MOST_CLAIMS) -> dict[int, list[str]]:
        """Return overdue claims by outcome partition, for a ClaimsEnded record. Each is returned again only after a few
        seconds. Claims of a live worker are returned later than others."""
        due: dict[int, list[str]] = {}
        for name in self._call("due_claims", limit, DUE_AGAIN_MS, SPARED_MS):
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
        """Claim envelopes that are marked as claimed but whose claim was deleted; return their number.

        They may be granted again once the new claim has ended, like that of a dead worker, since their outcome may be
        on its way.
        """
        name, found, index = claim_name(SWEEP, self._view.now_ms()), 0, 0
        while True:
            looked_at, *tasks = self._call("unclaimed", index, PAGE)
            found += sum(self._claim_lost_of(task, name) for task in tasks)
            index += looked_at
            if not looked_at:
                break
        if found:
            _log.warning(
                "%d envelopes were marked as claimed but belong to no claim: another program deleted keys of the view",
                found,
            )
        return found

    def _claim_lost_of(self, task: bytes, name: str) -> int:
        """Claim up to MAX_LOST envelopes of one task; the next sweep finds any others."""
        found, goes_on = 0, b""
        while found < MAX_LOST:
            goes_on, claimed = self._call("claim_lost", task, name, goes_on)
            found += claimed
            if not goes_on:
                break
        return found

    def closable(self) -> list[Closable]:
        """Return tasks that are cancelled, stopped or expired and have no live claims, with the outcome for their open
        targets; and tasks that an operator closed, with or without claims."""
        found: list[Closable] = []
        first, looked_at = 0, PAGE
        while looked_at == PAGE:
            looked_at, *rows = self._call("closable", first, PAGE)
            found += [
                Closable(
                    task.decode(), int(Outcome[outcome.decode().upper()]), reason.decode(), bool(closed), bool(waits)
                )
                for task, outcome, reason, closed, waits in rows
            ]
            first += looked_at
        return found

    def note_sends(self, errors: Mapping[str, SendError], waits: Mapping[str, int]) -> None:
        """Store errors and waits of a worker's sends. errors: by task, since the last call. waits: by task, how long
        (ms) some of its envelopes have been in the channel."""
        rows = [(task, *msgspec.structs.astuple(error)) for task, error in errors.items()]
        self._call("note_sends", _encode(rows), _encode(list(waits.items())))

    def _call(self, name: str, *args: str | bytes | int) -> Any:
        return self._scripts.call(name, [self._prefix], args)
