"""Applies the faults of a plan and notes what it has done, and when."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

from urllib3.exceptions import HTTPError

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import close, connect, topics, translated
from benchmarks.estate_brokers import take
from benchmarks.nemesis import provider
from benchmarks.nemesis.checker import Fault
from benchmarks.nemesis.logs import lines
from benchmarks.nemesis.plan import Kind, Step
from benchmarks.nemesis.scene import ProcessSlot, TestBed
from dispatcher.model.errors import NotFound
from dispatcher.wire.envelope import FORMAT, MAX_FORMAT, Envelope, encode_envelope, encode_message
from dispatcher.wire.topics import Topics

TEND_S = 0.1
THREADS = 12


@dataclass
class FaultLog:
    """The log of faults: what was done to which process, in memory and in a file."""

    path: Path
    faults: list[Fault] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Faults that could not be applied."""
    lock: Lock = field(default_factory=Lock)

    @contextmanager
    def noted(self, kind: Kind, what: str = "", worker: ProcessSlot | None = None) -> Iterator[None]:
        """Note a fault that lasts as long as the block.

        It counts for every incarnation that the worker has meanwhile.
        """
        from_ms, first = now_ms(), worker.number if worker else 0
        try:
            yield
        finally:
            hit = [f"{worker.name}-{number}" for number in range(first, worker.number + 1)] if worker else [""]
            faults = [Fault(str(kind), name, from_ms, now_ms(), what) for name in hit]
            with self.lock, self.path.open("a") as log:
                self.faults += faults
                log.writelines(json.dumps(fault._asdict()) + "\n" for fault in faults)


