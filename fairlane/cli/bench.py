"""`fairlane bench`: measure throughput, shares, latency, fairness, memory and idle cost on the real servers."""

from collections.abc import Callable
from typing import Any

import click

from fairlane.cli.connect import settings_of
from fairlane.cli.groups import CommandGroup
from fairlane.cli.output import Output, output_option, say
from fairlane.settings import Settings

Run = Callable[[Settings, int], dict[str, float]]


@click.group(cls=CommandGroup)
def bench() -> None:
    """Measure this machine: a tenant of its own, real worker processes, cleared away afterwards.

    Figures are medians (with least and most) of --runs runs; seeds are fixed.
    """


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        output_option,
        click.option("--seed", type=int, default=2026, show_default=True, help="Of the made-up targets."),
        click.option("--runs", type=click.IntRange(1), default=5, show_default=True, help="How often to repeat."),
        click.pass_context,
    ):
        command = option(command)
    return command


def _repeat(ctx: click.Context, output: Output, name: str, runs: int, seed: int, run: Run) -> None:
    from fairlane.bench.stage import Figures, machine

    figures = Figures()
    for number in range(runs):
        found = run(settings_of(ctx), seed + 1_000 * number)
        figures.add(found)
        say(f"{name} {number + 1}/{runs}: " + ", ".join(f"{key} {value:,.4g}" for key, value in found.items()))
    summary = figures.summary()
    document = {"benchmark": name, "runs": runs, "seed": seed, "machine": machine(), "figures": summary}
    output.emit_document(document, [{"figure": key, **value} for key, value in summary.items()])


@bench.command()
@click.option("--chunk", type=click.IntRange(1, 500), default=1, show_default=True, help="Targets per envelope.")
@click.option(
    "--targets", "count", type=click.IntRange(1_000), help="Targets in all (300,000 at 1, 15,000,000 at 500)."
)
@_options
def throughput(ctx: click.Context, output: Output, chunk: int, count: int | None, runs: int, seed: int) -> None:
    """Submission, two workers on a standing backlog, the client's bare loop on the same messages, CPU an
    envelope."""
    from fairlane.bench.throughput import Load, default_count, run

    def once(settings: Settings, run_seed: int) -> dict[str, float]:
        return run(settings, Load(chunk, count or default_count(chunk), run_seed), say)

    _repeat(ctx, output, f"throughput chunk {chunk}", runs, seed, once)


@bench.command()
@click.option("--low-only", is_flag=True, help="One of the two workers holds only low lanes.")
@_options
def shares(ctx: click.Context, output: Output, low_only: bool, runs: int, seed: int) -> None:
    """Shares of the tiers at 2,000/s, all backlogged: the worst deviation in any 5-s window."""
    from fairlane.bench.shares import run

    _repeat(ctx, output, "shares", runs, seed, lambda settings, run_seed: run(settings, run_seed, low_only, say))


@bench.command()
@click.option("--workers", type=click.IntRange(1, 50), default=8, show_default=True, help="Started at once.")
@_options
def laws(ctx: click.Context, output: Output, workers: int, runs: int, seed: int) -> None:
    """Every delivery at 2,000/s, all tiers backlogged: the worst of any 10,000 targets, of any 10 s, and the most in
    any second."""
    from fairlane.bench.laws import run

    _repeat(ctx, output, f"laws {workers} workers", runs, seed, lambda own, run_seed: run(own, run_seed, workers, say))


@bench.command()
@_options
def latency(ctx: click.Context, output: Output, runs: int, seed: int) -> None:
    """A new high task of 10 targets among a backlog of 250,000 at 2,000/s: from submit to delivery."""
    from fairlane.bench.latency import run

    _repeat(ctx, output, "latency", runs, seed, lambda settings, run_seed: run(settings, run_seed, say))


@bench.command()
@_options
def controls(ctx: click.Context, output: Output, runs: int, seed: int) -> None:
    """Weight, tier, pause, cap and tiers changed at 2,000/s, eight workers, a million targets queued: seconds until the
    shares of a second are as they should be."""
    from fairlane.bench.controls import run

    _repeat(ctx, output, "controls", runs, seed, lambda settings, run_seed: run(settings, run_seed, say))


@bench.command()
@_options
def fairness(ctx: click.Context, output: Output, runs: int, seed: int) -> None:
    """One task of 100,000 and nine of 1,000 in a tier at 2,000/s: times of the small ones over their fair time."""
    from fairlane.bench.fairness import run

    _repeat(ctx, output, "fairness", runs, seed, lambda settings, run_seed: run(settings, run_seed, say))


@bench.command()
@_options
def idle(ctx: click.Context, output: Output, runs: int, seed: int) -> None:
    """CPU of a worker that holds 500 live lanes with no messages."""
    from fairlane.bench.resources import idle as run

    _repeat(ctx, output, "idle", runs, seed, lambda settings, _seed: run(settings, say))


@bench.command()
@_options
def memory(ctx: click.Context, output: Output, runs: int, seed: int) -> None:
    """Most memory of submitting 10 million targets, and of a worker before a backlog of 5 million."""
    from fairlane.bench.resources import memory as run

    _repeat(ctx, output, "memory", runs, seed, lambda settings, _seed: run(settings, say))


