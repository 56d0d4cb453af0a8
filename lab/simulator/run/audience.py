"""The tasks of a scenario as the service knows them: record, lane, envelopes."""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from dispatcher.model.view import TaskView
from dispatcher.ports import LaneInfo
from dispatcher.wire.control import MAIN_WRITER, TaskRecord
from dispatcher.wire.envelope import FORMAT, Envelope, encode_message
from dispatcher.wire.lease import LaneKind
from dispatcher.wire.topics import Topics
from lab.simulator.scenario.scenario import Tasks
from producers.submit.acceptance import accept

MESSAGE = {"title": "hello"}


@dataclass(frozen=True)
class SimTask:
    """One task of a scenario: its spec, its lane, and when it arrives."""

    name: str
    spec: Tasks
    task: PushTask
    """As submitted."""
    lane: str
    """The lane of its envelopes."""
    shared: bool
    """Whether it shares its lane with others."""
    arrives_s: float

    def record(self, now_ms: int, topics: Topics) -> TaskRecord:
        """Return the record that the submission writes to the control topic."""
        record = accept(self.task, self.name, self.spec.targets, now_ms, topics)
        return replace(record, lane=self.lane, shared=self.shared)

    def info(self, view: TaskView, weight: int) -> LaneInfo:
        """Return the lane as a worker sees it. weight: in thousandths, of all tasks in the lane."""
        return LaneInfo(
            name=self.lane,
            kind=LaneKind.SHARED if self.shared else LaneKind.OWN,
            tier=str(Tier.LOW) if self.shared else view.tier,
            weight=weight,
            chunk=self.spec.envelope_targets,
            task="" if self.shared else self.name,
            channel=self.spec.channel,
        )

    def envelopes(self, first_target: int, targets: int, now_ms: int, expires_ms: int) -> Iterator[Envelope]:
        """Yield the envelopes of `targets` targets from `first_target`, which is the first target of an envelope.

        The addresses are synthetic, and the same in each envelope.
        """
        spec, chunk, message = self.spec, self.spec.envelope_targets, encode_message(self.task.complete_message)
        full = [f"{self.name}:{index}" for index in range(min(chunk, spec.targets))]
        for start in range(first_target, first_target + targets, chunk):
            count = min(chunk, first_target + targets - start)
            yield Envelope(
                format=FORMAT,
                task=self.name,
                writer=MAIN_WRITER,
                sequence=start // chunk,
                attempt=0,
                app=spec.app,
                channel=spec.channel,
                published_ms=now_ms,
                not_before_ms=0,
                expires_ms=expires_ms,
                size=count,
                max_attempts=spec.max_attempts,
                message=message,
                targets=full if count == chunk else full[:count],
            )


def tasks_of(spec: Tasks, topics: Topics) -> list[SimTask]:
    """Return every task of one entry of a scenario, in the lane that a submission would choose."""
    task = PushTask(
        app=spec.app,
        tier=spec.tier,
        message=MESSAGE,
        channel=spec.channel,
        chunk=spec.chunk or None,
        weight=spec.weight,
        cap=spec.cap.rate or None,
        cap_burst=spec.cap.burst or None,
        ttl_s=spec.expires_s or None,
        max_attempts=spec.max_attempts,
    )
    shared = spec.lane == "shared" or (spec.lane == "auto" and not task.own_lane(spec.targets))
    return [
        SimTask(
            name=name,
            spec=spec,
            task=task,
            lane=topics.shared_lane_of(name) if shared else topics.own_lane(name),
            shared=shared,
            arrives_s=spec.arrives_s + number * spec.every_s,
        )
        for number, name in enumerate(spec.names())
    ]
