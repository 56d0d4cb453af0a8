"""Group the causes that the ledger counts (dispatcher.analysis.why) into the few reasons that hold a backlog back."""

from collections.abc import Mapping

from dispatcher.analysis.why import NO_CHANNEL, NO_WORKER_RUNS

SHARE, CAP, NO_WORKERS, RETRIES, PROVIDER, HELD, UNKNOWN = (
    "share", "cap", "no workers", "retries", "provider", "held", "unknown",
)  # fmt: skip
MEANINGS = {
    SHARE: "the capacity was used up: it got its share, and others got theirs",
    CAP: "a cap of its own, or of its app or channel",
    NO_WORKERS: "no worker ran, had its channel, or was attached to its lane",
    RETRIES: "its remaining targets wait for a retry",
    PROVIDER: "it was sent as fast as workers and provider took it",
    HELD: "it or its channel is paused, its start time has not come, or its audience is not complete",
    UNKNOWN: "not measured: no worker asked for a lease, or it was between lane, worker and provider",
}
ADVICE = {
    SHARE: "fairlane capacity set RATE, or other weights",
    CAP: "fairlane task set ID cap=RATE, fairlane app cap, fairlane channel cap",
    NO_WORKERS: "more workers: fairlane worker",
    RETRIES: "fairlane task failures ID",
    PROVIDER: "more workers, or a quicker channel",
    HELD: "fairlane task resume ID, fairlane channel resume NAME",
    UNKNOWN: "",
}
_GROUPS = {
    "tier_share": SHARE,
    "task_weight": SHARE,
    "app_weight": SHARE,
    "cap_total": SHARE,
    "task_cap": CAP,
    **dict.fromkeys((NO_WORKER_RUNS, NO_CHANNEL, "no_worker"), NO_WORKERS),
    "retry_wait": RETRIES,
    "sending": PROVIDER,
    "provider": PROVIDER,
}


def reason_of(held: str) -> str:
    """Return the reason of what the snapshots call `held`."""
    return _GROUPS.get(held, HELD) if held else ""


def grouped(spent_ms: Mapping[str, int], window_ms: float) -> dict[str, float]:
    """Return the parts of a time span by the reason that held a task back in it; they add up to 1."""
    parts: dict[str, float] = {}
    for cause, ms in spent_ms.items():
        if ms > 0:
            group = CAP if cause.startswith("cap:") else _GROUPS.get(cause, UNKNOWN)
            parts[group] = parts.get(group, 0.0) + ms
    counted = sum(parts.values())
    total = max(window_ms, counted, 1.0)
    if total > counted:
        parts[UNKNOWN] = parts.get(UNKNOWN, 0.0) + total - counted
    return {group: ms / total for group, ms in parts.items()}


def fractions(amounts: Mapping[str, float]) -> dict[str, float]:
    """Return amounts as parts of their sum, the largest first."""
    total = sum(amounts.values())
    return {name: amount / total for name, amount in sorted(amounts.items(), key=lambda each: -each[1]) if amount}
