"""Pauses of one app on a channel: written once, obeyed by the ledger, kept until they are over."""

import queue
from collections.abc import Callable
from typing import Any

import pytest

from backends.redis.registry.registry import Registry
from backends.redis.view_records import ViewRecords
from consumers.delivery.fleet_gate import Renewed
from consumers.upkeep.flow_pauses import FlowPauses
from dispatcher.analysis.task_times import Switch
from dispatcher.channels.guards.trouble import Trouble
from dispatcher.model.flow_pause import KEPT_MS, FlowPause, PauseKind, confirmed, ended
from dispatcher.model.service_settings import Setting
from dispatcher.wire.control import GlobalChange, decode_control
from dispatcher.wire.lease import Status
from tests.contract.away_log import AwayLog
from tests.contract.dispatch.test_snapshots import made_again
from tests.contract.ledger_worlds import LawWorld, ask_own
from tests.contract.registry_records import position
from tests.virtual_clock import VirtualClock

FLOW = "null/shop"


def entry(kind: PauseKind, since_ms: int, until_ms: int = 0, **fields: Any) -> FlowPause:
    return FlowPause(kind=kind, since_ms=since_ms, until_ms=until_ms, **fields)


def record(entry: FlowPause, flow: str = FLOW) -> GlobalChange:
    return Setting("flow_paused", entry, flow).record(entry.since_ms)


def pause(world: LawWorld, for_ms: int = 0, flow: str = FLOW) -> None:
    now_ms = world.clock.wall_ms()
    world.apply(record(entry(PauseKind.LIMIT, now_ms, now_ms + for_ms if for_ms else 0), flow))


def test_a_pause_is_over_at_its_end_by_the_clock_of_redis(live: LawWorld) -> None:
    pause(live, for_ms=1_500)
    live.advance(1_499)
    assert live.word(ask_own("t", 1, 5)) == [(Status.PARKED, 5, "")]
    live.advance(1)
    assert live.word(ask_own("t", 1, 5)) == [(Status.GRANTED, 5, "")]


@pytest.mark.parametrize("make", [ended, confirmed])
def test_a_pause_is_over_when_it_is_ended(live: LawWorld, make: Callable[[int, str], FlowPause]) -> None:
    pause(live)
    live.apply(record(make(live.clock.wall_ms(), "by hand")))
    assert live.word(ask_own("t", 1, 5)) == [(Status.GRANTED, 5, "")]


def test_a_pause_of_the_same_app_on_another_channel_stops_nothing(live: LawWorld) -> None:
    pause(live, flow="sms/shop")
    assert live.word(ask_own("t", 1, 5)) == [(Status.GRANTED, 5, "")]


def test_workers_read_the_entries_that_mean_something(registry: Registry) -> None:
    now_ms = registry.service.now_ms()
    entries = {
        "fcm/open": entry(PauseKind.DOWN, now_ms - 10, now_ms + 60_000, reason="HTTP 503 | all of them"),
        "fcm/endless": entry(PauseKind.CREDENTIALS, now_ms - 10, credential="v1"),
        "fcm/over": entry(PauseKind.LIMIT, now_ms - 10, now_ms - 1),
        "fcm/ended": ended(now_ms, "by hand"),
        "fcm/forgotten": ended(now_ms - KEPT_MS - 1, "by hand"),
    }
    registry.control.apply_all([(position(at), record(each, flow)) for at, (flow, each) in enumerate(entries.items())])
    assert registry.service.read_state().flows == {
        flow: each for flow, each in entries.items() if flow not in ("fcm/over", "fcm/forgotten")
    }
    assert set(registry.service.globals().flow_pauses) == {"fcm/open", "fcm/endless"}


def test_the_last_entry_of_a_flow_counts_whatever_the_order(registry: Registry) -> None:
    now_ms = registry.service.now_ms()
    first, last = entry(PauseKind.DOWN, now_ms - 10, now_ms + 60_000), ended(now_ms, "by hand")
    registry.control.apply_all([(position(2), record(last)), (position(1), record(first))])
    assert registry.service.globals().flow_pauses == {}
    assert registry.service.flow_pauses("null", "shop") == [
        Switch(now_ms - 10, paused=True),
        Switch(now_ms, paused=False),
    ]


def test_the_history_of_a_flow_has_ends_by_time(registry: Registry) -> None:
    registry.control.apply(position(1), record(entry(PauseKind.DOWN, 100, 200)))
    registry.control.apply(position(2), record(entry(PauseKind.DOWN, 300, 400)))
    assert registry.service.flow_pauses("null", "shop") == [
        Switch(100, paused=True), Switch(200, paused=False), Switch(300, paused=True), Switch(400, paused=False),
    ]  # fmt: skip


