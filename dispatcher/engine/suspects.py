"""Find the envelope at fault in a lease call or an outcome record that could not be carried out."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dispatcher.engine.buffers import LaneBuffer
from dispatcher.engine.lanes import WorkingSet
from dispatcher.engine.runs import EnvelopeRun
from dispatcher.engine.stats import EngineStats
from dispatcher.settle import Draft
from dispatcher.verdicts import error_text
from dispatcher.wire.lease import GivenBack
from dispatcher.wire.outcome import Report, Verdict, sound_text

Result = Sequence[Report] | int
"""A report for each envelope of a run, or the outcome of all its targets."""
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class SuspectGroup:
    """Envelopes and returned credit that were in one call."""

    parts: list[tuple[LaneBuffer, EnvelopeRun]]
    given_back: list[GivenBack]

    @property
    def is_single(self) -> bool:
        return sum(part.count for _, part in self.parts) + len(self.given_back) == 1

    def halves(self) -> tuple["SuspectGroup", "SuspectGroup"]:
        """Split the group in two: envelopes and returned credit if it has both, else two halves of what it has."""
        if self.parts and self.given_back:
            return SuspectGroup([], self.given_back), SuspectGroup(self.parts, [])
        if len(self.parts) == 1:
            lane, part = self.parts[0]
            return SuspectGroup([(lane, part.take(part.count // 2))], []), SuspectGroup([(lane, part)], [])
        parts, given_back = len(self.parts) // 2, len(self.given_back) // 2
        return (
            SuspectGroup(self.parts[:parts], self.given_back[:given_back]),
            SuspectGroup(self.parts[parts:], self.given_back[given_back:]),
        )


class Suspects:
    """Groups of envelopes and returned credit whose ledger call failed, asked about again in calls of their own. A call
    is repeated in halves, until one item is left.

    After a call that failed, an empty call is made. If that fails too, the ledger is at fault, and everything returns
    to its lane. Otherwise the group is split in half. An item that fails alone is given up: an envelope is set apart,
    and returned credit is forgotten (its claim expires by itself). Envelopes in a group count as held.
    """

    def __init__(
        self, working: WorkingSet, set_apart: Callable[[LaneBuffer, EnvelopeRun, str], None], stats: EngineStats
    ) -> None:
        """set_apart: settles an envelope without what cannot be read of it, for a reason."""
        self._working = working
        self._set_apart = set_apart
        self._stats = stats
        self._groups: deque[SuspectGroup] = deque()
        self._accused: SuspectGroup | None = None
        self._reason = ""

    @property
    def waiting(self) -> bool:
        """Whether there is a group to ask about, so that `take` must be called."""
        return self._accused is not None or bool(self._groups)

    @property
    def given_back(self) -> bool:
        """Return whether returned credit still has to reach the ledger."""
        groups = self._groups if self._accused is None else (*self._groups, self._accused)
        return any(group.given_back for group in groups)

    def accuse(self, asked: Sequence[LaneBuffer], given_back: list[GivenBack], error: Exception) -> None:
        """Take the content of a failed call. Then call `acquit` or `judge` with the result of the next call."""
        if not self.waiting:
            _log.error("The ledger cannot carry out a call; its requests are retried in two halves. %s", error)
        self._reason = sound_text(error)
        parts = []
        for lane in asked:
            for part in lane.end_call():
                if lane.closing:
                    lane.drop(part)
                else:
                    lane.hold(part)
                    parts.append((lane, part))
            self._working.detach_if_done(lane)
        if self._accused is not None:
            self._groups.append(self._accused)
        self._accused = SuspectGroup(parts, given_back) if parts or given_back else None

    def judge(self) -> None:
        """Split the accused group in half, or give its only item up: an empty call succeeded, so the group caused the
        failure."""
        accused, self._accused = self._accused, None
        if accused is None:
            return
        if accused.is_single:
            self._give_up(accused)
        else:
            self._groups.extendleft(reversed(accused.halves()))

    def acquit(self) -> None:
        """Return everything to its lane: the ledger is at fault, or its view is not ready."""
        groups = [*self._groups] if self._accused is None else [self._accused, *self._groups]
        self._groups.clear()
        self._accused = None
        for group in reversed(groups):
            self._working.given_back += group.given_back
            for lane, part in reversed(group.parts):
                if not lane.closing:
                    lane.put_back(part)
                    self._working.note(lane, wake=False)

    def take(self) -> SuspectGroup:
        """Return the next group to ask about, or an empty one if a group is accused."""
        if self._accused is not None or not self._groups:
            return SuspectGroup([], [])
        group = self._groups.popleft()
        parts = [(lane, part) for lane, part in group.parts if not lane.closing]
        for lane, part in parts:
            lane.ask_again(part)
        return SuspectGroup(parts, group.given_back)

    def _give_up(self, single: SuspectGroup) -> None:
        for given in single.given_back:
            self._stats.given_back_refused += 1
            _log.error("The ledger does not accept returned credit, which is dropped: %s. %s", given, self._reason)
        for lane, part in single.parts:
            if not lane.closing:
                self._working.take_out(lane, part)
                self._set_apart(lane, part, self._reason)


class SetApart(NamedTuple):
    """An envelope that cannot be read or settled."""

    part: EnvelopeRun
    reason: str
    report: Report | None
    """The answer of its provider, or the outcome of all its targets."""


@dataclass(slots=True, eq=False)
class OpenRecord:
    """Outcomes of one task from one lane under one claim, collected for one record."""

    lane: LaneBuffer
    draft: Draft
    since_s: float
    due_s: float
    results: list[tuple[EnvelopeRun, Result]] = field(default_factory=list)
    """The results in the draft."""
    apart: SetApart | None = None
    """Its only envelope, if that was set apart."""

    def add(self, part: EnvelopeRun, result: Result, at_ms: int) -> None:
        """Add outcomes to the draft. Raises whatever an envelope makes it raise; nothing may be added any more then."""
        self.results.append((part, result))
        if isinstance(result, int):
            self.draft.add_all(part, result)
        elif self.apart is not None:
            self.draft.set_apart(part, self.apart.report, f"set apart: {self.apart.reason}", at_ms)
        else:
            self.draft.add(part, result, at_ms)


class RecordSuspects:
    """Envelopes of a record that could not be carried out, each settled in a record of its own.

    One that cannot be settled alone is set apart: what its provider answered for good is recorded, and its other
    targets fail. If that cannot be settled either, all of them fail.
    """

    def __init__(
        self,
        settle_alone: Callable[[LaneBuffer, EnvelopeRun, Result, SetApart | None], None],
        leave: Callable[[LaneBuffer, EnvelopeRun], None],
        stats: EngineStats,
    ) -> None:
        """settle_alone: settles an envelope in a record of its own. leave: leaves it in its lane."""
        self._settle_alone = settle_alone
        self._leave = leave
        self._stats = stats

    def accuse(self, record: OpenRecord, error: Exception) -> None:
        """Settle the envelopes of a record one by one."""
        if record.apart is not None:
            self._accuse_again(record.lane, record.apart, error)
            return
        pieces = [
            (part.take(1), result if isinstance(result, int) else result[index : index + 1])
            for part, result in record.results
            for index in range(part.count)
        ]
        for part, result in pieces:
            if len(pieces) > 1:
                self._settle_alone(record.lane, part, result, None)
            else:
                report = Report(Verdict(result)) if isinstance(result, int) else result[0]
                self.set_apart(record.lane, SetApart(part, error_text(error), report))

    def set_apart(self, lane: LaneBuffer, apart: SetApart) -> None:
        """Settle an envelope, which is counted as unsettled, without what cannot be read or settled of it."""
        part = apart.part
        self._stats.set_apart += 1
        _log.error("Envelope %d of task %s (lane %s) is set apart: %s", part.first, part.task, lane.name, apart.reason)
        self._settle_alone(lane, part, [], apart)

    def _accuse_again(self, lane: LaneBuffer, apart: SetApart, error: Exception) -> None:
        if apart.report is not None:
            self._settle_alone(lane, apart.part, [], apart._replace(report=None))
            return
        _log.error(
            "The outcomes of envelope %d of task %s (lane %s) cannot be recorded; it stays in the lane. "
            "This is a bug in Fairlane; please report it.",
            apart.part.first,
            apart.part.task,
            lane.name,
            exc_info=error,
        )
        self._leave(lane, apart.part)
