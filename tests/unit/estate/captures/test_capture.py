"""A capture of nodes that answer as they are told: complete where they answer, and silent about every secret."""

import errno
import json
import os
import random
import re
import tarfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from estate import capture
from estate.capture import KEPT_ARCHIVES, CaptureFailed, take_capture
from estate.rules.incidents import Incident
from fairlane.settings import Settings
from tests.unit.dispatch.backends.estate_site import bookie, broker, serve_estate
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
        "broker-stats/topics": STATISTICS,
        "persistent/fairlane/tasks-00/sale/stats": {"subscriptions": {"dispatch": {"msgBacklog": 3}}},
        "persistent/fairlane/tasks-00/sale/internalStats?metadata=true": STOPPED,
        "broker-stats/load-report": {"args": [f"-Dpassword={SECRETS['broker']}", SECRETS["broker"]]},
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


def contents(path: Path) -> dict[str, str]:
    with tarfile.open(path) as opened:
        members = [(member, opened.extractfile(member)) for member in opened]
        return {member.name.partition("/")[2]: file.read().decode() for member, file in members if file is not None}


def take(settings: Settings, incident: Incident = Incident("asked for by hand"), output: Path | None = None) -> Path:
    return take_capture(settings, incident, VirtualClock(1_800_000_000_000), output, limit_s=2.0)


def missing_in(files: dict[str, str]) -> dict[str, str]:
    missing: dict[str, str] = json.loads(files["manifest.json"])["missing"]
    return missing


def two_bookies(**answers: Any) -> list[dict[str, Any]]:
    return [bookie([BOOKIE], [], **answers), bookie([BOOKIE], [])]


