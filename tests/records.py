"""Records of which a test names what matters to it."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from backends.pulsar.lane_stats import LaneStats
from dispatcher.model.task_control import Control, Override
from dispatcher.model.view import WorkerBeat
from dispatcher.ports import DeadLetter, LaneInfo
from dispatcher.wire.control import FORMAT, Checkpoint, Finished
from dispatcher.wire.lease import LaneKind
from dispatcher.wire.outcome import FORMAT as OUTCOME_FORMAT
from dispatcher.wire.outcome import Mixed, Named, Outcomes, ProviderIds, Run
from producers.outcomes.record import TargetRecord


def beat(worker: str = "w", state: str = "serving", **fields: Any) -> WorkerBeat:
    """A heartbeat of a worker of an unknown form that has nothing."""
    plain = WorkerBeat(id=worker, host="host", pid=1, state=state, started_ms=0, seen_ms=0, version="0.1.0")
    return structs.replace(plain, **fields)


def dead_letter(task: str = "t", targets: Sequence[str] = (), **fields: Any) -> DeadLetter:
    """A letter of targets that failed; without targets it has a reason of its own."""
    count = len(targets)
    plain = DeadLetter(
        format=1, task=task, writer="0", sequence=0, attempt=0, at_ms=5, channel="null", positions=list(range(count)),
        targets=list(targets), outcomes=[2] * count, reasons=["no"] * count or ["?"],
    )  # fmt: skip
    return structs.replace(plain, **fields)


def target_record(target: str, **fields: Any) -> TargetRecord:
    """The first target of a task `t` of the app `shop`, which failed."""
    plain = TargetRecord(
        task="t", app="shop", channel="fcm", outcome="failed", reason="no", target=target, attempt=1, at_ms=9,
        writer="0", sequence=0, position=0,
    )  # fmt: skip
    return structs.replace(plain, **fields)


def invalid_target(target: str, died_ms: int = 5, **fields: Any) -> TargetRecord:
    """An address of the app `shop` that a task `t` found dead."""
    return target_record(target, died_ms=died_ms, **{"outcome": "invalid", "reason": "gone", **fields})


def checkpoint(task: str, sequence: int, **fields: Any) -> Checkpoint:
    plain = Checkpoint(
        format=FORMAT, task=task, writer="0", sequence=sequence, targets=0, refused=0, consumed=0, digest=""
    )
    return structs.replace(plain, **fields)


def finished(task: str, *counts: int, state: str = "completed", at_ms: int = 1, reason: str = "") -> Finished:
    """The end of a task. counts: targets sent, invalid, failed, expired and cancelled; those left out are 0."""
    every = [*counts, *[0] * (5 - len(counts))]
    return Finished(format=FORMAT, task=task, state=state, counts=every, at_ms=at_ms, reason=reason)


OUTCOME_PARTS: dict[str, type] = {"runs": Run, "mixed": Mixed, "named": Named, "provider_ids": ProviderIds}


def outcomes(*parts: Any, **fields: Any) -> Outcomes:
    """An outcome record of a claim, with parts of any kind."""
    by_kind = {name: [part for part in parts if isinstance(part, kind)] for name, kind in OUTCOME_PARTS.items()}
    values = {"format": OUTCOME_FORMAT, "task": "t", "claim": "w.1", "at_ms": 5, "channel": "null", **by_kind, **fields}
    return Outcomes(**values)


def lane_info(name: str, task: str = "", *, chunk: int = 1, **fields: Any) -> LaneInfo:
    """A task's own high lane."""
    plain = LaneInfo(name=name, kind=LaneKind.OWN, tier="high", weight=1_000, chunk=chunk, task=task, channel="null")
    return structs.replace(plain, **fields)


def lane_stats(topic: str, **fields: Any) -> LaneStats:
    plain = LaneStats(
        topic=topic, partition=-1, backlog=4, unacked=300, consumers=2, producers=1, rate_in=1.5, rate_out=2.5,
        storage_bytes=12_327, blocked=True,
    )  # fmt: skip
    return plain._replace(**fields)


def edit_text(number: int, message: dict[str, Any]) -> str:
    """An edit of a message as it is stored."""
    return Control("override", Override(number, message)).text
