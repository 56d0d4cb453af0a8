"""`fairlane estate show`: every node is a row, and the last line says what is wrong."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from estate.facts.answers import BROKERS_PROPERTY, NAMES_PROPERTY
from lab.simulator.redis.server import MemoryRedis
from lab.simulator.world import view_in
from tests.unit.command_line import CommandLine
from tests.unit.dispatch.backends.estate_site import BROKER_METRICS, bookie, broker, serve_estate

FIRST, SECOND, THIRD = "127.0.0.2:3181", "127.0.0.3:3181", "127.0.0.4:3181"
ALL = [FIRST, SECOND, THIRD]
WELL_DISK = "bookie_ledger_dir_data_usage 40.0\n"
Site = Callable[..., None]


def times(*each: float) -> str:
    """Return the metrics of a broker that sees these times of its bookies."""
    prefix = "pulsar_managedLedger_client_per_channel_bookie_client_bookie_"
    names = [name.replace(".", "_").replace(":", "_") for name in ALL]
    return "".join(
        f'{prefix}{name}_ADD_ENTRY{{success="true",quantile="0.99"}} {p99}\n'
        for name, p99 in zip(names, each, strict=True)
    )


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A function that serves brokers and three bookies, and has the settings name them."""
    with ExitStack() as servers:

        def serve(*brokers: dict[str, Any], writable: list[str] = ALL, with_bookies: bool = True) -> None:
            read_only = [name for name in ALL if name not in writable]
            bookies = [bookie(writable, read_only, metrics=WELL_DISK) for _ in (ALL if with_bookies else ())]
            names, port = serve_estate(servers, brokers, bookies)
            monkeypatch.setenv("FAIRLANE_PULSAR_URL", "pulsar://127.0.0.1:1")
            monkeypatch.setenv("FAIRLANE_PULSAR_ADMIN_URL", f"http://{names[0]}")
            monkeypatch.setenv("FAIRLANE_PULSAR_NAMESPACES", "1")
            if with_bookies:
                monkeypatch.setenv("FAIRLANE_ESTATE_BOOKIE_HTTP", f"http://{{host}}:{port}")

        yield serve


def well(**answers: Any) -> dict[str, Any]:
    """Return a broker of an estate with ensembles of two on three bookies, provisioned when it had two brokers."""
    bookies = {"bookies": [{"bookieId": name} for name in ALL]}
    policies = {"bundles": {"numBundles": 4}, "persistence": dict.fromkeys(
        ("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum"), 2),
        "properties": {BROKERS_PROPERTY: "2"}}  # fmt: skip
    spaces = {f"namespaces/fairlane/{name}": policies for name in ("tasks-00", "shared", "system")}
    return broker(**{"bookies/all": bookies, "metrics": times(9, 10, 11), **spaces, **answers})


def test_nothing_is_wrong_with_an_estate_that_is_well(site: Site, cli: CommandLine) -> None:
    site(well(), well())
    printed = cli(["estate", "show"], 0).out
    assert printed.strip().splitlines()[-1] == "nothing is wrong"
    assert all(name in printed for name in ALL)


def test_a_slow_start_of_the_metadata_store_is_not_wrong_any_more(site: Site, cli: CommandLine) -> None:
    slow = 'pulsar_metadata_store_ops_latency_ms_bucket{type="put",status="success",le="%s"} %d\n'
    metrics = times(9, 10, 11) + slow % ("300.0", 0) + slow % ("500.0", 40) + slow % ("+Inf", 40)
    site(well(metrics=metrics), well())
    assert cli(["estate", "show"], 0).out.strip().splitlines()[-1] == "nothing is wrong"


def test_a_slow_bookie_is_named_by_what_brokers_see(site: Site, cli: CommandLine) -> None:
    site(well(metrics=times(9, 402, 11)), well(metrics=times(12, 390, 9)))
    printed = cli(["estate", "show", "--stages"], 1).out
    wrong = printed.strip().splitlines()[-1]
    assert wrong == f"what is wrong: bookie {SECOND} is slow (402 ms p99, as brokers see it)"
    assert f"stored by bookie {SECOND}" in printed
    document = json.loads(cli(["estate", "show", "--stages", "-o", "json"], 1).out)
    assert [one["state"] for one in document["bookies"]] == ["writable", "slow", "writable"]
    largest = max((one for one in document["stages"] if one["share"]), key=lambda one: one["share"])
    assert largest["worst"] == SECOND


def test_a_broker_that_answers_500_is_a_row_and_the_others_are_complete(site: Site, cli: CommandLine) -> None:
    site(well(), {"metrics": 500})
    document = json.loads(cli(["estate", "show", "-o", "json"], 1).out)
    assert sorted(one["state"] for one in document["brokers"]) == ["no answer", "up"]
    assert sum(one["lanes"] is None for one in document["brokers"]) == 2, "the metrics of this test have no topics"
    assert any("does not answer (answered 500)" in one for one in document["wrong"])


@pytest.fixture
def redis(monkeypatch: pytest.MonkeyPatch) -> MemoryRedis:
    """A Redis in memory that commands take for theirs."""
    server = MemoryRedis(lambda: 1_700_000_000_000)
    monkeypatch.setattr("backends.redis.view.open_view", lambda _: view_in(server, "fairlane"))
    return server


def lost_broker(cli: CommandLine) -> tuple[list[str], list[str]]:
    """Return the states of brokers and what is wrong, of an estate that has lost one."""
    document = json.loads(cli(["estate", "show", "-o", "json"], 1).out)
    return [one["state"] for one in document["brokers"]], document["wrong"]


