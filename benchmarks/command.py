"""`python -m benchmarks`: measure throughput, shares, latency, fairness, memory and idle cost on the real servers."""

from typing import get_args

import click

from backends.settings import Compression
from benchmarks.delivery.command import delivery, delivery_trial
from benchmarks.estate.command import estate_day, estate_faults, estate_sizes
from benchmarks.measured import Benchmark, chunk_option, measured, number_option
from benchmarks.results.measures import COMMANDS, measure_all
from benchmarks.results.page import write_page
from dispatcher.model.errors import FairlaneError
from fairlane.cli.base.exit_codes import FAILURE
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.output import Output, output_option, say
from fairlane.cli.base.settings import settings_of

API_PARTS = ("submit", "upload", "kill", "live", "events")


@click.group(cls=CommandGroup)
def bench() -> None:
    """Measure this machine with real worker processes in a tenant of its own, which is deleted afterwards.

    Figures are medians (with minimum and maximum) of --runs runs; seeds are fixed.
    """


@bench.command()
@chunk_option(1)
@number_option(
    "--targets", "count", min_value=1_000, text="Number of targets (1,000,000 at chunk 1, 15,000,000 from 15 on)."
)
@measured
def throughput(chunk: int, count: int | None) -> Benchmark:
    """Measure throughput on an existing backlog.

    Measures submission, two workers, the client's bare loop on the same messages, and CPU per envelope.
    """
    from benchmarks.throughput import Load, default_count, run

    targets = count or default_count(chunk)
    return f"throughput chunk {chunk}", lambda settings, seed: run(settings, Load(chunk, targets, seed), say)


@bench.command()
@click.option("--low-only", is_flag=True, help="One of the two workers holds only low lanes.")
@measured
def shares(*, low_only: bool) -> Benchmark:
    """Measure the shares of the tiers at 2,000/s, all with a backlog: the worst deviation in four windows of 5 s."""
    from benchmarks.shares import run

    return "shares", lambda settings, seed: run(settings, seed, say, one_holds_low_only=low_only)


@bench.command()
@number_option("--workers", min_value=1, max_value=50, default=8, text="Workers started at the same time.")
@click.option("--no-capacity", is_flag=True, help="Set no capacity: the workers are the limit, 0.1 s a call.")
@measured
def laws(workers: int, *, no_capacity: bool) -> Benchmark:
    """Judge every delivery while all tiers have a backlog.

    Shows the worst deviation in any 10,000 targets and in any 10 s and, at the 2,000/s that are set, the most targets
    in any second.
    """
    from benchmarks.laws import run, run_uncapped

    one_run, what = (run_uncapped, ", no capacity") if no_capacity else (run, "")
    return f"laws {workers} workers{what}", lambda settings, seed: one_run(settings, seed, workers, say)


@bench.command("full-speed")
@number_option("--workers", min_value=1, max_value=50, default=1, text="Workers started at the same time.")
@number_option("--chunk", min_value=1, max_value=500, default=500, text="Targets per envelope.")
@number_option("--seconds", min_value=1, max_value=600, default=6, text="Approximate duration.")
@measured
def full_speed(workers: int, chunk: int, seconds: int) -> Benchmark:
    """Judge every delivery with no capacity set and a channel that takes no time.

    Shows how far any 10,000 targets and any second deviate from the shares.
    """
    from benchmarks.full_speed import Backlog, run

    backlog = Backlog(chunk, seconds)
    return f"full-speed {workers} workers, {chunk} an envelope", lambda settings, seed: run(
        settings, seed, workers, backlog, say
    )


@bench.command()
@measured
def latency() -> Benchmark:
    """Measure a new high task of 10 targets among a backlog of 250,000 at 2,000/s: from submit to delivery."""
    from benchmarks.latency import run

    return "latency", lambda settings, seed: run(settings, seed, say)


@bench.command()
@measured
def controls() -> Benchmark:
    """Measure how soon live controls take effect at 2,000/s, with eight workers and a million targets queued.

    The controls: weight, tier, pause, cap, tiers, many tasks by a filter, a channel's pause, a message and a cancel.

    Shows the seconds until the shares of a second are as expected (a channel's pause: until nothing is sent in a
    second; an edit: until the last delivery of the old message, and the targets sent with it meanwhile), the targets in
    flight at the cancel, and those sent after it.
    """
    from benchmarks.controls import run

    return "controls", lambda settings, seed: run(settings, seed, say)