def noise(size: int) -> str:
    """A text that compresses badly."""
    return random.Random(size).randbytes(size // 2).hex()


@pytest.fixture
def alone(tmp_path: Path) -> Settings:
    """Settings whose servers are gone."""
    pulsar = {"url": "pulsar://127.0.0.1:1", "admin_url": "http://127.0.0.1:1"}
    return Settings(home=tmp_path, pulsar=pulsar, redis={"url": "redis://127.0.0.1:1"})


# ---------------------------------------------------------------- content
def test_an_archive_has_what_nodes_answer_the_lanes_concerned_and_the_settings(site: ExitStack, tmp_path: Path) -> None:
    settings = settings_of(site, tmp_path, [usual_broker()], two_bookies())
    path = take(settings, Incident("bookie is slow", node=BOOKIE))
    assert path == tmp_path / "captures" / "capture-20270115T080000Z-bookie-is-slow.tar.gz"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    files = contents(path)
    manifest = json.loads(files["manifest.json"])
    assert (manifest["reason"], manifest["node"]) == ("bookie is slow", BOOKIE)
    assert BOOKIE in files["lanes/fairlane-tasks-00-sale/internal-stats.json"]
    assert json.loads(files["lanes/fairlane-tasks-00-sale/stats.json"])["subscriptions"]["dispatch"]["msgBacklog"] == 3
    (broker_metrics,) = [text for name, text in files.items() if re.fullmatch("brokers/.*/metrics.txt", name)]
    assert "pulsar_topics_count" in broker_metrics
    assert {"bookies/127.0.0.2-3181/settings.json", "cluster/bookies.json"} <= files.keys()
    names = {row["name"] for row in json.loads(files["fairlane/settings.json"])}
    assert {"pulsar.url", "estate.slow_ms"} <= names
    assert json.loads(files["fairlane/versions.json"])["fairlane"]


def test_lanes_of_the_incident_come_first_then_blocked_ones_then_by_backlog(
    site: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lane(backlog: int, *, blocked: bool = False) -> dict[str, Any]:
        dispatch = {"msgBacklog": backlog, "blockedSubscriptionOnUnackedMsgs": blocked}
        return {"subscriptions": {"dispatch": dispatch}}

    lanes = {"small": lane(1), "large": lane(9), "blocked": lane(2, blocked=True), "quiet": lane(0)}
    named = {f"persistent://fairlane/tasks-00/{name}": stats for name, stats in lanes.items()}
    statistics = {"fairlane/tasks-00": {"0x0_0x8": {"persistent": named}}, "other/space": {"0x0_0x8": {}}}
    monkeypatch.setattr(capture, "MAX_LANES", 3)
    settings = settings_of(site, tmp_path, [usual_broker(**{"broker-stats/topics": statistics})], [])
    missing = missing_in(contents(take(settings, Incident("r", task="sale", topics=("persistent://fairlane/x/mine",)))))
    lanes_asked = dict.fromkeys(name.split("/")[1] for name in missing if name.startswith("lanes/"))
    assert list(lanes_asked) == ["fairlane-x-mine", "fairlane-tasks-00-blocked", "fairlane-tasks-00-large"]


def test_no_secret_of_settings_addresses_headers_or_brokers_is_in_the_archive(site: ExitStack, tmp_path: Path) -> None:
    seen: list[tuple[str, str | None]] = []
    leaking = f'x{{error="{SECRETS["redis"]}"}} 1\nurl http://a:{SECRETS["userinfo"]}@h {SECRETS["header"]}\n'
    bookies = two_bookies(metrics=leaking, seen=seen)
    bookies[0]["config/server_config"] = {"bookieAuthProviderSecret": "other-s3cret", "zkServers": SECRETS["signing"]}
    settings = settings_of(site, tmp_path, [usual_broker(clusters=SECRETS["token"])], bookies)
    files = contents(take(settings, Incident(f"odd reason {SECRETS['redis']}", task=SECRETS["signing"])))
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
    nested = "[" * 600 + "]" * 600  # the parser reads it; whatever calls itself for each level cannot
    brokers = [
        usual_broker(metrics="not { a metric", **{"broker-stats/load-report": nested}),
        usual_broker(metrics=hang, **{"broker-stats/topics": deep}),
    ]
    bookies = two_bookies(metrics=hang, **{"bookie/cluster_info": 500, "config/server_config": "no JSON"})
    settings = settings_of(site, tmp_path, brokers, bookies)
    files = contents(take(settings))
    missing = missing_in(files)
    first, second = (name.replace(":", "-") for name in brokers[0]["brokers"])
    assert missing[f"brokers/{second}/metrics"].startswith("no answer")
    assert missing["bookies/127.0.0.2-3181/metrics"].startswith("no answer")
    assert missing["bookies/127.0.0.2-3181/cluster_info"] == "answered 500"
    assert missing["fairlane/workers"].startswith("Redis at redis://127.0.0.1:1")
    assert files["bookies/127.0.0.2-3181/settings.txt"] == "no JSON"
    assert files[f"brokers/{first}/report.txt"] == nested
    assert "bookies/127.0.0.3-3181/metrics.txt" in files
    hang.set()


def test_without_any_server_there_is_an_archive_that_says_so(alone: Settings) -> None:
    files = contents(take(alone, Incident("asked for by hand", task="sale", topics=(LANE,))))
    assert files.keys() == {"manifest.json", "fairlane/settings.json", "fairlane/versions.json"}
    assert {"cluster/brokers", "lanes/fairlane-tasks-00-sale/stats", "fairlane/workers"} <= missing_in(files).keys()


# ---------------------------------------------------------------- bounds
def test_the_largest_texts_are_left_out_of_a_full_archive_and_the_manifest_says_so(
    site: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "MAX_ARCHIVE_BYTES", 900_000)
    brokers = [usual_broker(metrics=noise(300_000)), usual_broker(metrics=noise(900_000))]
    settings = settings_of(site, tmp_path, brokers, [])
    path = take(settings)
    assert path.stat().st_size <= 900_000
    files = contents(path)
    first, second = (name.replace(":", "-") for name in brokers[0]["brokers"])
    assert f"brokers/{first}/metrics.txt" in files
    assert f"brokers/{first}/settings.json" in files
    assert missing_in(files)[f"brokers/{second}/metrics"] == "the archive is full; this has 900,000 bytes"


def test_texts_are_not_read_without_end(site: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "_MAX_READ", 1_000_000)
    broker_with_much = usual_broker(metrics="pulsar_topics_count 5\n" * 50_000)
    files = contents(take(settings_of(site, tmp_path, [broker_with_much], [])))
    assert [why for name, why in missing_in(files).items() if name.endswith("/metrics")] == [
        "the archive is full; this has 1,100,000 bytes"
    ]


# ---------------------------------------------------------------- files
def test_two_archives_of_the_same_second_have_names_of_their_own(alone: Settings, tmp_path: Path) -> None:
    names = [take(alone, output=tmp_path / "out").name for _ in range(3)]
    stem = "capture-20270115T080000Z-asked-for-by-hand"
    assert names == [f"{stem}.tar.gz", f"{stem}-2.tar.gz", f"{stem}-3.tar.gz"]


def test_a_full_disk_is_a_clear_error_and_leaves_nothing_behind(
    alone: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(Path, "write_bytes", Mock(side_effect=full))
    with pytest.raises(CaptureFailed, match="No space left on device"):
        take(alone)
    assert not list((tmp_path / "captures").iterdir())


def test_the_newest_archives_are_kept_in_the_home_and_other_files_too(alone: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    for number in range(KEPT_ARCHIVES + 5):
        path = folder / f"capture-{number:03d}.tar.gz"
        path.touch()
        at_s = 4_000_000_000 + number  # the clock was set back since: the next archive looks oldest
        os.utime(path, (at_s, at_s))
    (folder / "notes.txt").touch()
    newest = take(alone)
    names = sorted(one.name for one in folder.glob("capture-*"))
    assert len(names) == KEPT_ARCHIVES
    assert newest.name in names
    assert "capture-005.tar.gz" not in names
    assert (folder / "notes.txt").exists()


def test_no_archive_is_removed_from_a_folder_that_was_named(alone: Settings, tmp_path: Path) -> None:
    for number in range(KEPT_ARCHIVES + 5):
        (tmp_path / f"capture-{number:03d}.tar.gz").touch()
    take(alone, output=tmp_path)
    assert len(list(tmp_path.glob("capture-*.tar.gz"))) == KEPT_ARCHIVES + 6
