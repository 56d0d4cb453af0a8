"""Figures of the service as a whole: `fairlane capacity show`, `tier show`, `signals`, `top`."""

import time
from dataclasses import asdict
from typing import Any

import click

from backends.system_clock import SystemClock
from dispatcher.analysis.longest_wait import Lane, LongestWait, longest_waits
from dispatcher.analysis.served import Served, waiting_tasks
from dispatcher.analysis.situation import job_of_view
from dispatcher.model.errors import NotReady
from dispatcher.model.tier import MILLI, SHARED_BY
from dispatcher.model.view import TaskView
from dispatcher.model.view_form import GONE
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.output import Output, say
from fairlane.cli.base.progress import doing
from fairlane.figures.rows import signal_fields
from fairlane.figures.signals import ServiceState, SignalMeter, Signals, signals_without_counts
from fairlane.screen.console import console_of
from fairlane.screen.render import tiers_table, trials
from fairlane.screen.sample import Sample, sample_of
from fairlane.screen.watch import Watch
from producers.client import PushClient

APART_S = 2.0
"""Time between the two readings from which arrivals are computed."""


def show_capacity(ctx: click.Context, output: Output) -> None:
    with client_of(ctx) as client:
        sample = sample_of(client, SystemClock())
    settings = sample.settings
    fields = {
        "capacity": settings.capacity,
        "capacity_burst": settings.burst,
        "rate": round(sample.rate, 1),
        "used": round(sample.rate / settings.capacity, 4) if settings.capacity else None,
    }
    output.emit_record(fields)


def show_tiers(ctx: click.Context, output: Output) -> None:
    with client_of(ctx) as client:
        sample = sample_of(client, SystemClock())
    waits = waits_of(sample)
    tiers = {tier.tier: {**asdict(tier), **_wait_fields(waits[tier.tier])} for tier in sample.tiers}
    missing = waiting_tasks(Served.by(sample.workers), sample.tasks)
    document = {
        "sharing": sample.settings.sharing,
        "tiers": tiers,
        "missing_channels": [waiting._asdict() for waiting in missing],
    }
    longest = {tier: wait.seconds for tier, wait in waits.items()}
    output.emit(document, lambda: tiers_table(sample.tiers, longest))
    if not output.as_json and sample.settings.sharing != SHARED_BY[0]:
        say("within a tier, the capacity is shared by apps, then by the tasks of each app")
    for waiting in missing:
        say(str(waiting))


def signals(ctx: click.Context, output: Output) -> None:
    with client_of(ctx) as client, doing(f"measuring for {APART_S:.0f} s"):
        measured = _measured(client)
    document = signal_fields(measured)
    service = {name: document[name] for name in document if name not in ("missing_channels", "tiers")}
    output.emit_document(document, list(document["tiers"].values()), summary=service)
    for waiting in measured.missing:
        say(str(waiting))


def top(ctx: click.Context, every: float, count: int | None) -> None:
    with client_of(ctx) as client, Watch(console_of(), "Fairlane", line_every_s=0.0) as watch:
        clock, updates = SystemClock(), 0
        while count is None or updates < count:
            updates += 1
            sample = sample_of(client, clock)
            watch.show(sample, trials(sample.tasks))
            if updates != count:
                time.sleep(every)


def _measured(client: PushClient) -> Signals:
    """Return signals from two readings. Raises NotReady if workers are restoring the counts."""
    meter = SignalMeter()
    try:
        meter.take(_read_state(client))
        time.sleep(APART_S)
        return meter.take(_read_state(client))
    except NotReady:
        if any(beat.state not in GONE for beat in client.workers()):
            raise
        return signals_without_counts(client.globals().capacity)


def _read_state(client: PushClient) -> ServiceState:
    client.check_counts()
    clock = SystemClock()
    now_ms = clock.wall_ms()
    jobs = [job_of_view(task, now_ms) for task in client.live_tasks()]
    return ServiceState(clock.monotonic_s(), jobs, client.globals(), client.workers())


def waits_of(sample: Sample) -> dict[str, LongestWait]:
    """Return the longest waits for the lanes that have something to send now; None (unknown) without a worker."""
    settings = sample.settings
    lanes: dict[str, list[TaskView]] = {}
    for task in sample.sending:
        lanes.setdefault(task.lane, []).append(task)
    busy = [
        Lane(
            tasks[0].tier,
            tasks[0].app,
            max(1, round(MILLI * sum(task.weight for task in tasks))),
            max(task.chunk for task in tasks),
        )
        for tasks in lanes.values()
    ]
    waits = longest_waits(settings.capacity, settings.tier_milli, busy, settings.sharing, settings.app_milli)
    if any(beat.is_live for beat in sample.workers):
        return waits
    return {tier: wait._replace(seconds=None) for tier, wait in waits.items()}


def _wait_fields(wait: LongestWait) -> dict[str, Any]:
    seconds = None if wait.seconds is None else round(wait.seconds, 3)
    return {"longest_wait_s": seconds, "turns": wait.sends, "largest_chunk": wait.chunk}
