"""A cap of 2,000/s as the provider sees it: how much of it is used, and what is above it, also after stalls; and the
requests on a paused flow. The fake FCM counts."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.request import urlopen

from benchmarks.delivery.judged import APP, LATENCY_MS, tokens
from benchmarks.stage import Stage, stage, wait_for
from dispatcher.model.pools import Cap
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from fairlane.settings import Settings
from lab.fake.process import FakeFcm, running
from producers.control.service_controls import ServiceControls

CAP = 2_000
GROUP = "project"
CHUNK = 100
SETTLED_S = 5.0
"""Until a new rate has reached the fake."""
STALL_S = 2.0
STALL_EVERY_S = 12.0
PAUSES = 5
OBEYED_S = 2.0


@dataclass(frozen=True)
class TestBed:
    """Workers, and a fake that they send to under the cap."""

    at: Stage
    fake: FakeFcm

    def submit(self, targets: int) -> None:
        task = PushTask(app=APP, tier=Tier.HIGH, channel="fcm", message={"title": "Benchmark"}, chunk=CHUNK)
        self.at.client.submit(task, targets=tokens(targets))

    def counts(self) -> dict[str, float]:
        """Return requests, and the most in any second and any minute."""
        counts = self.fake.ask("GET", "counts")
        return {"requests": counts["requests"], "second": counts["peak"]["1s"], "minute": counts["peak"]["60s"]}

    def lost(self) -> float:
        """Return how much of the cap the workers were granted and did not use in its time."""
        lost = 0.0
        for beat in self.at.client.workers():
            with urlopen(f"http://127.0.0.1:{beat.metrics_port}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            lost += sum(float(line.split()[1]) for line in lines if line.startswith("fairlane_cap_lost_total{"))
        return lost


@contextmanager
def _scene(settings: Settings, workers: int, say: Callable[[str], None]) -> Iterator[TestBed]:
    with stage(settings, say) as at, running(at.folder / "fake") as fake:
        fake.ask("PUT", "rules", {"latency_ms": LATENCY_MS})
        at.crew.environment.update(fake.environment([APP]))
        at.start_workers(workers)
        yield TestBed(at, fake)


def cap(settings: Settings, seconds: float, workers: int, say: Callable[[str], None]) -> dict[str, float]:
    """Return the use of a quota group's cap, and what is above it, at rest and with stalls of workers and of the fake.

    The group has reached its cap before.
    """
    with _scene(settings, workers, say) as scene:
        scene.at.client.change_service(_cap_group)
        scene.submit(round(CAP * (3 * seconds + 120)))
        wait_for("the ramp", lambda: scene.counts()["requests"] > CAP * 30, 120, 0.5)
        time.sleep(SETTLED_S)
        at_rest = _measured(scene, seconds, [])
        say(f"at rest: {at_rest}")
        stalled = _measured(scene, seconds, [member.pid for member in scene.at.crew.members.values()])
        say(f"with stalls of workers: {stalled}")
        fake_stalled = _measured(scene, seconds, [scene.fake.pid])
    phases = {"rest": at_rest, "workers_stall": stalled, "fake_stalls": fake_stalled}
    return {f"{phase}_{name}": value for phase, figures in phases.items() for name, value in figures.items()}


def _cap_group(service: ServiceControls) -> None:
    service.join_quota(GROUP, "fcm", APP)
    service.cap_quota(GROUP, Cap(CAP))


def _measured(scene: TestBed, seconds: float, stalled: list[int]) -> dict[str, float]:
    """Return the figures of some time in which these processes are stopped, one after the other."""
    scene.fake.ask("DELETE", "counts")
    began_s, lost, stalls = time.monotonic(), scene.lost(), 0
    while (passed_s := time.monotonic() - began_s) < seconds:
        if stalled and passed_s > STALL_EVERY_S * (stalls + 0.5):
            _stop_for_a_moment(stalled[stalls % len(stalled)])
            stalls += 1
        time.sleep(0.05)
    passed_s, counts = time.monotonic() - began_s, scene.counts()
    return {
        "used": counts["requests"] / (CAP * passed_s),
        "second": counts["second"] / CAP,
        "minute": counts["minute"] / (60 * CAP),
        "lost": (scene.lost() - lost) / (CAP * passed_s),
    }


def _stop_for_a_moment(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(STALL_S)
    os.kill(pid, signal.SIGCONT)


def pause(settings: Settings, seconds: float, workers: int, say: Callable[[str], None]) -> dict[str, float]:
    """Return the requests that reach the fake from 2 s after the call that pauses the app, and from the call on."""
    late, after = 0.0, 0.0
    with _scene(settings, workers, say) as scene:
        scene.at.client.cap_app(APP, CAP, channel="fcm")
        scene.submit(round(CAP * PAUSES * 20))
        for _ in range(PAUSES):
            scene.fake.ask("DELETE", "counts")
            wait_for("requests", lambda: scene.counts()["requests"] > CAP, 60)
            began, later, end = _paused(scene, seconds)
            after, late = max(after, later - began), late + end - later
    return {"requests_late": late, "requests_within_2_s": after}


def _paused(scene: TestBed, seconds: float) -> tuple[float, float, float]:
    """Return the fake's count of requests when the pause is set, two seconds later, and before it is resumed."""
    client = scene.at.client
    client.pause_channel("fcm", app=APP)
    began = scene.counts()["requests"]
    time.sleep(OBEYED_S)
    later = scene.counts()["requests"]
    time.sleep(seconds)
    end = scene.counts()["requests"]
    client.resume_channel("fcm", app=APP)
    return began, later, end