@bench.command()
@click.option("--chunk", type=click.IntRange(1, 500), default=1, show_default=True, help="Targets per envelope.")
@click.option("--rate", type=click.IntRange(1), default=25_000, show_default=True, help="Targets/s in all.")
@_options
def steady(ctx: click.Context, output: Output, chunk: int, rate: int, runs: int, seed: int) -> None:
    """A steady load on existing lanes, a task a tier: from published to sent, p50 and p99."""
    from fairlane.bench.steady import SteadyLoad, run

    load = SteadyLoad(rate, chunk)
    _repeat(ctx, output, f"steady chunk {chunk}", runs, seed, lambda settings, _seed: run(settings, load, say))


@bench.command()
@click.option("--lanes", type=click.IntRange(1), default=100_000, show_default=True, help="Backlogged lanes.")
@click.option("--mixed", is_flag=True, help="Random weights and sizes instead of equal ones.")
@_options
def picks(ctx: click.Context, output: Output, lanes: int, mixed: bool, runs: int, seed: int) -> None:
    """The scheduler alone, on one thread, without servers: picks per second."""
    from fairlane.bench.picks import run

    _repeat(ctx, output, f"picks {lanes}", runs, seed, lambda _settings, run_seed: run(lanes, run_seed, mixed))


@bench.command("many-lanes")
@click.option("--lanes", type=click.IntRange(1), default=10_000, show_default=True, help="Live lanes besides the busy.")
@click.option("--targets", "count", type=click.IntRange(1_000), default=600_000, show_default=True, help="Of the busy.")
@click.option("--chunk", type=click.IntRange(1, 500), default=1, show_default=True, help="Targets per envelope.")
@_options
def many_lanes(ctx: click.Context, output: Output, lanes: int, count: int, chunk: int, runs: int, seed: int) -> None:
    """Live lanes of which 20 are busy, against the 20 alone; idle cost; first send of new high tasks among them."""
    from fairlane.bench.many_lanes import ManyLanes, run

    def once(settings: Settings, run_seed: int) -> dict[str, float]:
        return run(settings, ManyLanes(lanes, count, chunk, run_seed), say)

    _repeat(ctx, output, f"many-lanes {lanes}", runs, seed, once)


@bench.command("many-tasks")
@click.option("--tasks", type=click.IntRange(1), default=10_000, show_default=True, help="Tasks in all.")
@click.option("--targets", type=click.IntRange(1), default=100, show_default=True, help="Targets of each.")
@_options
def many_tasks(ctx: click.Context, output: Output, tasks: int, targets: int, runs: int, seed: int) -> None:
    """Small tasks with a lane each, from one process: seconds until all are delivered, what is left 2 minutes later."""
    from fairlane.bench.many_tasks import ManyTasks, run

    load = ManyTasks(tasks, targets)
    _repeat(ctx, output, f"many-tasks {tasks}", runs, seed, lambda settings, _seed: run(settings, load, say))


@bench.command()
@click.option("--lanes", type=click.IntRange(2), default=1_000, show_default=True, help="Backlogged lanes of one tier.")
@click.option(
    "--max-lanes", type=click.IntRange(1), default=200, show_default=True, help="That a worker is attached to."
)
@click.option("--chunk", type=click.IntRange(1, 500), default=20, show_default=True, help="Targets per envelope.")
@click.option("--rate", type=click.IntRange(1), default=2_000, show_default=True, help="Capacity, targets/s.")
@_options
def rotation(
    ctx: click.Context, output: Output, lanes: int, max_lanes: int, chunk: int, rate: int, runs: int, seed: int
) -> None:
    """More backlogged lanes than the workers are attached to: Jain's index of what each was sent in a minute."""
    from fairlane.bench.rotation import Turns, run

    def once(settings: Settings, run_seed: int) -> dict[str, float]:
        return run(settings, Turns(lanes, max_lanes, rate, chunk, run_seed), say)

    _repeat(ctx, output, f"rotation {lanes}", runs, seed, once)


@bench.command()
@click.option("--targets", "count", type=click.IntRange(20_000), default=10_000_000, show_default=True, help="In all.")
@click.option("--chunk", type=click.IntRange(1, 500), default=10, show_default=True, help="Targets per envelope.")
@click.option("--snapshot/--no-snapshot", default=True, show_default=True, help="Stored before the last tenth of them.")
@_options
def rebuild(ctx: click.Context, output: Output, count: int, chunk: int, snapshot: bool, runs: int, seed: int) -> None:
    """Redis emptied behind a history of sent targets: seconds until grants begin again, counted from the emptying and
    from the end of the longest claim made before."""
    from fairlane.bench.rebuild import History, run

    def once(settings: Settings, run_seed: int) -> dict[str, float]:
        return run(settings, History(count, chunk, snapshot, run_seed), say)

    _repeat(ctx, output, f"rebuild {count} chunk {chunk}{'' if snapshot else ' no snapshot'}", runs, seed, once)
