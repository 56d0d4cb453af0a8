"""Compares producers on a topic with partitions: the client's defaults and the tuned settings.

Also measures what the router saves while a partition's broker is stopped.
"""

import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from backends.pulsar import client as pulsar_client
from backends.pulsar.admin import PulsarAdmin
from backends.settings import Compression
from benchmarks.estate_brokers import BlockedTopic, blocked_topic
from benchmarks.producer_process import Published, Spec
from benchmarks.resources import cpu_s
from dispatcher.wire.topics import topics_of_lane
from fairlane.settings import Settings
from lab.isolation import isolated, provisioned
from lab.stack import state as states
from lab.stack.homes import Home

VARIANTS = ("defaults", "batched", "tuned")
"""The client's defaults; the same with batching on; the settings that submissions use."""
PACED_S = 5.0
PACED_TARGETS_S = 100_000
PACED_MESSAGES_S = 2_000
"""The rate at which times are compared: all variants can keep up with it."""
BEFORE_S, STOPPED_S, AFTER_S = 6.0, 10.0, 4.0
SETTLE_S = 1.0
"""Time after a start or a stop that counts for neither side."""
Samples = Sequence[tuple[float, int]]


@dataclass(frozen=True)
class ProducerLoad:
    """Size of the load."""

    chunk: int
    """Targets per message."""
    count: int
    """Number of targets in all."""
    partitions: int
    """Partitions of the topic."""
    seed: int
    compression: Compression = "lz4"
    """Compression of the tuned producer."""


