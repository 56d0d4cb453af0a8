"""Rows of why a task waits, with the command that helps."""

import re
from typing import Any

import msgspec

from dispatcher.analysis.task_times import NO_PULSAR, NO_WORKER, PROVIDER, RETRY_WAIT
from dispatcher.analysis.why import (
    AUDIENCE,
    CHANNEL_PAUSED,
    FLOW_PAUSED,
    HELD,
    LAST_TARGETS,
    NO_CHANNEL,
    NO_REDIS,
    NO_WORKER_RUNS,
    PAUSED,
    SCHEDULED,
    CauseShare,
    Why,
    pool_text,
)
from dispatcher.channels.specs import SPECS
from dispatcher.channels.verdict_table import Answer, Effect
from dispatcher.model.flow_pause import PauseKind
from dispatcher.model.pools import Pool

ADVICE = {
    "paused": "fairlane task resume {id}",
    "held_until_sealed": "finish its submission",
    "channel_paused": "fairlane channel resume {channel}",
    FLOW_PAUSED: "fairlane channel resume {channel} --app {app}",
    "tier_share": "fairlane tier set, or fairlane task set {id} tier=TIER",
    "task_weight": "fairlane task set {id} weight=N",
    "app_weight": "fairlane app weight APP N",
    "task_cap": "fairlane task set {id} cap=RATE",
    "cap_total": "fairlane capacity set RATE",
    "no_worker": "more workers: fairlane worker",
    "retry_wait": "see the last error: fairlane task show {id}",
    "sending": "more workers, or a quicker channel",
    "provider": "a quicker provider, or a channel that makes more calls at once",
    "audience": "finish its submission",
    NO_WORKER_RUNS: "fairlane worker",
    NO_CHANNEL: "a worker with channel {channel}",
    NO_REDIS: "find out why Redis was gone: read its log",
    NO_PULSAR: "see what `fairlane doctor` says of Pulsar",
}
"""Advice that reduces each cause. For the other causes there is none, or nobody knows."""
_NOW = {
    SCHEDULED: "its start time has not come",
    PAUSED: "it is paused",
    HELD: "its audience is not complete",
    CHANNEL_PAUSED: "channel {channel} is paused",
    FLOW_PAUSED: "app {app} is paused on channel {channel}",
    NO_WORKER_RUNS: "no worker is running",
    NO_CHANNEL: "no worker has channel {channel}",
    NO_PULSAR: "its outcomes are not stored, since Pulsar does not take them",
    PROVIDER: "channel {channel} has its targets, and the provider has not answered",
    "tier_share": "the capacity goes to other tiers, which have their shares",
    "task_weight": "the capacity goes to other tasks of its tier, by their weights",
    "app_weight": "the capacity goes to other apps, by their weights",
    "task_cap": "its own cap holds it back",
    "cap_total": "it has its part of the capacity and is sent at that pace",
    NO_WORKER: "no worker has taken it up",
    "sending": "no limit holds it back: it is sent as fast as the workers can",
    AUDIENCE: "all that was submitted is done: it waits for more of its audience",
    LAST_TARGETS: "its last targets are in the channel, or their outcomes on their way",
}
"""Texts for what a task waits for at present; other causes have none."""
_STATUS = re.compile(r"\b([1-5]\d\d)\b(?: (\w+))?")
"""The provider's status in the reason of an error, and its code."""


def why_fields(explained: Why, *, advises: bool = True) -> dict[str, Any]:
    """Return where a task's time went; its causes are under `parts`. advises: name commands, which operators have."""
    return {
        "id": explained.task,
        "state": explained.state,
        "age_s": explained.age_ms / 1000,
        "now": explained.now,
        "last_error": msgspec.to_builtins(explained.last_error),
        "waits_for_go": explained.waits_for_go,
        "unrecorded": [worker._asdict() for worker in explained.unrecorded],
        "parts": [_row(part, explained) | ({} if advises else {"advice": ""}) for part in explained.parts],
    }


def now_text(explained: Why) -> str:
    """Return what a task waits for now, in words; empty for a retry, and if nothing is known."""
    text = cause_text(explained.now, explained.channel, explained.app)
    return f"{text} ({pause})" if explained.now == FLOW_PAUSED and (pause := explained.flow_pause) else text


def cause_text(cause: str, channel: str, app: str) -> str:
    """Return a cause that holds a task back now, in words; empty for a retry, and if nothing is known."""
    if cause.startswith("cap:"):
        return f"the cap of {pool_text(cause)} holds it back"
    return _NOW.get(cause, "").format(channel=channel, app=app)


def _row(part: CauseShare, explained: Why) -> dict[str, Any]:
    return {
        "cause": part.cause,
        "seconds": round(part.ms / 1000, 3),
        "part": round(part.ms / explained.age_ms, 4),
        "meaning": part.meaning,
        "advice": advice(part.cause, explained),
    }


def advice(cause: str, explained: Why) -> str:
    """Return the command that reduces a cause; empty if there is none."""
    pool = Pool.parse(cause.removeprefix("cap:"))
    if cause in (FLOW_PAUSED, RETRY_WAIT, PROVIDER) and _sends_too_fast(explained):
        return f"fairlane app cap {explained.app} RATE --channel {explained.channel}"
    if pool is None:
        return ADVICE.get(cause, "").format(id=explained.task, channel=explained.channel, app=explained.app)
    if pool.quota:
        return f"fairlane quota cap {pool.quota} RATE"
    if not pool.app:
        return f"fairlane channel cap {pool.channel} RATE"
    return f"fairlane app cap {pool.app} RATE{f' --channel {pool.channel}' if pool.channel else ''}"


def _sends_too_fast(explained: Why) -> bool:
    """Return whether the provider answered that the app sends too fast on the channel."""
    if explained.flow_pause is not None:
        return explained.flow_pause.kind is PauseKind.LIMIT
    answer = _STATUS.search(explained.last_error.reason if explained.last_error is not None else "")
    spec = SPECS.get(explained.channel)
    if answer is None or spec is None:
        return answer is not None and answer[1] == "429"
    return spec.table.row_of(Answer(status=int(answer[1]), code=answer[2] or "")).effect is Effect.LIMIT
