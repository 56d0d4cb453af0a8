"""`fairlane worker`: run workers. `fairlane worker list`: show them, what they do and how fast."""

from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli.base.arguments import DURATION, named_values
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.invocation import Invocation, pass_settings
from fairlane.cli.base.output import Output, output_option

if TYPE_CHECKING:
    from dispatcher.model.view import WorkerBeat
    from fairlane.settings import Settings


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option("--processes", type=click.IntRange(1, 256), help="Number of worker processes.  [default: 1]")
@click.option("--name", help="Name of the worker; with several processes NAME-1, NAME-2, ...")
@click.option(
    "--channel",
    "channels",
    multiple=True,
    metavar="NAME=MODULE:CLASS",
    help="Add a channel of your own; may be repeated.",
)
@click.option("--tiers", metavar="TIER,...", help="Serve only the lanes of these tiers.  [default: all]")
@click.option(
    "--metrics-port",
    type=click.IntRange(-1, 65_535),
    help="Port of the Prometheus metrics; 0 for any free port, -1 for none.",
)
@click.option(
    "--drain-timeout",
    type=DURATION,
    help="How long a worker may take to finish, such as 20s; others take over the rest.",
)
@click.pass_context
def worker(
    ctx: click.Context,
    processes: int | None,
    name: str | None,
    channels: tuple[str, ...],
    tiers: str | None,
    metrics_port: int | None,
    drain_timeout: float | None,
) -> int | None:
    """Run workers. On SIGTERM, SIGINT or SIGHUP they finish the work they have claimed, and exit."""
    if ctx.invoked_subcommand is not None:
        return None
    from fairlane.worker.process.process import run_workers

    given: dict[str, Any] = {
        "processes": processes,
        "name": name,
        "tiers": tiers.split(",") if tiers else None,
        "metrics_port": metrics_port,
        "drain_timeout_s": drain_timeout,
        "channels": named_values("--channel", channels, "NAME=MODULE:CLASS"),
    }
    options = {field: value for field, value in given.items() if value is not None and value != {}}
    invocation = ctx.ensure_object(Invocation)
    code = run_workers(Invocation({**invocation.options, "worker": options}).settings())
    ctx.exit(code)


@worker.command("list")
@click.option("--all", "everybody", is_flag=True, help="Include workers that stopped in the last hour.")
@output_option
@pass_settings
def list_workers(settings: "Settings", *, everybody: bool, output: Output) -> None:
    """Show the workers: state, lanes, targets in flight and buffered, targets sent per second."""
    from backends.redis.view import open_view
    from backends.redis.workers import Workers
    from fairlane.screen.render import workers_table

    with closing(open_view(settings.redis)) as view:
        beats, now_ms = Workers(view).workers(), view.now_ms()
    shown = [beat for beat in beats if everybody or beat.state != "stopped"]
    fields = [fields_of(beat, now_ms) for beat in shown]
    output.emit(fields, lambda: workers_table(shown, fields))


def fields_of(beat: "WorkerBeat", now_ms: int) -> dict[str, Any]:
    """Return the printed fields of one worker; granted and sent count targets since it started."""
    return {
        "id": beat.id,
        "state": beat.state,
        "host": beat.host,
        "pid": beat.pid,
        "version": beat.version,
        "lanes": beat.lanes,
        "in_flight": beat.in_flight,
        "buffered": beat.buffered,
        "rate": round(beat.rate, 1),
        "sent": sum(stats.sent for stats in beat.tiers.values()),
        "tiers": {tier: {"granted": stats.granted, "sent": stats.sent} for tier, stats in beat.tiers.items()},
        "metrics_port": beat.metrics_port or None,
        "uptime_s": round((beat.seen_ms - beat.started_ms) / 1000, 1),
        "seen_s_ago": round(max(0, now_ms - beat.seen_ms) / 1000, 1),
    }
