"""One look at the estate as it is shown: rows of nodes, stages, and what is wrong."""

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from socket import gethostname
from typing import Any, Self

from backends.bounded import PULSAR_BYTES, Bounds, open_http
from dispatcher.model.errors import FairlaneError, Malformed
from dispatcher.model.view import WorkerBeat
from estate.facts.asking import LIMIT_S, Question, ask_all
from estate.facts.look import estate_reader, judge_settings, look_at, read_guarded
from estate.facts.questions import Depth
from estate.rules.check import slow_bookies, what_is_wrong
from estate.rules.cluster import BookieState, BrokerLoad, Estate, Usage
from estate.rules.node_life import NodeKind
from estate.rules.stages import ServiceStage, StageTime, stages_of
from fairlane.settings import Settings

Row = dict[str, Any]


@dataclass(frozen=True)
class EstateView:
    """Everything that one look shows."""

    brokers: list[Row]
    bookies: list[Row]
    metadata: Row
    stages: list[StageTime] | None
    """None unless asked for."""
    wrong: list[str]

    def document(self) -> Row:
        """Return the whole view as a JSON object."""
        stages = {} if self.stages is None else {"stages": [asdict(stage) for stage in self.stages]}
        view = {"brokers": self.brokers, "bookies": self.bookies, "metadata": self.metadata}
        return {**view, **stages, "wrong": self.wrong}


class EstateViewer:
    """Looks at the estate that the settings name, as often as it is asked to."""

    def __init__(self, settings: Settings, *, with_stages: bool = False) -> None:
        """Raises NotConfigured; Unreachable if the local stack's Pulsar has ended."""
        self._settings = settings
        self._with_stages = with_stages
        self._reader = estate_reader(settings)
        self._judge = judge_settings(settings.estate)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def look(self) -> EstateView:
        """Raises InvalidInput if estate.bookie_http is no address."""
        estate, guarded = look_at(self._settings, self._reader, Depth.SETTINGS), read_guarded(self._settings)
        slow = set(slow_bookies(estate, self._judge))
        return EstateView(
            brokers=[
                _broker_row(broker, estate.leader) | {"guard": guarded.note(NodeKind.BROKER, broker.name)}
                for broker in estate.brokers
            ],
            bookies=[
                _bookie_row(bookie, estate.auditor, is_slow=bookie.name in slow)
                | {"guard": guarded.note(NodeKind.BOOKIE, bookie.name)}
                for bookie in estate.bookies
            ],
            metadata=_metadata(estate) | {"guard": guarded.title},
            stages=stages_of(estate, _service_stages(self._settings)) if self._with_stages else None,
            wrong=[*what_is_wrong(estate, self._judge), *guarded.wrong()],
        )


def _broker_row(broker: BrokerLoad, leader: str | None) -> Row:
    state = "gone" if broker.gone else "no answer" if broker.failure else "up"
    return {
        "broker": broker.name,
        "state": "leader" if broker.name == leader and not broker.failure else state,
        "cpu": _share(broker.cpu),
        "direct_memory": _share(broker.direct),
        "bytes_in": broker.bytes_in,
        "bytes_out": broker.bytes_out,
        "bundles": len(broker.bundles) if broker.bundles else None,
        "lanes": broker.lanes,
        "publish_p99_ms": broker.publish_p99_ms,
        "throttled": broker.throttled_connections,
        "cache_hits": broker.cache_hit_ratio,
        "manager": broker.manager,
        "failure": broker.failure or None,
    }


def _bookie_row(bookie: BookieState, auditor: str | None, *, is_slow: bool) -> Row:
    state = str(bookie.mode)
    if is_slow:
        state = "slow"
    elif bookie.failure and bookie.writable:
        state = "no answer"
    return {
        "bookie": bookie.name,
        "state": state,
        "audits": bookie.name == auditor,
        "rack": bookie.rack,
        "disk": bookie.disk_used,
        "write_p99_ms": bookie.broker_p99_ms,
        "own_write_p99_ms": bookie.write_p99_ms,
        "fsync_p99_ms": bookie.fsync_p99_ms,
        "ledgers": bookie.ledgers,
        "failure": bookie.failure or None,
    }


def _metadata(estate: Estate) -> Row:
    hits = [broker.cache_hit_ratio for broker in estate.brokers if broker.cache_hit_ratio is not None]
    managers = sorted({str(broker.manager) for broker in estate.brokers if broker.manager is not None})
    return {
        "leader": estate.leader,
        "auditor": estate.auditor,
        "load_manager": ", ".join(managers) or None,
        "put_p99_ms": max(filter(None, (broker.metadata_put_p99_ms for broker in estate.brokers)), default=None),
        "get_p99_ms": max(filter(None, (broker.metadata_get_p99_ms for broker in estate.brokers)), default=None),
        "cache_hits": sum(hits) / len(hits) if hits else None,
        "largest_ensemble": estate.largest_ensemble(),
        "under_replicated": estate.under_replicated,
    }


def _share(usage: Usage | None) -> float | None:
    return None if usage is None else usage.share


# ---------------------------------------------------------------- stages of workers
def _service_stages(settings: Settings) -> list[ServiceStage]:
    """Return the stages that workers measure; none of workers whose metrics cannot be read."""
    beats: list[WorkerBeat] = []
    with suppress(FairlaneError):
        beats = _live_workers(settings)
    questions = [Question((beat.id, "metrics"), _metrics_url(beat)) for beat in beats if beat.metrics_port > 0]
    http = open_http(Bounds(PULSAR_BYTES, LIMIT_S))
    replies = ask_all(http, questions) if questions else {}
    http.clear()
    return [stage for (worker, _), reply in replies.items() for stage in _stages_in(worker, reply.body)]


def _live_workers(settings: Settings) -> list[WorkerBeat]:
    from backends.redis.view import open_view
    from backends.redis.workers import Workers

    with closing(open_view(settings.redis)) as view:
        return [beat for beat in Workers(view).workers() if beat.is_live]


def _metrics_url(beat: WorkerBeat) -> str:
    """Return the address of a worker's metrics, which it serves on the loopback address by default."""
    host = "127.0.0.1" if beat.host == gethostname() else beat.host
    return f"http://{host}:{beat.metrics_port}/metrics"


def _stages_in(worker: str, body: bytes) -> Iterator[ServiceStage]:
    from estate.facts.metrics_text import parse_metrics
    from estate.rules.stages import SERVICE_STAGES

    try:
        metrics = parse_metrics(body.decode(errors="replace"))
    except Malformed:
        return
    for stage in SERVICE_STAGES:
        p50, p99 = (metrics.quantile("fairlane_stage_seconds", share, stage=stage) for share in (0.5, 0.99))
        if p50 is not None and p99 is not None:
            yield ServiceStage(stage, worker, p50 * 1000, p99 * 1000)
