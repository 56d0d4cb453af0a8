"""The way of an envelope through the estate and the service, stage by stage, with the worst node of each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from estate.rules.cluster import BrokerLoad, Estate

SERVICE_STAGES = {
    "received": "delivered to a worker",
    "leased": "leased",
    "sent": "sent",
    "settled": "settled",
}
"""Stages that workers measure, in their order, with their meaning here."""


@dataclass(frozen=True, kw_only=True)
class StageTime:
    """The time of one stage."""

    stage: str
    p50_ms: float | None = None
    p99_ms: float | None = None
    """That of the worst node."""
    share: float | None = None
    """Part of the sum of the p99 of all stages; None for a part of another stage."""
    worst: str | None = None
    """The node with the largest p99."""


@dataclass(frozen=True)
class ServiceStage:
    """A stage as one worker measures it."""

    stage: str
    worker: str
    p50_ms: float
    p99_ms: float


def stages_of(estate: Estate, service: Iterable[ServiceStage] = ()) -> list[StageTime]:
    """Return the stages in their order. Those below `stored by bookie` are parts of it.

    A broker's own part is the time until its receipt, less the time that it waits for the slowest bookie.
    """
    top = [*_broker(estate), *_bookie(estate)]
    measured = list(service)
    workers = [each for name, meaning in SERVICE_STAGES.items() for each in _worst_worker(name, meaning, measured)]
    parts = list(_parts(estate))
    whole = sum(each.p99_ms or 0.0 for each in (*top, *workers))
    return [*(_with_share(each, whole) for each in top), *parts, *(_with_share(worker, whole) for worker in workers)]


def _broker(estate: Estate) -> Iterator[StageTime]:
    known = [broker for broker in estate.brokers if broker.publish_p99_ms is not None]
    if not known:
        return
    worst = max(known, key=_own_ms)
    yield StageTime(stage="broker", p50_ms=worst.publish_p50_ms, p99_ms=_own_ms(worst), worst=worst.name)


def _own_ms(broker: BrokerLoad) -> float:
    bookies = max(broker.bookies_p99_ms.values(), default=0.0)
    return max(0.0, (broker.publish_p99_ms or 0.0) - bookies)


def _bookie(estate: Estate) -> Iterator[StageTime]:
    known = [bookie for bookie in estate.bookies if bookie.broker_p99_ms is not None]
    if known:
        worst = max(known, key=lambda each: each.broker_p99_ms or 0.0)
        yield StageTime(
            stage=f"stored by bookie {worst.name}",
            p50_ms=worst.write_p50_ms,
            p99_ms=worst.broker_p99_ms,
            worst=worst.name,
        )


def _parts(estate: Estate) -> Iterator[StageTime]:
    """Yield the parts of a bookie's write, as bookies measure them themselves."""
    parts: Mapping[str, str] = {
        "… queue of write threads": "queue_p99_ms",
        "… queue of the journal": "journal_queue_p99_ms",
        "… sync of the journal": "fsync_p99_ms",
    }
    for stage, field in parts.items():
        times = [
            (getattr(bookie, field), bookie.name) for bookie in estate.bookies if getattr(bookie, field) is not None
        ]
        if times:
            p99_ms, name = max(times)
            yield StageTime(stage=stage, p99_ms=p99_ms, worst=name)


def _worst_worker(name: str, meaning: str, measured: Iterable[ServiceStage]) -> Iterator[StageTime]:
    of_stage = [each for each in measured if each.stage == name]
    if of_stage:
        worst = max(of_stage, key=lambda each: each.p99_ms)
        yield StageTime(stage=meaning, p50_ms=worst.p50_ms, p99_ms=worst.p99_ms, worst=worst.worker)


def _with_share(time: StageTime, whole: float) -> StageTime:
    return replace(time, share=None if time.p99_ms is None or whole <= 0 else time.p99_ms / whole)
