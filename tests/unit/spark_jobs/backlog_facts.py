"""Collected facts of a small backlog, for tests of the report."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_jobs.backlog.facts import Facts, ReportOptions, Spans
from spark_jobs.backlog.journal import JournalFacts
from spark_jobs.backlog.snapshots import Times
from tests.unit.spark_jobs.backlog_rows import START_MS, ms, tiers

OPTIONS = ReportOptions(Path("tables"), START_MS, recent_s=20)
GRID = [ms(0), ms(10), ms(20)]


def group(tier: str, app: str, channel: str, **counts: int) -> dict[str, Any]:
    return {"tier": tier, "app": app, "channel": channel, "tasks": 0, "backlog": 0, "arrived": 0, "done": 0, **counts}


def live(name: str, tier: str, pending: int, **fields: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "task": name, "tier": tier, "app": "shop", "channel": "push", "state": "running", "held": "", "weight": 1.0,
        "cap": 0, "created_ms": ms(-60), "start_ms": 0, "finished_ms": 0, "at_ms": ms(20), "backlog": pending,
        "arrived": 0, "done": 0, "oldest_s": 30.0, "published": pending, "live": True,
    }  # fmt: skip
    return given | fields


def waited(
    task: str, tier: str, target_hours: float, held: str = "", app: str = "shop", span: int = 1
) -> dict[str, Any]:
    """Target-hours of a task in a time span of ten seconds."""
    named = {"task": task, "tier": tier, "app": app, "channel": "mail" if app == "news" else "push"}
    return {**named, "span": span, "held": held, "target_hours": target_hours, "hours": 10 / 3_600}


def spent(task: str, cause: str, milliseconds: int, span: int = 1) -> dict[str, Any]:
    return {"task": task, "span": span, "cause": cause, "ms": milliseconds}


def service(seconds: float, high: int, low: int, **fields: Any) -> dict[str, Any]:
    """So much was granted, while both tiers had a backlog."""
    given: dict[str, Any] = {
        "at_ms": ms(seconds), "every_s": 10.0, "epoch": "e", "capacity": 100, "sharing": "tasks", "caps": {},
        "app_weights": {}, "paused_channels": [], "measured_every_s": 10, "workers": 2,
        "tiers": tiers({"high": high, "low": low}, {"high": 1, "low": 1}, cap=100),
    }  # fmt: skip
    return given | fields


TIERS: list[Mapping[str, Any]] = [
    {"tier": tier, "at_ms": at_ms, "backlog": backlog}
    for tier, levels in [("high", (400, 900, 1_200)), ("low", (1_000, 700, 900))]
    for at_ms, backlog in zip(GRID, levels, strict=True)
]
FACTS = Facts(
    times=Times(all=GRID, chosen=GRID, grid=GRID, recent_ms=ms(0), last_ms=ms(20)),
    spans=Spans(ms(0), 10_000, [10 / 3_600, 10 / 3_600]),
    service=[service(0, 0, 0), service(10, 600, 200), service(20, 1_200, 400)],
    groups=[
        group("high", "shop", "push", tasks=1, backlog=1_200, arrived=2_000, done=1_200),
        group("low", "shop", "push", tasks=1, backlog=600, arrived=0, done=400),
        group("low", "news", "mail", tasks=1, backlog=300, arrived=300),
    ],
    tasks=[
        live("h", "high", 1_200, done=1_200, arrived=2_000),
        live("l", "low", 600, done=400, oldest_s=3_000.0),
        live("p", "low", 300, app="news", channel="mail", state="paused", held="paused"),
        live("e", "low", 0, live=False, state="completed", finished_ms=ms(9), published=70),
    ],
    tiers=TIERS,
    ages=[{"band": 1, "targets": 1_500}, {"band": 4, "targets": 600}],
    waited=[
        waited("h", "high", 3.0),
        waited("l", "low", 2.0),
        waited("p", "low", 1.0, "paused", app="news"),
        waited("e", "low", 9.0, span=0),
    ],
    spent=[
        *(spent("h", cause, ms) for cause, ms in [("cap_total", 15_000), ("tier_share", 5_000)]),
        *(spent("l", cause, ms) for cause, ms in [("tier_share", 5_000), ("cap:channel/push", 2_500)]),
        spent("e", "no_worker", 10_000, span=0),
    ],
    journal=JournalFacts(
        rows=200,
        names=[
            {"dimension": "tier", "name": "high", "bucket": 0, "done": 100, "lost": 10, "retried": 5},
            {"dimension": "tier", "name": "low", "bucket": 40, "done": 100, "lost": 0, "retried": 0},
            {"dimension": "app", "name": "shop", "bucket": 40, "done": 200, "lost": 10, "retried": 5},
        ],
        tasks=[{"task": "h", "bucket": 0, "done": 100, "lost": 10, "retried": 5}],
        by_time=[
            {"bin": 0, "app": "shop", "bucket": 4, "done": 10},
            {"bin": 2, "app": "shop", "bucket": 8, "done": 10},  # after the last snapshot
        ],
    ),
)