@bench.command()
@measured
def fairness() -> Benchmark:
    """Measure one task of 100,000 and nine of 1,000 in a tier at 2,000/s: times of the small ones over fair times."""
    from benchmarks.fairness import run

    return "fairness", lambda settings, seed: run(settings, seed, say)


@bench.command()
@measured
def idle() -> Benchmark:
    """Measure the CPU of a worker that holds 500 live lanes with no messages."""
    from benchmarks.resources import idle as run

    return "idle", lambda settings, _seed: run(settings, say)


@bench.command()
@measured
def memory() -> Benchmark:
    """Measure the maximum memory of a submission and of a worker.

    The submission has 10 million targets; the worker has a backlog of these and 5 million more.
    """
    from benchmarks.resources import memory as run

    return "memory", lambda settings, _seed: run(settings, say)


@bench.command()
@chunk_option(1)
@number_option("--rate", min_value=1, default=25_000, text="Total targets/s.")
@measured
def steady(chunk: int, rate: int) -> Benchmark:
    """Measure a steady load on existing lanes, a task a tier: from published to sent, p50 and p99."""
    from benchmarks.steady import SteadyLoad, run

    return f"steady chunk {chunk}", lambda settings, _seed: run(settings, SteadyLoad(rate, chunk), say)


@bench.command()
@number_option("--lanes", min_value=1, default=100_000, text="Backlogged lanes.")
@click.option("--mixed", is_flag=True, help="Random weights and sizes instead of equal ones.")
@measured
def picks(lanes: int, *, mixed: bool) -> Benchmark:
    """Measure the scheduler alone, on one thread, without servers: picks per second."""
    from benchmarks.picks import run

    return f"picks {lanes}", lambda _settings, seed: run(lanes, seed, mixed=mixed)


@bench.command()
@measured
def rendering() -> Benchmark:
    """Measure a message of fcm and apns, on one thread, without servers: microseconds to render or check a target."""
    from benchmarks.rendering import run

    return "rendering", lambda _settings, _seed: run()


bench.add_command(delivery)
bench.add_command(delivery_trial)
bench.add_command(estate_faults)
bench.add_command(estate_day)
bench.add_command(estate_sizes)


@bench.command("many-lanes")
@number_option("--lanes", min_value=1, default=10_000, text="Live lanes besides the busy ones.")
@number_option("--targets", "count", min_value=1_000, default=600_000, text="Targets in the busy lanes.")
@chunk_option(1)
@measured
def many_lanes(lanes: int, count: int, chunk: int) -> Benchmark:
    """Measure many live lanes of which 20 are busy, against the 20 alone before and after.

    Also measures the idle cost, and the first send of new high tasks among them.
    """
    from benchmarks.many_lanes import ManyLanes, run

    return f"many-lanes {lanes}", lambda settings, seed: run(settings, ManyLanes(lanes, count, chunk, seed), say)


@bench.command("many-tasks")
@number_option("--tasks", min_value=1, default=10_000, text="Number of tasks.")
@number_option("--targets", min_value=1, default=100, text="Targets per task.")
@measured
def many_tasks(tasks: int, targets: int) -> Benchmark:
    """Measure small tasks with a lane each: seconds until all are delivered, and what is left 2 minutes later."""
    from benchmarks.many_tasks import ManyTasks, run

    return f"many-tasks {tasks}", lambda settings, _seed: run(settings, ManyTasks(tasks, targets), say)


@bench.command()
@number_option("--lanes", min_value=2, default=1_000, text="Backlogged lanes of one tier.")
@number_option("--max-lanes", min_value=1, default=200, text="Maximum lanes that a worker is attached to.")
@chunk_option(20)
@number_option("--rate", min_value=1, default=2_000, text="Capacity, targets/s.")
@measured
def rotation(lanes: int, max_lanes: int, chunk: int, rate: int) -> Benchmark:
    """Measure more backlogged lanes than workers attach to: Jain's index of what each was sent in a minute."""
    from benchmarks.rotation import Turns, run

    return f"rotation {lanes}", lambda settings, seed: run(settings, Turns(lanes, max_lanes, rate, chunk, seed), say)


