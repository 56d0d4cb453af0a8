"""The tasks of a scenario as the service knows them: record, lane, envelopes."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from dispatcher.model.tier import MILLI, Tier
from dispatcher.ports import LaneInfo
from dispatcher.wire.control import FORMAT as CONTROL_FORMAT
from dispatcher.wire.control import MAIN_WRITER, TaskRecord
from dispatcher.wire.envelope import FORMAT, Envelope, encode_message
from dispatcher.wire.lease import LaneKind
from dispatcher.wire.topics import OWN_LANE_ABOVE, Topics
from simulator.scenario.scenario import Tasks

MESSAGE = encode_message({"title": "hello"})


class TaskControls(msgspec.Struct, frozen=True, kw_only=True):
    """The current controls of a task."""

    tier: str
    weight: float
    cap: int
    """In targets/s; 0 for none."""
    shared: bool
    """Whether the task has no lane of its own."""
    state: str = "running"
    ended: bool = False

    @property
    def milli(self) -> int:
        """The weight in thousandths."""
        return max(1, round(self.weight * MILLI))


@dataclass(frozen=True)
class SimTask:
    """One task of a scenario: its spec, its lane, and when it arrives."""

    name: str
    spec: Tasks
    lane: str
    """The lane of its envelopes."""
    shared: bool
    """Whether it shares its lane with others."""
    arrives_s: float

    def record(self, now_ms: int) -> TaskRecord:
        """Return the record that the submission writes to the control topic."""
        spec = self.spec
        return TaskRecord(
            format=CONTROL_FORMAT,
            task=self.name,
            app=spec.app,
            tier=spec.tier,
            channel=spec.channel,
            message=MESSAGE,
            lane=self.lane,
            shared=self.shared,
            chunk=spec.envelope_targets,
            expected_targets=spec.targets,
            weight=round(spec.weight * MILLI),
            cap=spec.cap.rate,
            start_ms=0,
            expires_ms=self.expires_ms(now_ms),
            hold_until_sealed=False,
            max_attempts=spec.max_attempts,
            created_ms=now_ms,
            digest="digest",
            cap_burst=spec.cap.burst,
        )

    def expires_ms(self, now_ms: int) -> int:
        return now_ms + int(self.spec.expires_s * 1000) if self.spec.expires_s else 0

    def controls(self) -> "TaskControls":
        """Return the controls as submitted."""
        return TaskControls(
            tier=str(self.spec.tier), weight=self.spec.weight, cap=self.spec.cap.rate, shared=self.shared
        )

    def info(self, controls: "TaskControls", weight: int) -> LaneInfo:
        """Return the lane as a worker sees it. weight: in thousandths, of all tasks in the lane."""
        return LaneInfo(
            name=self.lane,
            kind=LaneKind.SHARED if self.shared else LaneKind.OWN,
            tier=str(Tier.LOW) if self.shared else controls.tier,
            weight=weight,
            chunk=self.spec.envelope_targets,
            task="" if self.shared else self.name,
            channel=self.spec.channel,
        )

    def envelopes(self, first_target: int, targets: int, now_ms: int, expires_ms: int) -> Iterator[Envelope]:
        """Yield the envelopes of `targets` targets from `first_target`, which is the first target of an envelope.

        The addresses are synthetic, and the same in each envelope.
        """
        spec, chunk = self.spec, self.spec.envelope_targets
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
                message=MESSAGE,
                targets=full if count == chunk else full[:count],
            )


def tasks_of(spec: Tasks, topics: Topics) -> list[SimTask]:
    """Return every task of one entry of a scenario, in the lane that a submission would choose."""
    small = spec.tier == Tier.LOW and spec.targets <= OWN_LANE_ABOVE and not spec.cap.rate and spec.weight == 1
    shared = spec.lane == "shared" or (spec.lane == "auto" and small)
    return [
        SimTask(
            name,
            spec,
            topics.shared_lane_of(name) if shared else topics.own_lane(name),
            shared,
            spec.arrives_s + number * spec.every_s,
        )
        for number, name in enumerate(spec.names())
    ]