def test_entries_long_over_are_removed_with_all_that_was_kept_of_them(registry: Registry) -> None:
    day_ms, now_ms = 86_400_000, registry.service.now_ms()
    registry.control.apply(position(1), record(entry(PauseKind.DOWN, now_ms - 3 * day_ms, now_ms - 2 * day_ms)))
    registry.control.apply(position(2), record(entry(PauseKind.DOWN, now_ms - 3 * day_ms), "fcm/shop"))
    assert registry.service.forget_flows() == 1
    assert registry.service.forget_flows() == 0
    assert registry.service.flow_pauses("null", "shop") == []
    assert set(registry.service.globals().flow_pauses) == {"fcm/shop"}


def test_an_open_pause_is_restated_and_one_that_is_over_is_not(world: LawWorld) -> None:
    now_ms = world.registry.service.now_ms()
    registry = world.registry
    registry.control.apply(position(1), record(entry(PauseKind.CREDENTIALS, now_ms - 5, reason="wrong key")))
    registry.control.apply(position(2), record(entry(PauseKind.LIMIT, now_ms - 5, now_ms - 1), "fcm/over"))
    registry.control.apply(position(3), record(ended(now_ms - 5, "by hand"), "fcm/ended"))
    restated = [
        decoded
        for each in ViewRecords(world.view).settings()
        if isinstance(decoded := decode_control(each.record), GlobalChange) and decoded.field.startswith("flow_paused")
    ]
    assert {each.field for each in restated} == {"flow_paused:null:shop", "flow_paused:fcm:ended"}
    before = registry.service.flow_pauses("null", "shop")
    for each in restated:
        registry.control.apply(position(1 if each.field.endswith("shop") else 3), each)
    assert registry.service.flow_pauses("null", "shop") == before, "a copy is the same record"


def test_a_view_made_from_a_snapshot_has_the_pauses(world: LawWorld) -> None:
    now_ms = world.registry.service.now_ms()
    world.registry.control.apply(position(1), record(entry(PauseKind.DOWN, now_ms, now_ms + 60_000)))
    made_again(world)
    assert set(world.registry.service.read_state().flows) == {FLOW}


class Writer:
    """A worker that stores what its gate met."""

    def __init__(self, registry: Registry, log: AwayLog) -> None:
        self.log = log
        self.clock = VirtualClock()
        self.outbox: queue.Queue[Trouble | Renewed] = queue.Queue()
        self.registry = registry
        self.slowed: list[tuple[str, str, int]] = []
        self.has_cap = False
        self.pauses = FlowPauses(registry.service, registry.control, log, self.clock, self.outbox, self.slow)

    def slow(self, channel: str, app: str, for_ms: int) -> bool:
        self.slowed.append((channel, app, for_ms))
        return self.has_cap

    def meets(self, kind: PauseKind, for_s: float = 60.0) -> bool:
        """Return whether all that is to be done is done."""
        met = Trouble(channel="null", app="shop", kind=kind, for_s=for_s, reason="because", credential="v1")
        self.outbox.put(met)
        return self.pauses.round()

    def renews(self, credential: str) -> bool:
        self.outbox.put(Renewed(FLOW, credential))
        return self.pauses.round()

    def entry(self) -> FlowPause:
        return self.registry.service.read_state().flows[FLOW]

    @property
    def kinds(self) -> list[str]:
        """Those of the entries in the topic."""
        records = [decode_control(body) for body in self.log.records]
        return [Setting.parse(one.field, one.value).value.kind for one in records if isinstance(one, GlobalChange)]


@pytest.fixture
def writers(registry: Registry) -> tuple[Writer, Writer]:
    log = AwayLog()
    return Writer(registry, log), Writer(registry, log)


def test_two_workers_that_meet_the_same_trouble_write_one_pause(writers: tuple[Writer, Writer]) -> None:
    one, other = writers
    assert one.meets(PauseKind.DOWN)
    assert other.meets(PauseKind.DOWN)
    assert one.kinds == ["down"]
    found, now_ms = one.entry(), one.registry.service.now_ms()
    assert (found.kind, found.reason) == (PauseKind.DOWN, "because")
    assert 50_000 < found.until_ms - now_ms <= 60_000


def test_a_worker_that_dies_before_it_writes_stops_the_others_for_seconds_only(writers: tuple[Writer, Writer]) -> None:
    one, other = writers
    assert one.registry.service.take_flow(FLOW, PauseKind.DOWN).is_taken
    assert not other.meets(PauseKind.DOWN), "the first may be about to write"
    one.registry.service.free_flow(FLOW)  # as the lock does after a while
    assert other.pauses.round()
    assert one.kinds == ["down"]


