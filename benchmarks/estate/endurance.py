"""Minutes of load on an estate while a bookie and a broker are killed, a bookie is slowed, and a bookie is added.

A task is submitted every second, and two workers send its targets with a channel that counts each of them.
"""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from benchmarks.counting import DIGITS, compare
from benchmarks.delivery.judged import metrics_of
from benchmarks.estate.servers import EstateServers, rehearsal
from benchmarks.stage import Stage, stage, wait_for
from dispatcher.model.errors import FairlaneError
from dispatcher.model.task import PushTask
from dispatcher.model.tier import TIERS
from fairlane.settings import Settings
from lab.stack.estate.shape import EstateShape
from producers.handle import TaskHandle

TARGETS_OF_TASK, CHUNK, EVERY_S = 500, 20, 1.0
WORKERS = 2
AGAIN_AFTER_S = 1.0
ENDS_WITHIN_S = 300.0
SLOW_PART = 0.1
"""Part of the time for which a bookie is slow; servers that were killed start again after as long."""


@dataclass
class Submitter:
    """Submits tasks until it is stopped. A submission that fails is continued under its id."""

    scene: Stage
    handles: list[TaskHandle] = field(default_factory=list)
    longest_s: float = 0.0
    """The longest that a submission took, with its repetitions."""
    failed: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        began_s = time.monotonic()
        while not self.ended.wait(max(0.0, began_s + len(self.handles) * EVERY_S - time.monotonic())):
            submitted_s = time.monotonic()
            self.handles.append(self._submit(len(self.handles)))
            self.longest_s = max(self.longest_s, time.monotonic() - submitted_s)

    def _submit(self, number: int) -> TaskHandle:
        first = number * TARGETS_OF_TASK
        targets = [f"token-{target:0{DIGITS}d}" for target in range(first, first + TARGETS_OF_TASK)]
        task = PushTask(
            id=f"minute-{number}", app="bench", tier=TIERS[number % len(TIERS)], channel="count",
            message={"title": "Benchmark"}, chunk=CHUNK, expected_targets=TARGETS_OF_TASK,
        )  # fmt: skip
        while True:
            try:
                return self.scene.client.submit(task, targets=targets)
            except FairlaneError as error:
                self.failed += 1
                self.scene.say(f"submission of {task.id}: {error.cause}")
                time.sleep(AGAIN_AFTER_S)


@dataclass(frozen=True)
class Day:
    """The bad day of an estate."""

    estate: EstateServers
    scene: Stage
    seconds: float

    def events(self) -> list[tuple[float, str, Callable[[], object]]]:
        """Return what happens, at which part of the time."""
        grown = self.estate.estate().shape
        larger = EstateShape(bookies=grown.bookies + 1, brokers=grown.brokers)
        return [
            (0.1, "a bookie is killed", partial(self.estate.kill, "bookie-1")),
            (0.2, "it starts again", self.estate.start_missing),
            (0.3, "a broker is killed", partial(self.estate.kill, "broker-2")),
            (0.4, "it starts again", self.estate.start_missing),
            (0.5, "a bookie is slow", self._slow),
            (0.75, "a bookie is added", partial(self.estate.start_missing, larger)),
        ]

    def _slow(self) -> None:
        with self.estate.slowed("bookie-3"):
            time.sleep(SLOW_PART * self.seconds)

    def pass_by(self) -> int:
        """Let everything happen. Return the targets that were in flight at these moments."""
        began_s, in_flight = time.monotonic(), 0
        for part, what, happen in [*self.events(), (1.0, "the end", lambda: None)]:
            time.sleep(max(0.0, began_s + part * self.seconds - time.monotonic()))
            hit = self._in_flight()
            self.scene.say(f"{time.monotonic() - began_s:.0f} s: {what}, {hit} targets in flight")
            in_flight += hit
            happen()
        return in_flight

    def _in_flight(self) -> int:
        total = 0.0
        for beat in self.scene.client.workers():
            with suppress(OSError):
                total += metrics_of(beat.metrics_port).in_flight
        return int(total)


def run(estate: EstateServers, settings: Settings, minutes: float, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run. Raises FairlaneError if the targets do not end."""
    most = int(minutes * 60 / EVERY_S * 2 + 1_000) * TARGETS_OF_TASK
    with stage(settings, say) as scene:
        scene.crew.environment |= {
            "FAIRLANE_WORKER_CHANNELS": json.dumps({"count": "benchmarks.counting:CountingChannel"}),
            "FAIRLANE_CHANNELS": json.dumps({"count": {"folder": str(scene.folder), "targets": most}}),
        }
        scene.start_workers(WORKERS)
        submitter = Submitter(scene)
        thread = threading.Thread(target=submitter.run, daemon=True)
        thread.start()
        in_flight = Day(estate, scene, minutes * 60).pass_by()
        submitter.ended.set()
        thread.join(ENDS_WITHIN_S)
        ended_s = time.monotonic()
        for handle in submitter.handles:
            wait_for(f"the end of {handle.id}", lambda handle=handle: handle.progress().ended, ENDS_WITHIN_S, 0.2)  # type: ignore[misc]
        targets = len(submitter.handles) * TARGETS_OF_TASK
        counted = compare(scene.folder, bytes([1]) * targets + bytes(most - targets))
    return {
        "targets": targets,
        "lost": counted.missing,
        "sent_twice": counted.doubled,
        "in_flight_when_hit": in_flight,
        "twice_beyond_in_flight": max(0, counted.doubled - in_flight),
        "longest_submission_s": submitter.longest_s,
        "submissions_continued": submitter.failed,
        "all_ended_after_s": time.monotonic() - ended_s,
    }


def day(settings: Settings, minutes: float, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run on an estate of its own."""
    with rehearsal(settings) as (estate, here):
        return run(estate, here, minutes, say)
