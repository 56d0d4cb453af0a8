"""One run: private servers, work and faults for some minutes, a calm period until all has ended, the verdict."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from backends.pulsar.provision import provision
from benchmarks.estate_brokers import Brokers, brokers_in
from benchmarks.nemesis import evidence, provider
from benchmarks.nemesis.checker import CheckResult, Evidence, check
from benchmarks.nemesis.faults import FaultLog, Nemesis
from benchmarks.nemesis.plan import plan
from benchmarks.nemesis.report import Report
from benchmarks.nemesis.scene import TestBed, scene
from benchmarks.redis_pair import redis_pair
from benchmarks.stage import wait_for
from dispatcher.model.errors import Unreachable
from fairlane.settings import Settings
from lab.stack import redis_server
from producers.client import PushClient

CAPACITY = 600
SESSION_MS = 6_000
"""After this time without the second broker, its topics go to the first."""
OF_BROKERS = {**evidence.BROKER_TIME, "metadataStoreSessionTimeoutMillis": str(SESSION_MS)}
READY_S = 120.0
LEAVE_S = 180.0
"""Maximum time for the submitters to have their last task confirmed, without faults."""
CALM_S = 120.0
"""A run is over when no target has ended for this long.

Nothing is granted for 13 s after a fault, and a retry may wait for 30 s.
"""
LOOK_S = 3.0
CHANNEL = f"{provider.__name__}:{provider.NemesisChannel.__name__}"


@dataclass(frozen=True)
class Trial:
    """Parameters of a run."""

    seed: int
    seconds: float
    channel: str = CHANNEL
    """module:Class of the workers' provider; the tests use another one."""
    calm_s: float = CALM_S


def run(settings: Settings, trial: Trial, say: Callable[[str], None]) -> Report:
    """Do one run; its logs stay in a folder of the settings' home."""
    folder = settings.home_folder.absolute() / "logs" / "nemesis" / f"{trial.seed}-{time.strftime('%m%d-%H%M%S')}"
    folder.mkdir(parents=True)
    say(f"the logs are in {folder}")
    binary = str(redis_server.find(os.environ).path)
    with (
        brokers_in(folder / "brokers", settings.cache_folder, say, OF_BROKERS) as brokers,
        redis_pair(binary) as pair,
    ):
        brokers.start(2)
        own = _own(settings, brokers, pair.url)
        provision(own.pulsar)
        with scene(own, folder, brokers, pair, trial.seed, trial.channel) as opened:
            report = _watched(opened, trial, say)
    (folder / "report.json").write_text(json.dumps(report.document(), indent=2))
    return report


def _own(settings: Settings, brokers: Brokers, redis_url: str) -> Settings:
    """Return settings of the started servers; they name both brokers."""
    first, second = (f"127.0.0.1:{port}" for port in brokers.ports.brokers)
    where = {"url": f"pulsar://{first},{second}", "admin_url": brokers.web_url(0), "namespaces": 4}
    return settings.model_copy(
        update={
            "pulsar": settings.pulsar.model_copy(update=where),
            "redis": settings.redis.model_copy(update={"url": redis_url}),
        }
    )


def _watched(opened: TestBed, trial: Trial, say: Callable[[str], None]) -> Report:
    journal = FaultLog(opened.folder / "faults.jsonl")
    _begin(opened)
    Nemesis(opened, journal, say).run(plan(trial.seed, trial.seconds), trial.seconds)
    say("no more faults; waiting for the last submissions")
    _let_submitters_leave(opened)
    verdict = _at_rest(opened, journal, trial.calm_s, say)
    submissions = evidence.Submissions(opened.folder)
    ended = {process.name: process.ended for process in (*opened.workers, *opened.submitters) if process.ended}
    return Report(
        seed=trial.seed,
        seconds=trial.seconds,
        verdict=verdict,
        faults=journal.faults,
        failed=journal.failed,
        submissions=submissions,
        ended=ended,
    )


def _begin(opened: TestBed) -> None:
    """Wait until all workers serve."""
    for process in opened.workers:
        process.tend()
    with PushClient.connect(opened.settings) as client:
        wait_for("the workers to serve", lambda: _serving(client) == len(opened.workers), READY_S)
        client.set_capacity(CAPACITY)


def _serving(client: PushClient) -> int:
    return sum(worker.state == "serving" for worker in client.workers())


def _let_submitters_leave(opened: TestBed) -> None:
    """Let the submitters leave.

    A submitter that is not running is started, continues with what it had requested, and then leaves.
    """
    until_s = time.monotonic() + LEAVE_S
    for process in opened.submitters:
        process.tend()
    for process in opened.submitters:
        process.leave(max(1.0, until_s - time.monotonic()))


def _at_rest(opened: TestBed, journal: FaultLog, calm_s: float, say: Callable[[str], None]) -> CheckResult:
    """Return the verdict once every accepted target has ended, or nothing has changed for `calm_s`."""
    topics, changed_s, seen = evidence.OutcomeTopics(opened.settings), time.monotonic(), (-1, -1)
    while True:
        opened.tend()
        verdict = judged(opened.folder, journal, topics)
        left = len(verdict.lost) + len(verdict.never_ended)
        say(f"{verdict.accepted} targets accepted, {left} not ended")
        if (left, verdict.calls) != seen:
            seen, changed_s = (left, verdict.calls), time.monotonic()
        if not left or time.monotonic() - changed_s > calm_s:
            if not verdict.holds:
                topics.keep(opened.folder / "records.jsonl")
            return verdict
        time.sleep(LOOK_S)


def judged(folder: Path, journal: FaultLog, topics: evidence.OutcomeTopics) -> CheckResult:
    """Return the verdict by the present logs and topics."""
    try:
        records = topics.read()
    except Unreachable:  # a broker that has just started; what was read so far counts
        records = topics.records
    accepted = evidence.Submissions(folder).accepted
    return check(Evidence(accepted, evidence.calls(folder), journal.faults, records))
