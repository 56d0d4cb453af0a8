"""Targets of the channel `fcm` while something is killed, down or hangs. A fake FCM judges what became of them."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import urlopen

from backends.redis.view import open_view
from benchmarks.cuttable_proxy import CuttableProxy, cuttable_proxy
from benchmarks.stage import Stage, stage, wait_for
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from fairlane.settings import Settings
from lab.fake.process import FakeFcm, running
from producers.handle import TaskHandle

APP = "bench"
CHUNK = 100
WORKERS = 3
EVERY_S = 3.0
LATENCY_MS = (20, 80)
HANGS_MS = (600_000, 600_000)
SETTLES_WITHIN_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Trial:
    """How many targets, and for how long they are in trouble."""

    targets: int
    seconds: float


class Metrics(NamedTuple):
    """Targets of one worker."""

    unanswered: float
    """Sent without an answer."""
    in_flight: float
    """In calls, or sent and not recorded yet."""


@dataclass(frozen=True)
class Judged:
    """Workers, a fake behind a proxy, and a task."""

    scene: Stage
    fake: FakeFcm
    proxy: CuttableProxy
    trial: Trial
    metrics: dict[str, Metrics] = field(default_factory=dict)
    """The last metrics of each worker, also of those that were killed."""

    def look(self, name: str = "") -> float:
        """Read the workers' metrics. Return what is in flight in those whose name begins with this."""
        beats = [beat for beat in self.scene.client.workers() if beat.is_live and beat.id.startswith(name)]
        in_flight = 0.0
        for beat in beats:
            with suppress(OSError):  # it was killed, and is shown until its heartbeats are missed
                self.metrics[beat.id] = metrics_of(beat.metrics_port)
                in_flight += self.metrics[beat.id].in_flight
        return in_flight

    def submit(self) -> TaskHandle:
        task = PushTask(app=APP, tier=Tier.HIGH, channel="fcm", message={"title": "Benchmark"}, chunk=CHUNK)
        return self.scene.client.submit(task, targets=tokens(self.trial.targets))

    def rule(self, **rules: object) -> None:
        """Set the fake's rules."""
        self.fake.ask("PUT", "rules", {"latency_ms": LATENCY_MS, **rules})

    def verdict(self, handle: TaskHandle) -> dict[str, float]:
        """Return what became of the targets, once all have ended: by the fake, and by Fairlane's own counts."""
        began_s = time.monotonic()
        wait_for("all targets", lambda: handle.progress().ended, SETTLES_WITHIN_S, 0.2)
        counts, view = self.fake.ask("POST", "accepted", tokens(self.trial.targets)), handle.progress().targets
        self.look()
        with closing(open_view(self.scene.settings.redis)) as redis:
            stats = redis.stats()
        return {
            "lost": len(counts["never"]),
            "failed": view.failed + view.invalid + view.expired,
            "twice_or_more": len(counts["more"]),
            "repeats": sum(counts["more"].values()) - len(counts["more"]),
            "counted_unanswered": sum(metrics.unanswered for metrics in self.metrics.values()),
            "counted_with_workers": stats.get("repeats_possible", 0),
            "settled_after_s": time.monotonic() - began_s,
        }


@contextmanager
def _judged(settings: Settings, trial: Trial, say: Callable[[str], None]) -> Iterator[Judged]:
    with (
        stage(settings, say) as scene,
        running(scene.folder / "fake") as fake,
        cuttable_proxy(urlsplit(fake.served["url"]).port or 0) as proxy,
    ):
        behind = replace(fake, served={**fake.served, "url": f"https://127.0.0.1:{proxy.port}"})
        scene.crew.environment.update(behind.environment([APP]))
        scene.start_workers(WORKERS)
        yield Judged(scene, fake, proxy, trial)


def kills(settings: Settings, trial: Trial, say: Callable[[str], None]) -> dict[str, float]:
    """Every 3 s kill a worker, which is replaced, and 1.5 s later cut all connections."""
    with _judged(settings, trial, say) as judged:
        judged.rule()
        judged.scene.client.set_capacity(int(trial.targets / trial.seconds))
        handle = judged.submit()
        in_flight, began_s = 0.0, time.monotonic()
        for number in itertools.count():
            time.sleep(max(0.0, began_s + (number + 1) * EVERY_S / 2 - time.monotonic()))
            if time.monotonic() - began_s >= trial.seconds:
                break
            in_flight += _cut(judged) if number % 2 else _kill(judged, number // 2)
        left = handle.progress().targets.pending
        say(f"{number} faults; {left} targets have not ended")
        return {"faults": number, "in_flight_when_hit": in_flight, **judged.verdict(handle)}


def _kill(judged: Judged, number: int) -> float:
    """Kill a worker and start another. Return what was in flight there."""
    crew, name = judged.scene.crew, f"worker-{number}"
    in_flight = judged.look(f"{name}-")
    crew.members[name].kill()
    crew.members[name].wait()
    crew.join(f"worker-{number + WORKERS}")
    return in_flight


def _cut(judged: Judged) -> float:
    """Cut all connections. Return what was in flight."""
    in_flight = judged.look()
    judged.proxy.set_cut(cut=True)
    judged.proxy.set_cut(cut=False)
    return in_flight


def outage(settings: Settings, trial: Trial, say: Callable[[str], None]) -> dict[str, float]:
    """A third of the time no request is answered, a third nothing connects, a third all is answered with 503."""
    with _judged(settings, trial, say) as judged:
        judged.rule(latency_ms=HANGS_MS)
        handle = judged.submit()
        time.sleep(trial.seconds / 3)
        judged.proxy.set_cut(cut=True)
        judged.rule(answers=[{"status": 503}])
        time.sleep(trial.seconds / 3)
        judged.proxy.set_cut(cut=False)
        time.sleep(trial.seconds / 3)
        sent = handle.progress().targets.sent
        judged.rule()
        return {"sent_while_down": sent, **judged.verdict(handle)}


def tokens(count: int) -> list[str]:
    return [f"device-token-{number:012d}" for number in range(count)]


def metrics_of(port: int) -> Metrics:
    """Read a worker's metrics. Raises OSError if it is gone."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = [line.split() for line in answer.read().decode().splitlines()]
    values = {line[0]: float(line[1]) for line in lines if len(line) == 2}
    return Metrics(
        unanswered=values["fairlane_unanswered_targets_total"],
        in_flight=values["fairlane_worker_in_flight_targets"] + values["fairlane_worker_unsettled_targets"],
    )