@bench.command()
@number_option("--targets", "count", min_value=20_000, default=10_000_000, text="Number of targets.")
@chunk_option(10)
@click.option(
    "--snapshot/--no-snapshot",
    default=True,
    show_default=True,
    help="Store a snapshot before the last tenth of them is sent.",
)
@measured
def rebuild(count: int, chunk: int, *, snapshot: bool) -> Benchmark:
    """Empty Redis behind a history of sent targets.

    Shows the seconds until grants begin again, counted from the emptying and from the end of the longest claim made
    before.
    """
    from benchmarks.rebuild import History, run

    name = f"rebuild {count} chunk {chunk}{'' if snapshot else ' no snapshot'}"
    return name, lambda settings, seed: run(settings, History(count, chunk, snapshot, seed), say)


@bench.command()
@number_option("--targets", "count", min_value=50_000, default=1_000_000, text="Number of targets, 500 per envelope.")
@measured
def fold(count: int) -> Benchmark:
    """Measure the largest calls of Redis' scripts under mixed outcomes.

    Workers send to a provider that refuses a fifth of all first attempts and a tenth of all targets; the calls are
    replayed on an idle Redis.
    """
    from benchmarks.fold import Outcomes, run

    return f"fold {count}", lambda settings, seed: run(settings, Outcomes(count, seed), say)


@bench.command("catch-up")
@number_option("--mb", min_value=20, max_value=20_000, default=600, text="Size of the backlog.")
@number_option(
    "--mb-s", min_value=0, max_value=10_000, default=0, text="Megabytes of it read in a second; 0 for no bound."
)
@measured
def catch_up(mb: int, mb_s: int) -> Benchmark:
    """Read a backlog from disk beside eight lanes that are read as they are written, on the local estate.

    Shows the time from publishing to receiving in these lanes: while nothing else happens, while the backlog is read
    from the page cache, and after its entry logs were dropped from there. Needs `fairlane stack up --bookies 3
    --brokers 2`.
    """
    from benchmarks.catch_up import Backlog, run

    return f"catch-up {mb} MB", lambda settings, _seed: run(settings, Backlog(mb, mb_s), say)


@bench.command()
@number_option("--partitions", min_value=2, max_value=64, default=4, text="Partitions of the topic.")
@chunk_option(1)
@number_option(
    "--targets", "count", min_value=1_000, text="Number of targets (200,000 at chunk 1, 10,000,000 from 50 on)."
)
@click.option(
    "--compression",
    type=click.Choice(get_args(Compression)),
    default="lz4",
    show_default=True,
    help="Compression of the tuned producer.",
)
@click.option("--blocked", is_flag=True, help="Use two private brokers instead, one of which stops for 10 s.")
@measured
def producer(partitions: int, chunk: int, count: int | None, compression: Compression, *, blocked: bool) -> Benchmark:
    """Compare the client's defaults with the tuned producer on a topic with partitions.

    Shows rate, CPU of producer and broker, bytes on the wire, entries and times, each per target.
    """
    from benchmarks.producer import ProducerLoad, run, run_blocked

    targets = count or min(200_000 * chunk, 10_000_000)
    measure = run_blocked if blocked else run
    name = f"producer {'blocked ' if blocked else ''}chunk {chunk}, {partitions} partitions, {compression}"
    return name, lambda settings, seed: measure(
        settings, ProducerLoad(chunk, targets, partitions, seed, compression), say
    )


@bench.command()
@number_option("--rows", min_value=1_000, default=10_000_000, text="Rows of the table.")
@click.option("--master", metavar="URL", default="local[*]", show_default=True, help="Where Spark runs.")
@click.option(
    "--memory", metavar="SIZE", default="1g", show_default=True, help="Memory of Spark's driver and executors."
)
@number_option("--kills", min_value=0, default=0, text="Number of executors to kill in mid-run.")
@number_option("--driver-kills", min_value=0, default=0, text="Number of drivers to kill before that.")
@measured
def ingest(rows: int, master: str, memory: str, kills: int, driver_kills: int) -> Benchmark:
    """Turn a Parquet table into a task, beside the same job that writes Parquet.

    The table has targets of 60 characters, a variable, 1 % duplicates and 0.5 % invalid rows. Shows the seconds after
    the session's start, and memory.

    With --kills or --driver-kills on a private cluster (Spark's master and two workers): targets missing and doubled,
    counted by the channel.
    """
    if kills or driver_kills:
        from benchmarks.ingest_kills import Kills
        from benchmarks.ingest_kills import run as run_kills

        lost = Kills(rows, memory, kills, driver_kills)
        return f"ingest {rows}, {kills} executors and {driver_kills} drivers killed", (
            lambda settings, _seed: run_kills(settings, lost, say)
        )
    from benchmarks.ingest import Table, run

    return f"ingest {rows}", lambda settings, _seed: run(settings, Table(rows, master, memory), say)