def run(settings: Settings, load: ProducerLoad, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run of each variant at full speed, and one at a rate that all of them keep up with."""
    own = isolated(settings, f"bench-{secrets.token_hex(3)}", 1)
    figures: dict[str, float] = {}
    turn = load.seed // 1_000 % len(VARIANTS)
    with provisioned(own):
        for variant in VARIANTS[turn:] + VARIANTS[:turn]:
            say(f"{variant}: {load.count:,} targets, {load.chunk} a message")
            figures |= {f"{variant}_{name}": value for name, value in _measured(own, variant, load).items()}
    return {name: figures[name] for variant in VARIANTS for name in figures if name.startswith(variant)} | {
        f"tuned_to_{plain}_{name}": figures[f"tuned_{name}"] / figures[f"{plain}_{name}"]
        for plain in ("defaults", "batched")
        for name in ("targets_s", "producer_us", "broker_us", "wire_bytes", "entries")
        if figures.get(f"{plain}_{name}")
    }


def _measured(own: Settings, variant: str, load: ProducerLoad) -> dict[str, float]:
    """Return the figures of one variant; *_us and wire_bytes are per target."""
    names, broker = pulsar_client.topics(own.pulsar), broker_pid(own)
    with closing(PulsarAdmin(own.pulsar)) as admin:
        topic = names.own_lane(variant)
        admin.create_lane(topic, load.partitions)
        spec = Spec(
            url=str(own.pulsar.address),
            topic=topic,
            partitions=load.partitions,
            variant="router" if variant == "tuned" else variant,
            chunk=load.chunk,
            messages=load.count // load.chunk,
            seed=load.seed,
            compression=load.compression,
        )
        before_s = cpu_s(broker) if broker else 0.0
        fast = published(spec)
        spent_s = cpu_s(broker) - before_s if broker else 0.0
        entries = sum(admin.backlog(name) for name in topics_of_lane(topic, load.partitions))
        rate = min(PACED_MESSAGES_S, PACED_TARGETS_S / load.chunk)
        paced = published(msgspec.structs.replace(spec, messages=round(rate * PACED_S), rate=rate))
        admin.delete_topic(topic, force=True)
    targets = fast.messages * load.chunk
    return {
        "targets_s": targets / fast.seconds,
        "producer_us": fast.cpu_s / targets * 1e6,
        **({"broker_us": spent_s / targets * 1e6} if broker else {}),
        "wire_bytes": fast.wire_bytes / targets,
        "entries": float(entries),
        "p99_ms": fast.p99_ms,
        "paced_p99_ms": paced.p99_ms,
        "resident_mib": fast.resident_mib,
    }


def broker_pid(settings: Settings) -> int | None:
    """Return the process id of the broker, if it is the local stack's."""
    server = states.load(Home(settings.home_folder).state_file).living().pulsar
    if server is None or not settings.pulsar.address.endswith(f":{server.ports['broker']}"):
        return None
    return server.pid


@contextmanager
def publishing(spec: Spec) -> Iterator["subprocess.Popen[str]"]:
    """Yield a process that has just begun to publish."""
    command = [sys.executable, "-m", "benchmarks.producer_process", msgspec.json.encode(spec).decode()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdout.readline()
            process.stdin.write("go\n")
            process.stdin.flush()
            yield process
        except BaseException:
            process.kill()
            raise


def published(spec: Spec) -> Published:
    with publishing(spec) as process:
        return _result(process)


def _result(process: "subprocess.Popen[str]") -> Published:
    output, _ = process.communicate(timeout=300)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return msgspec.json.decode(output, type=Published)


# ---------------------------------------------------------------- one broker is stopped
def run_blocked(settings: Settings, load: ProducerLoad, say: Callable[[str], None]) -> dict[str, float]:
    """Publish with the same settings while one of two brokers is stopped for 10 s.

    Compares the client with its own routing and the router.
    """
    figures: dict[str, float] = {}
    folder = Path(tempfile.mkdtemp(prefix="fairlane-brokers-"))
    with blocked_topic(folder, settings.cache_folder, load.partitions, say) as topic:
        figures["blocked_partitions"] = float(len(topic.blocked))
        for variant in ("client", "router"):
            say(f"{variant}: the second broker stops after {BEFORE_S:g} s, for {STOPPED_S:g} s")
            counts = _stopped_meanwhile(topic, variant, load)
            figures |= {f"{variant}_{name}": value for name, value in counts.items()}
    return figures


def _stopped_meanwhile(topic: BlockedTopic, variant: str, load: ProducerLoad) -> dict[str, float]:
    seconds = BEFORE_S + STOPPED_S + AFTER_S
    spec = Spec(
        url=topic.brokers.url(0),
        topic=topic.topic,
        partitions=load.partitions,
        variant=variant,
        chunk=load.chunk,
        seconds=seconds,
        seed=load.seed,
    )
    with publishing(spec) as process:
        began_s = time.monotonic()
        time.sleep(BEFORE_S)
        topic.pause()
        stopped_s = time.monotonic()
        try:
            time.sleep(STOPPED_S)
        finally:
            topic.go_on()
        ended_s = time.monotonic()
        result = _result(process)
    before = rate_between(result.samples, began_s + SETTLE_S, stopped_s) * load.chunk
    stopped = rate_between(result.samples, stopped_s + SETTLE_S, ended_s) * load.chunk
    return {
        "before_targets_s": before,
        "stopped_targets_s": stopped,
        "stopped_to_before": stopped / before,
        "stood_still_s": longest_still_s(result.samples, began_s + SETTLE_S, ended_s + AFTER_S),
        "all_targets_s": result.messages * load.chunk / result.seconds,
        "resident_mib": result.resident_mib,
    }


def rate_between(samples: Samples, from_s: float, to_s: float) -> float:
    """Return the messages stored per second."""
    within = [(at_s, count) for at_s, count in samples if from_s <= at_s <= to_s]
    if len(within) < 2:
        return 0.0
    (first_s, first), (last_s, last) = within[0], within[-1]
    return (last - first) / max(last_s - first_s, 1e-9)


def longest_still_s(samples: Samples, from_s: float, to_s: float) -> float:
    """Return the longest time in which nothing was stored."""
    longest, moved_s, known = 0.0, from_s, -1
    for at_s, count in samples:
        if from_s <= at_s <= to_s:
            if count != known:
                known, moved_s = count, at_s
            longest = max(longest, at_s - moved_s)
    return longest
