"""One look at an estate: a node that does not answer is a fact, and costs the others nothing."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from backends.settings import PulsarSettings
from dispatcher.model.errors import InvalidInput
from dispatcher.wire.topics import Topics
from estate.facts.questions import Depth
from estate.facts.reader import EstateReader
from estate.rules.cluster import BookieMode, Estate, LoadManager
from estate.rules.reading import estate_of
from tests.unit.dispatch.backends.estate_site import bookie, broker, serve_estate, serving

ALL = Depth.SETTINGS | Depth.TOPICS | Depth.STORAGE
FIRST, SECOND = "127.0.0.2:3181", "127.0.0.3:3181"


@pytest.fixture
def open_servers() -> Iterator[ExitStack]:
    with ExitStack() as servers:
        yield servers


def look(
    servers: ExitStack,
    brokers: list[dict[str, Any]],
    bookies: list[dict[str, Any]],
    depth: Depth = Depth.FIGURES,
    **settings: Any,
) -> Estate:
    """Return the facts of one look at these nodes."""
    names, port = serve_estate(servers, brokers, bookies)
    limit_s = settings.pop("limit_s", 2.0)
    template = settings.pop("template", f"http://{{host}}:{port}" if bookies else None)
    pulsar = PulsarSettings(url="pulsar://b:1", admin_url=f"http://{names[0]}", **settings)
    with closing(EstateReader(pulsar, Topics(namespaces=1), template, limit_s)) as reader:
        return estate_of(reader.read(depth))


def two_bookies(**answers: Any) -> list[dict[str, Any]]:
    return [bookie([FIRST], [SECOND], **answers), bookie([FIRST], [SECOND])]


def test_figures_of_all_nodes_become_facts(open_servers: ExitStack) -> None:
    estate = look(open_servers, [broker(), broker()], two_bookies(), ALL)
    one = estate.brokers[0]
    assert (len(estate.brokers), one.manager, one.lanes, one.publish_p99_ms) == (2, LoadManager.MODULAR, 7, 21.5)
    assert (one.throttled_connections, one.cache_hit_ratio, one.metadata_put_p99_ms) == (2, 0.75, None)
    assert one.bundles == ("fairlane/shared/0x00000000_0x80000000",)
    slow, other = estate.bookies
    assert (slow.name, slow.mode, slow.rack, slow.broker_p99_ms) == (FIRST, BookieMode.WRITABLE, "/r1", 400.0)
    assert (slow.write_p99_ms, slow.fsync_p99_ms, slow.disk_used) == (82.0, 7.0, 0.935)
    assert (other.mode, other.rack, other.broker_p99_ms) == (BookieMode.READ_ONLY, None, None)
    assert (estate.leader, estate.auditor, estate.under_replicated) == ("b1:8080", FIRST, 0)
    assert estate.largest_ensemble() == 3


def metadata_puts(quick: int, slow: int) -> str:
    """Return metrics with writes to the metadata store of up to 10 ms, and of 100 to 500 ms."""
    counts = {"10.0": quick, "100.0": quick, "500.0": quick + slow, "+Inf": quick + slow}
    labels = 'cluster="c",type="put",status="success"'
    name = "pulsar_metadata_store_ops_latency_ms_bucket"
    return "".join(f'{name}{{{labels},le="{bound}"}} {count}\n' for bound, count in counts.items())


@pytest.mark.parametrize(
    ("before", "now", "p99_ms"),
    [
        ((20, 30), (20, 30), None),
        ((20, 30), (120, 30), 9.9),
        ((900, 0), (900, 100), 496.0),
        ((900, 5), (6, 5), None),
        ((0, 0), (100, 0), 9.9),
    ],
    ids=["nothing new", "slow at the start only", "slow now", "restarted", "new"],
)
def test_times_of_the_metadata_store_are_those_between_two_looks(
    open_servers: ExitStack, before: tuple[int, int], now: tuple[int, int], p99_ms: float | None
) -> None:
    """One look asks twice."""
    answers = iter([metadata_puts(*before), metadata_puts(*now)])
    (one,) = look(open_servers, [broker(metrics=lambda _: next(answers))], []).brokers
    assert one.metadata_put_p99_ms == p99_ms


def test_a_second_look_goes_on_where_the_first_one_ended(open_servers: ExitStack) -> None:
    texts = [metadata_puts(0, 50), metadata_puts(100, 50), metadata_puts(100, 150)]
    names, _ = serve_estate(open_servers, [broker(metrics=lambda _: texts.pop(0))], [])
    pulsar = PulsarSettings(url="pulsar://b:1", admin_url=f"http://{names[0]}")
    with closing(EstateReader(pulsar, Topics(namespaces=1), None)) as reader:
        times = [estate_of(reader.read()).brokers[0].metadata_put_p99_ms for _ in range(2)]
    assert times == [9.9, 496.0]
    assert not texts


def test_the_extensible_manager_has_no_load_report(open_servers: ExitStack) -> None:
    metrics = 'pulsar_lb_resource_usage{feature="max_ema"} 0.5\npulsar_lb_cpu_usage{broker="b"} 12.5\n'
    topics = {"fairlane/shared": {"0x0_0x8": {"persistent": {"persistent://fairlane/shared/a": {"msgRateIn": 3.0}}}}}
    answers = broker(**{"broker-stats/load-report": 500, "metrics": metrics, "broker-stats/topics": topics})
    (one,) = look(open_servers, [answers], [], ALL).brokers
    assert (one.manager, one.failure, one.cpu and one.cpu.used) == (LoadManager.EXTENSIBLE, "", 12.5)
    assert one.bundles == ("fairlane/shared/0x0_0x8",)


def test_a_standalone_server_has_no_load_manager(open_servers: ExitStack) -> None:
    """It answers null."""
    (one,) = look(open_servers, [broker(**{"broker-stats/load-report": None})], []).brokers
    assert (one.manager, one.failure, one.bundles) == (LoadManager.NONE, "", ())


def test_all_nodes_are_asked_at_once(open_servers: ExitStack) -> None:
    """None answers before all have been asked, so that those that hang cost one limit together."""
    all_asked, asked = threading.Barrier(4), [0, 0, 0]

    def when_all_are_asked(_: object) -> str:
        all_asked.wait(10)
        return ""

    def at_second_time(number: int) -> Callable[[object], str]:
        def answer(body: object) -> str:
            asked[number] += 1
            return when_all_are_asked(body) if asked[number] == 2 else ""

        return answer

    brokers = [broker(metrics=at_second_time(number)) for number in range(3)]
    estate = look(open_servers, brokers, two_bookies(metrics=when_all_are_asked), limit_s=10.0)
    assert [one.failure for one in estate.brokers] == [""] * 3
    assert [one.failure for one in estate.bookies] == [""] * 2


def test_nodes_that_hang_cost_the_others_nothing(open_servers: ExitStack) -> None:
    never = threading.Event()
    hanging = {"metrics": never, "broker-stats/load-report": never}
    estate = look(open_servers, [broker(), hanging, hanging], two_bookies(metrics=never), limit_s=0.5)
    never.set()
    assert sorted(bool(one.failure) for one in estate.brokers) == [False, True, True]
    assert [bool(one.failure) for one in estate.bookies] == [True, False]
    assert estate.bookies[0].mode is BookieMode.WRITABLE, "its peer lists it"


def test_without_an_address_bookies_are_not_asked(open_servers: ExitStack) -> None:
    estate = look(open_servers, [broker()], [])
    assert not estate.bookies_asked
    assert {one.mode for one in estate.bookies} == {BookieMode.UNKNOWN}
    assert all("estate.bookie_http" in one.failure for one in estate.bookies)
    assert estate.under_replicated is None


def test_a_bookie_that_no_list_names_is_gone(open_servers: ExitStack) -> None:
    estate = look(open_servers, [broker()], [bookie([FIRST], []), bookie([FIRST], [])])
    assert [one.mode for one in estate.bookies] == [BookieMode.WRITABLE, BookieMode.GONE]


def test_a_broker_that_is_known_is_asked_when_the_configured_one_is_gone(open_servers: ExitStack) -> None:
    """The nodes are named from then on by another broker, and the one that is gone is a row."""
    first, second = broker(), broker()
    with ExitStack() as configured:
        names = [configured.enter_context(serving(first)), open_servers.enter_context(serving(second))]
        first["brokers"] = second["brokers"] = names
        pulsar = PulsarSettings(url="pulsar://b:1", admin_url=f"http://{names[0]}")
        reader = open_servers.enter_context(closing(EstateReader(pulsar, Topics(namespaces=1), None)))
        assert not estate_of(reader.read()).unread
        configured.close()
        estate = estate_of(reader.read())
    assert not estate.unread
    assert {one.name: one.answered for one in estate.brokers} == {names[0]: False, names[1]: True}
    assert len(estate.bookies) == 2
    assert estate.largest_ensemble() == 3


@pytest.mark.parametrize("template", ["", "{host}", "http://", "http://{nobody}:1", "ftp://{host}", "http://{host}:0"])
def test_a_template_that_is_no_address_is_refused(open_servers: ExitStack, template: str) -> None:
    with pytest.raises(InvalidInput, match="bookie_http"):
        look(open_servers, [broker()], two_bookies(), template=template)


def test_bookies_get_no_credentials(open_servers: ExitStack) -> None:
    of_broker: list[Any] = []
    of_bookie: list[Any] = []
    look(open_servers, [broker(seen=of_broker)], two_bookies(seen=of_bookie), ALL, token="secret")
    assert {token for _, token in of_broker} == {"Bearer secret"}
    assert {token for _, token in of_bookie} == {None}


@pytest.mark.parametrize("nonsense", ["", "[]", "no metrics {", "\x00", 'pulsar_topics_count{a="b" 1', "null", "1e999"])
def test_nonsense_becomes_no_figure_and_no_error(open_servers: ExitStack, nonsense: str) -> None:
    answers = broker(**dict.fromkeys(broker(), nonsense))
    answers["brokers"] = nonsense
    estate = look(open_servers, [answers], [], ALL)
    assert len(estate.brokers) == 1
    assert estate.largest_ensemble() in (None, 3)


def test_strays_are_subscriptions_that_are_not_ours(open_servers: ExitStack) -> None:
    ours = {"dispatch": {}, "reader-ab12": {"msgBacklog": 5}, "30edcaaf47b3ddd6-reader-95c41a62ab": {"msgBacklog": 5}}
    subscriptions = {**ours, "copy": {"msgBacklog": 70}}
    topics = {
        "fairlane/shared": {
            "0x0_0x8": {
                "persistent": {
                    "persistent://fairlane/shared/a": {"subscriptions": subscriptions},
                    "persistent://fairlane/shared/__change_events": {"subscriptions": {"__compaction": {}}},
                }
            }
        },
        "other/ns": {"0x0_0x8": {"persistent": {"persistent://other/ns/a": {"subscriptions": subscriptions}}}},
    }
    estate = look(open_servers, [broker(**{"broker-stats/topics": topics})], [], ALL)
    assert [(one.topic, one.name, one.backlog) for one in estate.strays] == [
        ("persistent://fairlane/shared/a", "copy", 70)
    ]


def test_the_bookies_of_the_newest_entries_are_read_from_the_ledgers(open_servers: ExitStack) -> None:
    metadata = (
        "LedgerMetadata{ensembles={0=[127.0.0.2:3181, 127.0.0.3:3181], 9=[127.0.0.4:3181, 127.0.0.3:3181]}, x={}}"
    )
    path = "persistent/fairlane/system/control/internalStats?metadata=true"
    offload = {"persistent/fairlane/system/control/offload": {"status": "ERROR", "lastError": "no NAR"}}
    estate = look(open_servers, [broker(**{path: {"ledgers": [{"metadata": metadata}]}, **offload})], [], ALL)
    assert estate.offload_errors == {"persistent://fairlane/system/control": "no NAR"}
    assert [one.bookies for one in estate.ledgers] == [("127.0.0.4:3181", "127.0.0.3:3181")]