@bench.command()
@number_option("--outcomes", min_value=1_000, default=10_000_000, text="Outcomes in the journal.")
@click.option("--master", metavar="URL", default="local[*]", show_default=True, help="Where Spark runs.")
@measured
def report(outcomes: int, master: str) -> Benchmark:
    """Measure the report on the backlog over a synthetic day: 8,640 snapshots and the journal.

    Shows the seconds after the session's start, CPU and memory. Needs no servers.
    """
    from benchmarks.table_jobs import measure_report

    return f"report {outcomes}", lambda _settings, seed: measure_report(outcomes, master, seed, say)


@bench.command()
@number_option("--targets", min_value=1_000, default=10_000_000, text="Targets of the audience.")
@click.option("--master", metavar="URL", default="local[*]", show_default=True, help="Where Spark runs.")
@measured
def reconcile(targets: int, master: str) -> Benchmark:
    """Compare a synthetic task and its journal with its audience, target by target, with some planted differences.

    Shows the seconds after the session's start, CPU and memory. Needs no servers.
    """
    from benchmarks.table_jobs import measure_reconcile

    return f"reconcile {targets}", lambda _settings, seed: measure_reconcile(targets, master, seed, say)


@bench.command()
@click.option("--minutes", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Minutes with faults.")
@click.option("--seed", type=int, default=2026, show_default=True, help="Seed of the faults and the tasks.")
@output_option
@click.pass_context
def nemesis(ctx: click.Context, output: Output, minutes: float, seed: int) -> None:
    """Apply random faults to private servers, and check that no target is lost, never ended, or called twice.

    The checker is independent of Fairlane. Two brokers and two Redis are started, three workers and two submitters.
    Exits with 1 if a target is lost, never ended, or called twice although its first worker was neither killed, stopped
    nor cut off.
    """
    from benchmarks.nemesis.run import Trial, run

    report = run(settings_of(ctx), Trial(seed, minutes * 60), say)
    for line in report.examples():
        say(line)
    output.emit_document(report.document(), report.rows())
    if not report.holds:
        ctx.exit(FAILURE)


@bench.command()
@number_option("--live", min_value=1_000, default=100_000, text="Live tasks beside which lists are read.")
@number_option("--targets", "upload", min_value=10_000, default=10_000_000, text="Targets of the upload.")
@click.option("--only", "parts", multiple=True, type=click.Choice(API_PARTS), help="This part; repeatable.")
@measured
def api(live: int, upload: int, parts: tuple[str, ...]) -> Benchmark:
    """Measure the HTTP API, its server on one core: requests, lists, an upload, events and revoked keys.

    Small tasks and the upload are submitted by the client library and the command line as well, in the same run. A
    server is killed in the middle of an upload, which is then sent again: targets missing and doubled, counted by the
    channel.
    """
    from benchmarks.api.run import ApiLoad, run

    load = ApiLoad(live, upload, parts or API_PARTS)
    return f"api {live} live, {upload} uploaded", lambda settings, _seed: run(settings, load, say)


@bench.command("all")
@click.option("--only", "names", multiple=True, type=click.Choice(list(COMMANDS)), help="This measure; repeatable.")
def measure_everything(names: tuple[str, ...]) -> None:
    """Run what benchmarks/RESULTS.md shows, store the figures, and write the page: one to two hours.

    Peers, Kafka and whatever needs other servers run with --only. Exits with 1 if a measure failed.
    """
    failed = measure_all(names)
    write_page()
    if failed:
        raise FairlaneError(f"These measures failed: {', '.join(failed)}.")


@bench.command("page")
def page() -> None:
    """Write benchmarks/RESULTS.md and its pictures from the stored figures."""
    write_page()
