"""A real Prometheus on a real estate: every metric that a board or a rule names is served, and every expression works.

Some series exist only once something happened: caps, a paused app, a backlog, a bookie in quarantine. The test makes
all of it happen. Its name lets it run after the other tests of the estate, since the quarantine lasts two minutes.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml

from benchmarks.estate.servers import SHAPE, EstateServers
from benchmarks.estate.steady_lanes import steady_lanes
from fairlane import PushClient
from fairlane.settings import Settings
from lab.stack.ports import choose
from tests.actors import running
from tests.integration.worker_crew import audience, crew, environment, eventually, push
from tests.monitoring import FOLDER, expressions, metrics_of, program, texts

SERVED_S = 90.0
"""Deadline for the last metric: a bookie that hangs is in quarantine after some ten seconds."""
FIRST_PORT = 29_090
"""Ports are looked for from here on."""
RATE = 200
"""Capacity and cap, in targets a second: less than what is submitted, so that there is a backlog."""
LANES = 4
REFUSING = '[worker.channels]\nclosed = "http"\n[channels.closed]\nurl = "http://127.0.0.1:9/"\n'
"""A channel whose provider refuses connections."""


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus that is asked."""

    url: str
    http: urllib3.PoolManager

    def ask(self, path: str, **fields: str) -> Any:
        answer = self.http.request("GET", f"{self.url}/api/v1/{path}", fields=fields, timeout=10.0)
        document = answer.json()
        assert document["status"] == "success", (path, fields, document)
        return document["data"]

    def ready(self) -> bool:
        try:
            return self.http.request("GET", f"{self.url}/-/ready", timeout=2.0, retries=False).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def names(self) -> set[str]:
        return set(self.ask("label/__name__/values"))

    def values(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an expression, with their labels."""
        result = self.ask("query", query=expression)["result"]
        return [one for one in result if isinstance(one, dict)]


@contextmanager
def prometheus(folder: Path, files: Mapping[str, str], targets: Mapping[str, list[str]]) -> Iterator[Prometheus]:
    """A Prometheus with the example's configuration, other targets and quick scrapes."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    example = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    example["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    for job in example["scrape_configs"]:
        job["static_configs"] = [{"targets": targets[job["job_name"]]}]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(example))
    port = choose(FIRST_PORT)
    options = ["--config.file=prometheus.yaml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([program("prometheus"), *options], cwd=folder, stdout=log, stderr=log)
    try:
        with urllib3.PoolManager() as http:
            one = Prometheus(f"http://127.0.0.1:{port}", http)
            eventually(one.ready, 30.0, "Prometheus is ready")
            yield one
    finally:
        server.terminate()
        server.wait(20.0)


@contextmanager
def guarding(settings: Settings, folder: Path) -> Iterator[str]:
    """A guard that only looks; yields the address of its metrics."""
    port = choose(FIRST_PORT)
    variables = {**environment(settings), "FAIRLANE_ESTATE_BOOKIE_HTTP": str(settings.estate.bookie_http)}
    command = [sys.executable, "-m", "fairlane", "estate", "guard", "--metrics-port", str(port)]
    log = folder / "guard.log"
    with log.open("wb") as output:
        guard = subprocess.Popen(command, env=variables, cwd=folder, stdout=output, stderr=output)
    try:
        eventually(lambda: "serves metrics" in log.read_text(), 60.0, "the guard serves metrics")
        yield f"127.0.0.1:{port}"
    finally:
        guard.terminate()
        guard.wait(30.0)


@contextmanager
def submitting(client: PushClient) -> Iterator[None]:
    """Submit tasks one after the other, more than the capacity sends."""

    def submit(ended: threading.Event) -> None:
        number = 0
        while not ended.wait(0.5):
            number += 1
            tier = ("high", "medium", "low")[number % 3]
            for channel, count in (("null", RATE), ("closed", 10)):
                client.submit(push(id=f"{channel}-{number}", tier=tier, channel=channel), audience(count))

    with running(submit):
        yield


def targets(estate: EstateServers, worker: str, guard: str) -> dict[str, list[str]]:
    """Return the addresses to scrape, by the example's jobs."""
    bookies = [name for name in estate.names() if name.startswith("bookie")]
    brokers = [name for name in estate.names() if name.startswith("broker")]
    return {
        "fairlane": [worker],
        "fairlane-guard": [guard],
        "pulsar-broker": [estate.broker_web(name) for name in brokers],
        "bookkeeper": [estate.bookie_http(name).removeprefix("http://") for name in bookies],
        "zookeeper": [f"127.0.0.1:{estate.ports.zookeeper_http}"],
    }


def test_every_metric_that_boards_and_rules_name_is_served_and_every_expression_works(
    estate: EstateServers, estate_settings: Settings, tmp_path: Path
) -> None:
    program("prometheus")
    settings, files = estate_settings, texts(estate_settings.pulsar.tenant)
    with ExitStack() as opened:
        members = opened.enter_context(crew(settings, tmp_path / "crew", "w1", config=REFUSING))
        client = opened.enter_context(PushClient.connect(settings))
        limit(client)
        opened.enter_context(submitting(client))
        worker = re.findall(r"metrics on port (\d+)", members.log_of("w1"))[0]
        eventually(lambda: b"fairlane_flow_answers_total{" in metrics(f"127.0.0.1:{worker}"), 60.0, "targets are sent")
        # Only writes that get no receipt put a bookie into quarantine: lanes on all bookies are published to.
        opened.enter_context(steady_lanes(settings.pulsar, LANES))
        opened.enter_context(hanging(estate, "bookie-3"))
        guard = opened.enter_context(guarding(settings, tmp_path))
        addresses = targets(estate, f"127.0.0.1:{worker}", guard)
        watch = opened.enter_context(prometheus(tmp_path / "prometheus", files, addresses))
        all_served(watch, files)
        panels_have_data(watch, files, settings.pulsar.tenant)
        rules_are_evaluated(watch)
        bookies_are_labels(watch, estate)


def limit(client: PushClient) -> None:
    """Set what some metrics exist for: a capacity, a cap, and an app that is paused."""
    client.set_capacity(RATE)
    client.cap_channel("null", RATE)
    client.pause_channel("null", app="other", reason="test")


def metrics(address: str) -> bytes:
    return urllib3.request("GET", f"http://{address}/metrics/", timeout=5.0).data


@contextmanager
def hanging(estate: EstateServers, bookie: str) -> Iterator[None]:
    """Freeze a bookie until a broker has put it into quarantine; a bookie that is frozen for 25 s ends itself."""
    brokers = [estate.broker_web(name) for name in estate.names() if name.startswith("broker")]

    def in_quarantine() -> bool:
        return any(b"BOOKIE_QUARANTINE" in metrics(broker) for broker in brokers)

    def hang(ended: threading.Event) -> None:
        with estate.paused(bookie), suppress(AssertionError, urllib3.exceptions.HTTPError):
            eventually(lambda: ended.is_set() or in_quarantine(), 23.0, "a bookie is in quarantine")

    with running(hang):
        yield


def all_served(watch: Prometheus, files: Mapping[str, str]) -> None:
    needed = set[str]().union(*(metrics_of(expression) for _, expression in expressions(files)))
    within(SERVED_S, lambda: sorted(needed - watch.names()))


def panels_have_data(watch: Prometheus, files: Mapping[str, str], tenant: str) -> None:
    """An expression whose parts do not match by their labels has an empty result for ever."""
    shown = [(where, expression) for where, expression in expressions(files, tenant) if where.startswith("board")]
    assert len(shown) > 50
    within(SERVED_S, lambda: [where for where, expression in shown if not watch.values(expression)])


def rules_are_evaluated(watch: Prometheus) -> None:
    def not_well() -> list[Any]:
        rules = [rule for group in watch.ask("rules")["groups"] for rule in group["rules"]]
        assert len(rules) > 14
        return [rule for rule in rules if rule["health"] != "ok"]

    within(30.0, not_well)


def bookies_are_labels(watch: Prometheus, estate: EstateServers) -> None:
    bookies = [name for name in estate.names() if name.startswith("bookie")]
    ids = {re.sub(r"\W", "_", estate.bookie_id(name)) for name in bookies}
    assert {one["metric"]["bookie"] for one in watch.values("bookie:write_p99_ms:max")} <= ids
    seen = watch.values("count by (bookie) (pulsar_managedLedger_client_per_channel_bookie_client_ADD_ENTRY)")
    assert len(ids & {one["metric"]["bookie"] for one in seen}) == len(seen) >= SHAPE.bookies
    assert not [name for name in watch.names() if "per_channel_bookie_client_bookie_" in name]


def within(deadline_s: float, left: Callable[[], Collection[object]]) -> None:
    """Wait until nothing is left; say what is."""
    with suppress(AssertionError):
        eventually(lambda: not left(), deadline_s, "nothing is left")
    assert not left()
