"""Carry out the plans of settle.py in order. Each step starts once the one before is stored; the ack comes last."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from dispatcher.engine.buffers import LaneBuffer
from dispatcher.engine.events import Stored
from dispatcher.engine.lanes import WorkingSet
from dispatcher.engine.runs import EnvelopeRun
from dispatcher.engine.shared import EnginePart, Shared
from dispatcher.engine.stats import LateRecords, UnrecordedOutcomes
from dispatcher.engine.suspects import OpenRecord, RecordSuspects, Result, SetApart
from dispatcher.model.errors import FairlaneError, Malformed, NotFound
from dispatcher.ports import DeadLetter, Delivery, Done
from dispatcher.rounds import retry_wait
from dispatcher.settle import Draft, encoded_or_name, letter_of
from dispatcher.wire.envelope import MAX_CHUNK, Envelope, encode_envelope
from dispatcher.wire.lease import StatusRun
from dispatcher.wire.outcome import ALL_SENT, Outcomes, Report, reads_back

Publish = Callable[[Done], None]


@dataclass(slots=True, eq=False)
class _Job:
    """The remaining steps for some deliveries of one lane."""

    lane: LaneBuffer
    task: str
    steps: list[list[Publish]]
    acks: list[Delivery]
    targets: int
    refused: EnvelopeRun | None = None
    """The run to ask the ledger about again if a step is impossible."""
    pending: int = 0
    """Unstored things of the current step."""
    draft: Draft | None = None
    record: Publish | None = None
    """The step that stores the outcomes."""
    source: OpenRecord | None = None
    """The outcomes in the record, until it may be stored."""
    is_abandoned: bool = False
    """Whether its envelopes are settled by other jobs."""
    sent_s: float = 0.0


@dataclass(slots=True, eq=False)
class _Receipt:
    """One published thing whose receipt is awaited."""

    job: _Job
    publish: Publish
    wait_s: float = 0.0


class Settling(EnginePart):
    """Settles envelopes that were sent, or need no sending. Deliveries passed to it count as out of their lane."""

    def __init__(self, shared: Shared, working: WorkingSet) -> None:
        super().__init__(shared)
        self._working = working
        self._errors = shared.errors
        self._open_records: dict[tuple[str, str, str, str], OpenRecord] = {}
        self._receipts: dict[int, _Receipt] = {}
        self._unrecorded = UnrecordedOutcomes()
        self._suspects = RecordSuspects(self._settle_alone, self._leave, shared.stats)
        self._token = 0
        # A run may have many envelopes, and a record that names all their targets may exceed the size of a message.
        settings = shared.settings
        self._closed_targets = MAX_CHUNK if settings.named_targets == "all" else settings.settle_envelopes * MAX_CHUNK

    # ------------------------------------------------------------- results of a send
    def reported(self, lane: LaneBuffer, part: EnvelopeRun, reports: Sequence[Report]) -> None:
        """Record the channel's report on each envelope of `part`."""
        if reports.count(ALL_SENT) == len(reports):
            self._report(lane, part, reports)
            return
        # One by one if targets may be named: a record has room for those of one envelope beyond its limit.
        for report in reports:
            self._report(lane, part.take(1), [report])

    def _report(self, lane: LaneBuffer, part: EnvelopeRun, reports: Sequence[Report]) -> None:
        open_record = self._open_record_of(lane, part)
        self._count_unsettled(part.task, part.targets)
        self._add(open_record, part, reports)

    def closed(self, lane: LaneBuffer, part: EnvelopeRun, code: int) -> None:
        """Settle envelopes claimed without a lease: all targets get the outcome `code` (cancelled, expired)."""
        is_last = False
        while not is_last:
            piece = part.take(min(self._settings.settle_envelopes, max(1, self._closed_targets // max(1, part.size))))
            is_last = piece is part
            open_record = self._open_record_of(lane, piece)
            self._count_unsettled(piece.task, piece.targets)
            self._add(open_record, piece, code)

    def _add(self, open_record: OpenRecord, part: EnvelopeRun, result: Result) -> None:
        """Add outcomes to an open record, and settle it if it is full."""
        try:
            open_record.add(part, result, self._clock.wall_ms())
        except Exception as error:
            self._close_record(open_record)
            self._suspect(open_record, error)
        else:
            self._start_if_full(open_record)

    def flush(self, now_s: float, *, everything: bool = False) -> None:
        """Write the records whose outcomes have been collected for long enough."""
        while self._open_records:
            key, open_record = next(iter(self._open_records.items()))
            if open_record.due_s > now_s and not everything:
                return
            del self._open_records[key]
            self._settle(open_record)

    @property
    def next_s(self) -> float | None:
        """Return when `flush` must be called next; None if nothing waits."""
        return next((record.due_s for record in self._open_records.values()), None)

    def _open_record_of(self, lane: LaneBuffer, part: EnvelopeRun) -> OpenRecord:
        key = (lane.name, part.task, part.claim, part.channel)
        open_record = self._open_records.get(key)
        if open_record is not None and len(open_record.draft.acks) + part.count > self._settings.settle_envelopes:
            self._settle(self._open_records.pop(key))
            open_record = None
        if open_record is None:
            open_record = self._open_records[key] = self._new_record(lane, part)
        return open_record

    def _new_record(self, lane: LaneBuffer, part: EnvelopeRun) -> OpenRecord:
        app = part.deliveries[0].envelope.app
        draft = Draft(part.task, part.claim, part.channel, app, self._settings.named_targets)
        now_s = self._clock.monotonic_s()
        self._unrecorded.add(draft, now_s)
        return OpenRecord(lane, draft, now_s, now_s + self._settings.settle_linger_s)

    def _settle_alone(self, lane: LaneBuffer, part: EnvelopeRun, result: Result, apart: SetApart | None) -> None:
        """Settle one envelope, which is counted as unsettled, in a record of its own."""
        open_record = self._new_record(lane, part)
        open_record.apart = apart
        try:
            open_record.add(part, result, self._clock.wall_ms())
        except Exception as error:
            self._suspect(open_record, error)
        else:
            self._settle(open_record)

    def _close_record(self, open_record: OpenRecord) -> None:
        record = open_record.draft.record
        del self._open_records[open_record.lane.name, record.task, record.claim, record.channel]

    def _start_if_full(self, open_record: OpenRecord) -> None:
        draft, settings = open_record.draft, self._settings
        if len(draft.acks) >= settings.settle_envelopes or draft.named_characters >= settings.settle_named_characters:
            self._close_record(open_record)
            self._settle(open_record)

    def _settle(self, open_record: OpenRecord) -> None:
        try:
            job = self._job_of(open_record)
        except Exception as error:
            self._suspect(open_record, error)
            return
        draft = open_record.draft
        if draft.error is not None:
            self._errors.note(draft.task, draft.record.channel, draft.error)
        self._advance(job)

    def _job_of(self, open_record: OpenRecord) -> _Job:
        """Return the steps for the outcomes. Raises whatever one of its envelopes makes an encoder raise."""
        ports, lane = self._ports, open_record.lane
        draft = open_record.draft.finish(self._clock.wall_ms())
        if (stored := _readable(draft.record)) is None:
            raise Malformed("No reader could take its outcome record.")
        again: list[Publish] = []
        for delay_s, envelopes in draft.next_attempts.items():
            for envelope in envelopes:
                encode_envelope(envelope)
            again.append(partial(ports.publisher.publish, ports.topics.retry_lane(lane.tier, delay_s), envelopes))
        letters: list[Publish] = [partial(ports.dead_letters.publish, letter) for letter in draft.letters]
        record: Publish = partial(ports.outcomes.publish, draft.task, stored)
        return _Job(
            lane=lane,
            task=draft.task,
            steps=[step for step in (letters, [record], again) if step],
            acks=draft.acks,
            targets=draft.targets,
            draft=draft,
            record=record,
            source=open_record,
            sent_s=open_record.since_s,
        )

    def set_apart(self, lane: LaneBuffer, part: EnvelopeRun, reason: str) -> None:
        """Settle one envelope that cannot be read: its targets fail, and its task goes on to its end."""
        self._count_unsettled(part.task, part.targets)
        self._suspects.set_apart(lane, SetApart(part, reason, None))

    def _suspect(self, open_record: OpenRecord, error: Exception) -> None:
        self._unrecorded.forget(open_record.draft)
        self._suspects.accuse(open_record, error)

    def _leave(self, lane: LaneBuffer, part: EnvelopeRun) -> None:
        """Leave envelopes that were not settled to the next worker, unacked."""
        self._count_unsettled(part.task, -part.targets)
        self._working.ack(lane, [], part.targets)

    def late_records(self, now_s: float) -> LateRecords | None:
        """Return the outcomes that have waited too long for their record; None if there are none."""
        return self._unrecorded.late(now_s)

    # ------------------------------------------------------------- settling without a send
    def dropped(self, lane: LaneBuffer, part: EnvelopeRun) -> None:
        """Ack envelopes that are already final, or whose writer does not count."""
        self._stats.dropped += part.count
        self._start(lane, [], part)

    def recorded(self, lane: LaneBuffer, part: EnvelopeRun, piece: StatusRun) -> None:
        """Publish the next attempt of one envelope again. It is recorded with open targets, and the attempt may be
        lost."""
        envelope, still_open = part.deliveries[0].envelope, set(piece.open_positions)
        indexes = [i for i in range(len(envelope.targets)) if envelope.position(i) in still_open]
        if not indexes:
            self.dropped(lane, part)
            return
        if len(indexes) < len(still_open):
            self._working.recheck(lane, part)
            return
        wait = retry_wait(piece.groups, self._clock.wall_ms())
        again = envelope.next_round(indexes, piece.groups, piece.attempt + 1, wait.leaves_ms)
        self._stats.republished += 1
        self._publish_on(lane, part, wait.step_s, again)

    def lapped(self, lane: LaneBuffer, wall_ms: int) -> None:
        """Publish envelopes to a retry lane again, in the same round: none of their targets is due yet."""
        for part in lane.take_laps():
            groups = list(part.groups or [])
            wait = retry_wait(groups, wall_ms)
            envelope = part.deliveries[0].envelope
            again = msgspec.structs.replace(envelope, not_before_ms=wait.leaves_ms, groups=groups)
            self._publish_on(lane, part, wait.step_s, again)

    def _publish_on(self, lane: LaneBuffer, part: EnvelopeRun, step_s: int, envelope: Envelope) -> None:
        topic = self._ports.topics.retry_lane(lane.tier, step_s)
        self._start(lane, [[partial(self._ports.publisher.publish, topic, [envelope])]], part)

    def moved(self, lane: LaneBuffer, part: EnvelopeRun, topic: str) -> None:
        """Publish envelopes that must wait, and may not wait in this lane, to their task's own lane."""
        envelopes: list[Envelope] = [delivery.envelope for delivery in part.deliveries]
        self._stats.moved += part.count
        # The task may have ended in the meantime, and its lane may be gone.
        self._start(lane, [[partial(self._ports.publisher.publish, topic, envelopes)]], part, may_be_refused=True)

    def unknown(self, lane: LaneBuffer, part: EnvelopeRun) -> None:
        """Store envelopes of an unknown task as dead letters; never send them."""
        store, at_ms = self._ports.dead_letters.publish, self._clock.wall_ms()
        letters: list[Publish] = [
            partial(store, _letter(lane, delivery.envelope, at_ms)) for delivery in part.deliveries
        ]
        self._stats.dead_lettered += part.count
        self._start(lane, [letters], part)

    def _start(
        self, lane: LaneBuffer, steps: list[list[Publish]], part: EnvelopeRun, *, may_be_refused: bool = False
    ) -> None:
        self._count_unsettled(part.task, part.targets)
        self._advance(
            _Job(
                lane=lane,
                task=part.task,
                steps=steps,
                acks=part.deliveries,
                targets=part.targets,
                refused=part if may_be_refused else None,
            )
        )

    def _count_unsettled(self, task: str, targets: int) -> None:
        self._unsettled.add(task, targets)
        self._stats.unsettled_targets = self._unsettled.targets

    # ------------------------------------------------------------- steps and receipts
    def stored(self, event: Stored) -> None:
        """Continue the settling that this receipt belongs to. After a failure publish the same thing again, with a
        delay, until it is stored."""
        receipt = self._receipts.get(event.token)
        if receipt is None:
            return
        if isinstance(event.error, NotFound) and receipt.job.refused is not None:
            del self._receipts[event.token]
            self._count_unsettled(receipt.job.task, -receipt.job.targets)
            self._working.recheck(receipt.job.lane, receipt.job.refused)
            return
        if receipt.publish is receipt.job.record and receipt.job.draft is not None and not _may_be_stored(event.error):
            self._unrecorded.forget(receipt.job.draft)
        if event.error is not None:
            self._publish_again(event.token, receipt)
            return
        del self._receipts[event.token]
        receipt.job.pending -= 1
        if not receipt.job.pending:
            self._advance(receipt.job)

    def _advance(self, job: _Job) -> None:
        if not job.steps:
            self._finish(job)
            return
        step = job.steps.pop(0)
        job.pending = len(step)
        for publish in step:
            self._token += 1
            self._receipts[self._token] = _Receipt(job, publish)
            self._publish(self._token)
            if job.is_abandoned:
                return

    def _publish(self, token: int) -> None:
        inbox = self._inbox

        def done(error: Exception | None) -> None:
            inbox.put(Stored(token, error))

        receipt = self._receipts.get(token)
        if receipt is None:
            return
        try:
            receipt.publish(done)
        except FairlaneError as error:
            done(error)
        except Exception as error:
            if (source := receipt.job.source) is None:
                done(error)
                return
            self._abandon(receipt.job)
            self._suspect(source, error)
        else:
            if receipt.publish is receipt.job.record:
                receipt.job.source = None

    def _abandon(self, job: _Job) -> None:
        """Forget a job whose outcomes are not recorded. Late receipts are ignored."""
        job.is_abandoned = True
        for token in [token for token, receipt in self._receipts.items() if receipt.job is job]:
            del self._receipts[token]

    def _publish_again(self, token: int, receipt: _Receipt) -> None:
        receipt.wait_s = self._settings.store_again.after(receipt.wait_s)
        self._stats.stored_again += 1
        self._timers.at(self._clock.monotonic_s() + receipt.wait_s, lambda: self._publish(token))

    def _finish(self, job: _Job) -> None:
        self._count_unsettled(job.task, -job.targets)
        if job.draft is not None:
            settled_ms = (self._clock.monotonic_s() - job.sent_s) * 1000
            self._stats.add_settled(job.lane.tier, job.draft, settled_ms)
        self._working.ack(job.lane, job.acks, job.targets)


def _letter(lane: LaneBuffer, envelope: Envelope, at_ms: int) -> DeadLetter:
    """Return the dead letter of an envelope of an unknown task."""
    letter, body = letter_of(envelope, [], [], at_ms), encoded_or_name(envelope)
    return msgspec.structs.replace(letter, body=body, lane=lane.name, variables=None)


def _may_be_stored(error: Exception | None) -> bool:
    """Return whether an unstored record may still be stored later. The broker always refuses one that is too large."""
    return error is not None and getattr(error, "retryable", True)


def _readable(record: Outcomes) -> Outcomes | None:
    """Return the record, without its names if readers could not decode them. Runs alone are always readable."""
    if not (record.mixed or record.named or record.provider_ids):
        return record
    bare = msgspec.structs.replace(record, named=[], provider_ids=[])
    return next((each for each in (record, bare) if reads_back(each)), None)