COUNTED = ["brokers are lost (1 of 2 answer)", "no broker to spare (1 answers)"]


def forget_second(*brokers: dict[str, Any]) -> str:
    """Let Pulsar list the first broker only, since the session of the second one has ended. Return its name."""
    first, second = brokers[0]["brokers"]
    for one in brokers:
        one["brokers"] = [first]
    return str(second)


def test_a_lost_broker_is_named_until_redis_is_emptied_and_counted_for_ever(
    site: Site, cli: CommandLine, redis: MemoryRedis
) -> None:
    brokers = well(), well()
    site(*brokers)
    cli(["estate", "show"], 0)
    lost, view = forget_second(*brokers), view_in(redis, "fairlane")
    view.command("HSET", view.keys.seen_brokers, "a.broker:80", "nonsense")
    for _ in range(2):
        states, wrong = lost_broker(cli)
        assert states == ["up", "gone"]
        assert wrong[0].startswith(f"broker {lost} is gone (last seen at 2023-11-1")
        assert wrong[1:] == COUNTED
    view.wipe()
    assert lost_broker(cli) == (["up"], COUNTED)


def test_a_broker_that_was_only_seen_dead_is_named_when_pulsar_has_forgotten_it(
    site: Site, cli: CommandLine, redis: MemoryRedis
) -> None:
    brokers = well(), well(metrics=500)
    site(*brokers)
    assert sorted(lost_broker(cli)[0]) == ["no answer", "up"]
    lost = forget_second(*brokers)
    assert lost_broker(cli)[1][0].startswith(f"broker {lost} is gone (last seen at 2023-11-1")


def test_a_lost_broker_that_no_command_saw_is_named_as_it_was_provisioned(site: Site, cli: CommandLine) -> None:
    """There is no Redis."""
    brokers = well(), well()
    site(*brokers)
    names = brokers[0]["brokers"]
    lost = forget_second(*brokers)
    for one in brokers:
        properties = {BROKERS_PROPERTY: "2", NAMES_PROPERTY: ",".join(names)}
        one["namespaces/fairlane/system"] = {**one["namespaces/fairlane/system"], "properties": properties}
    states, wrong = lost_broker(cli)
    assert states == ["up", "gone"]
    assert wrong == [f"broker {lost} is gone (last seen by `fairlane provision`)", *COUNTED]


def test_a_broker_of_another_name_takes_the_place_of_a_lost_one(
    site: Site, cli: CommandLine, redis: MemoryRedis
) -> None:
    brokers = [well(), well(), well()]
    site(*brokers)
    names = brokers[0]["brokers"]
    for listed in (names[:2], [names[0], names[2]]):
        for one in brokers:
            one["brokers"] = listed
        cli(["estate", "show"], 0)
    for one in brokers:
        one["brokers"] = names[:1]
    _, wrong = lost_broker(cli)
    assert f"broker {names[2]} is gone" in wrong[0], "and not the one that was replaced"


def test_the_setting_decides_on_the_number_of_brokers(
    site: Site, cli: CommandLine, redis: MemoryRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    site(well(), well())
    monkeypatch.setenv("FAIRLANE_ESTATE_BROKERS", "3")
    assert lost_broker(cli) == (["up", "up"], ["brokers are lost (2 of 3 answer)"])


def test_no_bookie_to_spare_is_wrong(site: Site, cli: CommandLine) -> None:
    site(well(), well(), writable=[FIRST, SECOND])
    printed = cli(["estate", "show"], 1).out.strip().splitlines()[-1]
    assert printed.startswith("what is wrong: no bookie to spare (2 writable bookies, ensembles of 2)")
    assert f"bookie {THIRD} is read-only" in printed


def test_bookies_that_are_not_asked_are_said_to_be(site: Site, cli: CommandLine) -> None:
    site(well(), well(), with_bookies=False)
    document = json.loads(cli(["estate", "show", "-o", "json"], 1).out)
    assert {one["state"] for one in document["bookies"]} == {"unknown"}
    assert any("the bookies were not looked at" in one for one in document["wrong"])


def test_a_wrong_address_is_one_row(monkeypatch: pytest.MonkeyPatch, cli: CommandLine) -> None:
    monkeypatch.setenv("FAIRLANE_PULSAR_URL", "pulsar://127.0.0.1:1")
    monkeypatch.setenv("FAIRLANE_PULSAR_ADMIN_URL", "http://127.0.0.1:9")
    document = json.loads(cli(["estate", "show", "-o", "json"], 1).out)
    assert [(one["broker"], one["state"]) for one in document["brokers"]] == [("127.0.0.1:9", "no answer")]
    assert any("refused" in one for one in document["wrong"])
    assert any("brokers" in one for one in document["wrong"])


def test_both_load_managers_are_shown(site: Site, cli: CommandLine) -> None:
    extensible = BROKER_METRICS + 'pulsar_lb_resource_usage{feature="max_ema"} 0.5\n'
    site(well(**{"broker-stats/load-report": 500, "metrics": extensible}), well())
    document = json.loads(cli(["estate", "show", "-o", "json"], 1).out)
    assert document["metadata"]["load_manager"] == "extensible, modular"


def test_watch_looks_again(site: Site, cli: CommandLine) -> None:
    site(well(), well())
    printed = cli(["estate", "show", "--watch", "--count", "2", "--every", "0.5"], 0).out
    assert printed.count("nothing is wrong") == 2
