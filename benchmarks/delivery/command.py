"""The commands of `python -m benchmarks` about delivery to a provider."""

from typing import TYPE_CHECKING

import click

from benchmarks.measured import Benchmark, measured, number_option
from fairlane.cli.base.output import say

if TYPE_CHECKING:
    from fairlane.settings import Settings


@click.command()
@number_option("--latency-ms", min_value=0, default=80, text="Time until the server answers.")
@number_option("--connections", min_value=1, default=10, text="Connections.")
@number_option("--streams", min_value=1, default=100, text="Concurrent requests on each of them.")
@number_option("--requests", "count", min_value=1_000, default=100_000, text="Requests.")
@click.option("--with-engine", is_flag=True, help="A worker with the channel fcm beside it, on the real servers.")
@click.option("--http", is_flag=True, help="Only a worker with the channel http, on the real servers.")
@measured
def delivery(
    latency_ms: int, connections: int, streams: int, count: int, *, with_engine: bool, http: bool
) -> Benchmark:
    """Measure the HTTP/2 client alone, on one core, against a server on another: rate, CPU and time of a request.

    With --with-engine also a worker that sends the same requests: with engine, ledger, records and verdicts. With
    --http a worker that posts envelopes of one target to a server of HTTP/1.1 instead.
    """
    from benchmarks.delivery import client_alone

    load = client_alone.Load(connections=connections, streams=streams, requests=count)

    def run(settings: "Settings", _seed: int) -> dict[str, float]:
        if http:
            from benchmarks.delivery.with_engine import run_posts

            return run_posts(settings, load, latency_ms, say)
        alone = client_alone.run(load, latency_ms)
        if not with_engine:
            return alone
        from benchmarks.delivery.with_engine import run as run_worker

        worker = run_worker(settings, load, latency_ms, say)
        return {
            **{f"client_{name}": value for name, value in alone.items()},
            **{f"worker_{name}": value for name, value in worker.items()},
            "worker_to_client": worker["requests_s"] / alone["requests_s"],
        }

    name = "delivery http" if http else f"delivery {connections} x {streams}"
    return f"{name}, {latency_ms} ms", run


@click.command("delivery-trial")
@click.argument("trouble", type=click.Choice(("kills", "outage", "neighbour", "cap", "pause")))
@number_option("--targets", "count", min_value=1_000, default=100_000, text="Targets (of kills and outage).")
@number_option("--seconds", min_value=3, default=120, text="How long the trouble lasts (neighbour: 20).")
@number_option("--workers", min_value=1, default=2, text="Workers (of cap and pause).")
@measured
def delivery_trial(trouble: str, count: int, seconds: int, workers: int) -> Benchmark:
    """Let a fake FCM judge what becomes of targets in trouble, or of caps and pauses.

    \b
    kills      every 3 s a worker is killed, and 1.5 s later all connections are cut
    outage     the provider is silent, then cannot be reached, then answers 503, for a third of the time each
    neighbour  an app's small tasks are timed before and while another app's endpoint hangs
    cap        a cap of 2,000/s at rest, while workers stop for 2 s, and while the fake does
    pause      an app is paused five times; counts the requests from 2 s after that
    """
    from benchmarks.delivery import capped, judged, neighbour

    trial = judged.Trial(targets=count, seconds=seconds)
    runs = {
        "kills": lambda settings: judged.kills(settings, trial, say),
        "outage": lambda settings: judged.outage(settings, trial, say),
        "neighbour": lambda settings: neighbour.run(settings, say),
        "cap": lambda settings: capped.cap(settings, seconds, workers, say),
        "pause": lambda settings: capped.pause(settings, seconds, workers, say),
    }
    return f"delivery-trial {trouble}", lambda settings, _seed: runs[trouble](settings)
