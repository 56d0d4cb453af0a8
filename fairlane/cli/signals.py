"""`fairlane signals`: what an autoscaler goes by."""

import time
from typing import Any

import click

from fairlane.cli.connect import client_of
from fairlane.cli.output import Output, output_option
from fairlane.signals import Look, SignalMeter, Signals, job_of_view
from producers.client import PushClient

APART_S = 2.0
"""Between the two looks that arrivals are made of."""


@click.command()
@output_option
@click.pass_context
def signals(ctx: click.Context, output: Output) -> None:
    """Backlog, rates, seconds to drain it and spare capacity of each tier (takes two seconds to measure).

    The backlog is what may be sent now; what `fairlane channel list` and `fairlane app list` call queued is all that
    has no outcome, of paused and scheduled tasks too.
    """
    meter = SignalMeter()
    with client_of(ctx) as client:
        meter.take(_look(client))
        time.sleep(APART_S)
        found = meter.take(_look(client))
    rows = _rows(found)
    service = {
        "capacity": found.capacity,
        "rate": round(found.rate, 1),
        "workers": found.workers,
        "workers_needed": found.workers_needed,
        "limited_by": found.limited_by,
    }
    output.emit_document({**service, "tiers": {row["tier"]: row for row in rows}}, [*rows])


def _look(client: PushClient) -> Look:
    from backends.system_clock import SystemClock

    client.check_counts()
    clock = SystemClock()
    now_ms = clock.wall_ms()
    jobs = [job_of_view(task, now_ms) for task in client.live_tasks()]
    return Look(clock.monotonic_s(), jobs, client.globals(), client.workers())


def _rows(found: Signals) -> list[dict[str, Any]]:
    return [
        {name: round(value, 3) if isinstance(value, float) else value for name, value in tier._asdict().items()}
        for tier in found.tiers
    ]
