"""A capture of nodes that answer as they are told: complete where they answer, and silent about every secret."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from estate.capture.incidents import Incident
from fairlane.estate.capture import take
from fairlane.estate.capture.take import CaptureTaker
from fairlane.settings import Settings
from tests.unit.backends.estate_site import bookie, broker, serve_estate
from tests.unit.fairlane.captures.test_archive import contents
from tests.virtual_clock import VirtualClock

SECRETS = {
    "redis": "r3dis-pw/1",
    "token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJmYWlybGFuZSJ9.c2lnbmF0dXJl",
    "header": "header-s3cret",
    "signing": "signing-s3cret",
    "broker": "br0ker-s3cret",
    "userinfo": "userinfo-pw",
}
LANE = "persistent://fairlane/tasks-00/sale"
BOOKIE = "127.0.0.2:3181"
STOPPED = {
    "entriesAddedCounter": 9,
    "pendingAddEntriesCount": 4,
    "ledgers": [{"metadata": f"LedgerMetadata{{password=OMITTED, ensembles={{0=[{BOOKIE}, 127.0.0.3:3181]}}}}"}],
}
STATISTICS = {
    "fairlane/tasks-00": {
        "0x0_0x8": {"persistent": {LANE: {"msgRateIn": 5.0, "subscriptions": {"dispatch": {"msgBacklog": 3}}}}}
    }
}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(take, "_PAUSE_S", 0.0)


@pytest.fixture
def site() -> Iterator[ExitStack]:
    with ExitStack() as servers:
        yield servers


def usual_broker(**more: Any) -> dict[str, Any]:
    settings = {
        "brokerClientAuthenticationParameters": f"token:{SECRETS['broker']}",
        "metadataStoreUrl": f"zk://app:{SECRETS['userinfo']}@zk:2181",
        "authenticationEnabled": "true",
    }
    answers = {
        "brokers/configuration/runtime": settings,
        "brokers/configuration/values": {"dispatchThrottlingRatePerTopicInMsg": "5"},
        "broker-stats/topics": STATISTICS,
        "persistent/fairlane/tasks-00/sale/stats": {"subscriptions": {"dispatch": {"msgBacklog": 3}}},
        "persistent/fairlane/tasks-00/sale/internalStats?metadata=true": STOPPED,
        "broker-stats/mbeans": [{"args": [f"-Dpassword={SECRETS['broker']}", SECRETS["broker"]]}],
    }
    return broker(**{**answers, **more})


def settings_of(site: ExitStack, home: Path, brokers: list[dict[str, Any]], bookies: list[dict[str, Any]]) -> Settings:
    names, port = serve_estate(site, brokers, bookies)
    return Settings(
        home=home,
        pulsar={"url": "pulsar://p:1", "admin_url": f"http://{names[0]}", "token": SECRETS["token"]},
        redis={"url": "redis://127.0.0.1:1/0", "password": SECRETS["redis"]},
        http={
            "url": f"https://u:{SECRETS['userinfo']}@h/",
            "headers": {"X-Auth": SECRETS["header"]},
            "signing_secret": SECRETS["signing"],
        },
        estate={"bookie_http": f"http://{{host}}:{port}"} if bookies else {},
    )


def captured(settings: Settings, incident: Incident, folder: Path) -> dict[str, str]:
    path = CaptureTaker(settings, VirtualClock(1_800_000_000_000), limit_s=2.0).take(incident, folder)
    assert path.name.startswith("capture-20270115T080000Z-")
    return {name: body.decode() for name, body in contents(path).items()}


def two_bookies(**answers: Any) -> list[dict[str, Any]]:
    return [bookie([BOOKIE], [], **answers), bookie([BOOKIE], [])]


def test_the_lane_that_is_stopped_is_there_with_the_bookie_of_its_ensemble(site: ExitStack, tmp_path: Path) -> None:
    settings = settings_of(site, tmp_path, [usual_broker()], two_bookies())
    files = captured(settings, Incident("bookie is slow", node=BOOKIE), tmp_path / "out")
    manifest = json.loads(files["manifest.json"])
    (lane,) = manifest["lanes"]
    assert (lane["topic"], lane["stopped"], lane["bookies"]) == (LANE, True, [BOOKIE, "127.0.0.3:3181"])
    assert BOOKIE in files["lanes/fairlane-tasks-00-sale/internal-stats.json"]
    assert (manifest["reason"], manifest["node"]) == ("bookie is slow", BOOKIE)
    assert "pulsar_topics_count" in next(text for name, text in files.items() if name.endswith("metrics.txt"))
    assert json.loads(files["cluster/dynamic-settings.json"]) == {"dispatchThrottlingRatePerTopicInMsg": "5"}
    names = {row["name"] for row in json.loads(files["fairlane/settings.json"])}
    assert {"pulsar.url", "estate.slow_ms"} <= names
    assert json.loads(files["fairlane/versions.json"])["fairlane"]
    assert {row["name"] for row in manifest["files"]} == files.keys() - {"manifest.json"}


def test_no_secret_of_settings_addresses_headers_or_brokers_is_in_the_archive(site: ExitStack, tmp_path: Path) -> None:
    seen: list[tuple[str, str | None]] = []
    leaking = f'x{{error="{SECRETS["redis"]}"}} 1\nurl http://a:{SECRETS["userinfo"]}@h {SECRETS["header"]}\n'
    bookies = two_bookies(metrics=leaking, seen=seen)
    bookies[0]["config/server_config"] = {"bookieAuthProviderSecret": "other-s3cret", "zkServers": SECRETS["signing"]}
    settings = settings_of(site, tmp_path, [usual_broker(version=SECRETS["token"])], bookies)
    files = captured(settings, Incident(f"odd reason {SECRETS['redis']}", task=SECRETS["signing"]), tmp_path / "out")
    whole = "\n".join([*files, *files.values()])
    assert not [name for name, secret in SECRETS.items() if secret in whole]
    assert "other-s3cret" not in whole
    assert '"authenticationEnabled": "true"' in whole
    assert "zk:2181" in whole
    assert seen
    assert not [token for _, token in seen if token], "the bookies' interface has no authentication"


def test_nodes_that_hang_fail_or_answer_nonsense_are_noted_and_the_others_are_complete(
    site: ExitStack, tmp_path: Path
) -> None:
    hang, deep = threading.Event(), "[" * 100_000
    brokers = [usual_broker(metrics="not { a metric"), usual_broker(metrics=hang, **{"broker-stats/topics": deep})]
    nested = "[" * 600 + "]" * 600  # the parser reads it; whatever calls itself for each level cannot
    brokers[0] |= {"brokers/configuration/values": nested}
    bookies = two_bookies(metrics=hang, **{"bookie/state": 500, "bookie/info": "no JSON"})
    settings = settings_of(site, tmp_path, brokers, bookies)
    files = captured(settings, Incident("asked for by hand"), tmp_path / "out")
    missing = {(row["node"], row["document"]): row["why"] for row in json.loads(files["manifest.json"])["missing"]}
    second = brokers[0]["brokers"][1]
    assert missing[second, "metrics"].startswith("no answer")
    assert missing[BOOKIE, "metrics"].startswith("no answer")
    assert missing[BOOKIE, "state"] == "answered 500"
    assert missing["fairlane", "tasks.json"].startswith("Redis at redis://127.0.0.1:1")
    assert files["bookies/127.0.0.2-3181/disk.txt"] == "no JSON"
    assert "bookies/127.0.0.3-3181/metrics.txt" in files
    hang.set()


def test_without_any_server_there_is_an_archive_that_says_so(tmp_path: Path) -> None:
    pulsar = {"url": "pulsar://127.0.0.1:1", "admin_url": "http://127.0.0.1:1"}
    settings = Settings(home=tmp_path, pulsar=pulsar, redis={"url": "redis://127.0.0.1:1"})
    files = captured(settings, Incident("asked for by hand", task="sale", topics=(LANE,)), tmp_path / "out")
    manifest = json.loads(files["manifest.json"])
    assert {"settings.json", "versions.json"} <= {name.rpartition("/")[2] for name in files}
    assert {"127.0.0.1:1", "cluster", "fairlane", LANE} <= {row["node"] for row in manifest["missing"]}


def test_an_answer_without_end_is_cut_and_the_manifest_says_so(
    site: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.pulsar.estate.recorder.MAX_BYTES", 10_000)
    settings = settings_of(site, tmp_path, [usual_broker(metrics="pulsar_topics_count 5\n" * 10_000)], [])
    files = captured(settings, Incident("asked for by hand"), tmp_path / "out")
    (row,) = [row for row in json.loads(files["manifest.json"])["files"] if row["name"].endswith("metrics.txt")]
    assert row["cut"]
    assert row["bytes"] == 10_000
