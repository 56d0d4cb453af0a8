"""`fairlane signals`: the input of an autoscaler."""

import time
from typing import TYPE_CHECKING

import click

from dispatcher.analysis.situation import job_of_view
from dispatcher.model.errors import NotReady
from dispatcher.model.view_form import GONE
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.output import Output, output_option, say
from fairlane.figures.signals import ServiceState, SignalMeter, Signals, signals_without_counts

if TYPE_CHECKING:
    from producers.client import PushClient

APART_S = 2.0
"""Time between the two readings from which arrivals are computed."""


@click.command()
@output_option
@click.pass_context
def signals(ctx: click.Context, output: Output) -> None:
    """Show what limits the rate, how many workers are needed, and each tier's backlog, rates and spare capacity.

    Measures for two seconds. The backlog counts targets that may be sent now. (The queued targets of `fairlane
    channel list` and `fairlane app list` also include those of paused and scheduled tasks.) `caps` names the caps that
    hold the backlog back. Tasks whose channel no worker serves are not counted in the backlog,
    since adding workers of the same kind would not send them: `missing_channels` names the channels.

    If Redis was restarted or emptied while no worker ran, only a worker can restore the counts: until one runs, one
    worker is reported as needed, and the figures of the tiers are missing.
    """
    from fairlane.cli.base.progress import doing

    with client_of(ctx) as client, doing(f"measuring for {APART_S:.0f} s"):
        measured = _measured(client)
    rows = [
        {name: round(value, 3) if isinstance(value, float) else value for name, value in tier._asdict().items()}
        for tier in measured.tiers
    ]
    service = {
        "capacity": measured.capacity,
        "rate": round(measured.rate, 1),
        "workers": measured.workers,
        "workers_needed": measured.workers_needed,
        "limited_by": measured.limited_by,
        "caps": measured.caps,
    }
    missing = {"missing_channels": [waiting._asdict() for waiting in measured.missing]}
    document = {**service, **missing, "tiers": {row["tier"]: row for row in rows}}
    output.emit_document(document, rows, summary=service)
    for waiting in measured.missing:
        say(str(waiting))


def _measured(client: "PushClient") -> Signals:
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


def _read_state(client: "PushClient") -> ServiceState:
    from backends.system_clock import SystemClock

    client.check_counts()
    clock = SystemClock()
    now_ms = clock.wall_ms()
    jobs = [job_of_view(task, now_ms) for task in client.live_tasks()]
    return ServiceState(clock.monotonic_s(), jobs, client.globals(), client.workers())