class Nemesis:
    """Applies one step after the other; a fault that takes time does not delay the next."""

    def __init__(self, scene: TestBed, journal: FaultLog, say: Callable[[str], None]) -> None:
        self._scene, self._journal, self._say = scene, journal, say
        self._names: Topics = topics(scene.settings.pulsar)
        self._apply: dict[Kind, Callable[[Step], None]] = {
            Kind.UNLOAD_TOPIC: self._unload_topic,
            Kind.UNLOAD_BUNDLE: self._unload_bundle,
            Kind.KILL_BROKER: self._kill_broker,
            Kind.CUT_PULSAR: self._cut_pulsar,
            Kind.CUT_REDIS: self._cut_redis,
            Kind.STOP_REDIS: self._stop_redis,
            Kind.WIPE_REDIS: self._wipe_redis,
            Kind.FAIL_OVER_REDIS: self._fail_over,
            Kind.STOP_WORKER: self._stop_worker,
            Kind.KILL_WORKER: self._kill_worker,
            Kind.KILL_SUBMITTER: self._kill_submitter,
            Kind.NONSENSE: self._nonsense,
        }

    def run(self, steps: list[Step], seconds: float) -> None:
        """Apply all steps, each at its time, and tend the processes; return when the last step is over."""
        began_s = time.monotonic()
        with ThreadPoolExecutor(THREADS) as pool:
            waiting = list(steps)
            under_way: list[Future[None]] = []
            while waiting or time.monotonic() - began_s < seconds or not all(each.done() for each in under_way):
                while waiting and waiting[0].at_s <= time.monotonic() - began_s:
                    under_way.append(pool.submit(self._one, waiting.pop(0)))
                self._scene.tend()
                time.sleep(TEND_S)

    def _one(self, step: Step) -> None:
        self._say(f"{step.at_s:6.1f} s  {step.kind} ({step.victim}, {step.lasts_s:.1f} s)")
        try:
            with suppress(NotFound):  # the lane of a task that has just ended
                self._apply[step.kind](step)
        except Exception as error:  # every error is noted, and the other faults continue
            self._journal.failed.append(f"{step.kind} ({step.victim}): {error!r}")
            self._say(f"        not done: {step.kind}: {error!r}")

    # ------------------------------------------------------------- lanes
    def _lanes(self) -> list[str]:
        """Return the lanes of the newest tasks, and all permanent topics."""
        names = self._names
        tasks = [
            task for process in self._scene.submitters for task in asked_tasks(self._scene.folder, process.name)[-3:]
        ]
        return [*map(names.own_lane, tasks), *names.standing_lanes()[:12]]

    def _topic(self, step: Step, *others: str) -> str:
        """Return one of the lanes and of other topics."""
        topics = [*self._lanes(), *others]
        return topics[int(step.pick * len(topics))]

    def _unload_topic(self, step: Step) -> None:
        topic = self._topic(step, *self._names.system_topics())
        with self._journal.noted(step.kind, topic), closing(PulsarAdmin(self._scene.settings.pulsar)) as admin:
            admin.unload(topic)

    def _unload_bundle(self, step: Step) -> None:
        """Unload a bundle and hand it to one of the brokers, if that broker asks before any client does."""
        topic = self._topic(step, *self._names.system_topics())
        namespace = topic.removeprefix("persistent://").rpartition("/")[0]
        with self._journal.noted(step.kind, topic), closing(PulsarAdmin(self._scene.settings.pulsar)) as admin:
            edges = admin.policies(namespace)["bundles"]["boundaries"]
            for low, high in pairwise(edges):
                admin.unload_bundle(f"{namespace}/{low}_{high}")
            with suppress(KeyError, HTTPError):  # that broker is not running
                take(topic, self._scene.brokers.web_url(int(step.pick * 1_000) % 2))

    def _nonsense(self, step: Step) -> None:
        topic = self._topic(step)
        with self._journal.noted(step.kind, topic):
            client = connect(self._scene.settings.pulsar)
            try:
                with translated(f"write into {topic}", client):
                    producer = client.create_producer(topic)
                    for body in nonsense(topic.rpartition("/")[2]):
                        producer.send(body)
            finally:
                close(client)

    # ------------------------------------------------------------- servers
    def _kill_broker(self, step: Step) -> None:
        with self._journal.noted(step.kind, "broker 2"):
            self._scene.brokers.kill(1)
            time.sleep(step.lasts_s)
            self._scene.brokers.start(2)

    def _stop_redis(self, step: Step) -> None:
        process = self._scene.redis.primary.process
        with self._journal.noted(step.kind, "the primary"):
            process.send_signal(signal.SIGSTOP)
            time.sleep(step.lasts_s)
            process.send_signal(signal.SIGCONT)

    def _wipe_redis(self, step: Step) -> None:
        with self._journal.noted(step.kind, "the primary"):
            self._scene.redis.wipe()

    def _fail_over(self, step: Step) -> None:
        """Fail over to the replica, which lacks the last writes of the primary."""
        with self._journal.noted(step.kind, f"the replica lacks {step.lasts_s:.1f} s"):
            self._scene.redis.stop_replication()
            time.sleep(step.lasts_s)
            self._scene.redis.fail_over()
            self._scene.redis.renew()

    # ------------------------------------------------------------- processes
    def _cut_pulsar(self, step: Step) -> None:
        proxies = self._scene.proxies[step.number]
        with self._journal.noted(step.kind, worker=self._scene.workers[step.number]):
            for proxy in proxies:
                proxy.set_cut(cut=True)
            time.sleep(step.lasts_s)
            for proxy in proxies:
                proxy.set_cut(cut=False)

    def _cut_redis(self, step: Step) -> None:
        process, proxy = self._scene.workers[step.number], self._scene.redis.proxy
        with self._journal.noted(step.kind, worker=process):
            proxy.set_cut_of(process.name, cut=True)
            time.sleep(step.lasts_s)
            proxy.set_cut_of(process.name, cut=False)

    def _stop_worker(self, step: Step) -> None:
        process = self._scene.workers[step.number]
        with self._journal.noted(step.kind, worker=process):
            process.signal(signal.SIGSTOP)
            time.sleep(step.lasts_s)
            process.signal(signal.SIGCONT)

    def _kill_worker(self, step: Step) -> None:
        process = self._scene.workers[step.number]
        with self._journal.noted(step.kind, worker=process):
            process.kill()
        time.sleep(step.lasts_s)
        process.vacant = False

    def _kill_submitter(self, step: Step) -> None:
        process = self._scene.submitters[step.number]
        with self._journal.noted(step.kind, process.incarnation):
            process.kill()
        time.sleep(step.lasts_s)
        process.vacant = False


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def asked_tasks(folder: Path, submitter: str) -> list[str]:
    """Return the tasks that a submitter has requested so far."""
    submissions = lines(folder / f"submitted-{submitter}.jsonl")
    return [line["task"] for line in submissions if line["what"] == "asked"]


def nonsense(task: str) -> list[bytes]:
    """Return messages that are no envelopes: empty, text, truncated, with impossible fields, of no known format."""
    valid = Envelope(
        format=FORMAT,
        task=task,
        writer="0",
        sequence=7,
        attempt=0,
        app="app",
        channel=provider.NAME,
        published_ms=1,
        not_before_ms=0,
        expires_ms=0,
        size=2,
        max_attempts=5,
        message=encode_message({"body": "Hi"}),
        targets=["a", "b"],
    )
    fields: list[dict[str, Any]] = [
        {"format": 0},
        {"format": MAX_FORMAT + 1},
        {"task": "../x"},
        {"sequence": 2**33},
        {"attempt": 4_096},
        {"size": 1},
        {"targets": []},
        {"positions": [1, 0]},
    ]
    odd = [_with(valid, changes) for changes in fields]
    return [b"", b"hello", encode_envelope(valid)[:-3], *odd]


def _with(envelope: Envelope, changes: dict[str, Any]) -> bytes:
    values = {name: getattr(envelope, name) for name in envelope.__struct_fields__} | changes
    return encode_envelope(list(values.values()))