def test_a_graver_trouble_replaces_a_milder_one_and_not_the_other_way_round(writers: tuple[Writer, Writer]) -> None:
    one, _ = writers
    for kind in (PauseKind.LIMIT, PauseKind.CREDENTIALS, PauseKind.DOWN):
        assert one.meets(kind)
    assert one.kinds == ["limit", "credentials"]


@pytest.mark.parametrize(
    ("kind", "version", "after"),
    [
        (PauseKind.CREDENTIALS, "v2", ["credentials", "ended"]),
        (PauseKind.SUSPECT, "v2", ["suspect", "ended"]),
        (PauseKind.CREDENTIALS, "v1", ["credentials"]),
        (PauseKind.DOWN, "v2", ["down"]),
    ],
)
def test_new_credentials_end_what_the_old_ones_are_blamed_for(
    writers: tuple[Writer, Writer], kind: PauseKind, version: str, after: list[str]
) -> None:
    one, other = writers
    assert one.meets(kind, for_s=float("inf"))
    assert one.entry().until_ms == 0
    assert one.renews(version)
    assert other.renews(version)
    assert one.kinds == after


def test_doubts_of_a_suspected_minute_outlive_new_credentials_and_further_pauses(
    writers: tuple[Writer, Writer],
) -> None:
    one, other = writers
    assert one.meets(PauseKind.SUSPECT, for_s=float("inf"))
    suspected_ms = one.entry().since_ms
    assert other.renews("v2")
    assert other.entry().doubts(suspected_ms - 1)
    assert other.meets(PauseKind.DOWN, for_s=0.001)
    assert one.kinds == ["suspect", "ended", "down"]
    assert one.entry().doubts(suspected_ms - 1)
    one.registry.control.apply(position(9), record(confirmed(suspected_ms, "by hand")))
    assert not one.entry().doubts(suspected_ms - 1)


def test_doubts_are_kept_for_as_long_as_ends_are(registry: Registry) -> None:
    day_ms, now_ms = 86_400_000, registry.service.now_ms()
    over = entry(PauseKind.LIMIT, now_ms - 3 * day_ms, now_ms - 2 * day_ms)
    suspected = entry(PauseKind.SUSPECT, now_ms - 4 * day_ms)
    registry.control.apply(position(1), record(over.after(suspected)))
    assert registry.service.forget_flows() == 0
    assert registry.service.flow_entries()[FLOW].doubts(suspected.since_ms)


def test_a_flow_with_a_cap_of_its_own_is_slowed_and_not_paused(writers: tuple[Writer, Writer]) -> None:
    one, _ = writers
    one.has_cap = True
    assert one.meets(PauseKind.LIMIT)
    assert (one.slowed, one.kinds) == ([("null", "shop", 60_000)], [])
    one.has_cap = False
    assert one.meets(PauseKind.LIMIT)
    assert one.kinds == ["limit"]


def test_confirmed_dead_targets_are_not_suspected_again(writers: tuple[Writer, Writer]) -> None:
    one, _ = writers
    one.registry.control.apply(position(1), record(confirmed(one.registry.service.now_ms(), "by hand")))
    assert one.meets(PauseKind.SUSPECT)
    assert one.kinds == []
    assert one.meets(PauseKind.CREDENTIALS)
    assert one.kinds == ["credentials"]


def test_a_trouble_that_is_over_before_it_could_be_stored_is_dropped(writers: tuple[Writer, Writer]) -> None:
    one, other = writers
    assert one.registry.service.take_flow(FLOW, PauseKind.DOWN).is_taken
    assert not other.meets(PauseKind.DOWN, for_s=5.0)
    other.clock.advance(5.0)
    assert other.pauses.round()
    assert one.kinds == []


def test_a_pause_that_cannot_be_stored_is_stored_by_the_first_worker_that_can(writers: tuple[Writer, Writer]) -> None:
    one, other = writers
    one.log.is_away = True
    assert not one.meets(PauseKind.DOWN)
    assert not other.meets(PauseKind.DOWN)
    one.log.is_away = False
    assert one.pauses.round()
    assert other.pauses.round()
    assert one.kinds == ["down"]


def test_a_pause_whose_receipt_was_lost_is_stored_again_and_is_one_pause(writers: tuple[Writer, Writer]) -> None:
    one, _ = writers
    one.log.answers_lost = True
    assert not one.meets(PauseKind.DOWN)
    one.log.answers_lost = False
    assert one.pauses.round()
    assert one.kinds == ["down", "down"]
    assert one.entry().kind is PauseKind.DOWN
    assert len([switch for switch in one.registry.service.flow_pauses("null", "shop") if switch.paused]) == 1
