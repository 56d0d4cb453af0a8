"""Envelopes held back by a paused channel or a cap leave shared lanes, and wait where they delay no other task."""

import pytest

from dispatcher.wire.lease import Status
from dispatcher.wire.outcome import RETRY
from tests.contract.ledger_worlds import (
    SHARED_LANE,
    TOPICS,
    LawWorld,
    ask_own,
    ask_retry,
    ask_shared,
    ask_side,
    mixed,
    own_lane,
    want,
)

SIDE = TOPICS.side_lane("shop", "null")


def paused(world: LawWorld, value: str = "1") -> None:
    world.set_global("channel_paused:null", value)


@pytest.fixture
def tasks(world: LawWorld) -> LawWorld:
    world.add("own")
    world.add("small", "low", shared=True)
    world.add("other", "low", shared=True, channel="log")
    world.add("bank", app="bank")
    world.set_capacity(1_000)
    for task in ("own", "small", "other"):
        world.record(task, mixed(0, [RETRY]))
    world.lease(1, worker="the first: the buckets begin to fill")
    world.advance(1_000)
    return world


@pytest.mark.parametrize(
    ("field", "value", "of_bank"),
    [("channel_paused:null", "1", Status.PARKED), ("flow_paused:null:shop", "0|limit|1||", Status.GRANTED)],
)
def test_a_paused_channel_or_flow_stops_every_lane_and_spends_nothing(
    tasks: LawWorld, field: str, value: str, of_bank: Status
) -> None:
    tasks.set_global(field, value)
    assert tasks.word(ask_own("own", 1, 5)) == [(Status.PARKED, 5, "")]
    assert tasks.word(ask_retry(want("own", 0, 1, attempt=1))) == [(Status.MOVE, 1, own_lane("own"))]
    assert tasks.word(ask_shared(want("small", 1, 5))) == [(Status.MOVE, 5, SIDE)]
    assert tasks.word(ask_retry(want("small", 0, 1, attempt=1), tier="low")) == [(Status.MOVE, 1, SIDE)]
    assert tasks.word(ask_side(want("small", 1, 5))) == [(Status.PARKED, 5, "")]
    assert tasks.word(ask_shared(want("other", 1, 1)))[0][0] == Status.GRANTED
    assert tasks.sides() == {SIDE}
    assert not any(name.startswith("granted:high") for name in tasks.stats())
    assert (tasks.claims("own"), tasks.claims("small")) == (0, 0)
    assert tasks.word(ask_own("bank", 0, 5)) == [(of_bank, 5, "")]


def test_a_channel_that_goes_on_is_sent_from_where_it_waits(tasks: LawWorld) -> None:
    paused(tasks)
    paused(tasks, "0")
    tasks.advance(1_000)
    assert tasks.word(ask_own("own", 1, 5)) == [(Status.GRANTED, 5, "")]
    assert tasks.word(ask_side(want("small", 1, 5)))[0][0] == Status.GRANTED
    assert tasks.sides() == set()


@pytest.mark.parametrize("how", ["cancelled", "expired"])
def test_what_is_cancelled_or_expired_is_recorded_on_a_paused_channel_too(tasks: LawWorld, how: str) -> None:
    tasks.add("brief", "low", shared=True, expires_ms=tasks.clock.wall_ms() + 100)
    paused(tasks)
    status = Status.EXPIRED
    if how == "cancelled":
        tasks.change("brief", "cancelled", "1")
        status = Status.CANCELLED
    else:
        tasks.advance(100)
    assert tasks.word(ask_shared(want("brief", 0, 2))) == [(status, 2, "")]
    assert tasks.word(ask_side(want("brief", 2, 2))) == [(status, 2, "")]
    assert tasks.claims("brief") == 2
    assert tasks.held() == {}, "it spends nothing"


CAPS = ["cap:channel:null", "cap:app:shop", "cap:app_channel:shop/null"]


@pytest.mark.parametrize("cap", CAPS)
def test_a_cap_holds_back_in_its_own_lanes_and_moves_out_of_those_of_many(tasks: LawWorld, cap: str) -> None:
    tasks.set_global(cap, "100")
    small = [want("small", 1, 500), want("other", 1, 3)]
    held, others = tasks.by_another(ask_shared(*small))
    if cap == "cap:app:shop":
        assert held[-1].status == Status.MOVE
    else:
        assert [piece.status for piece in others][-1] == Status.GRANTED
    assert (held[-1].status, held[-1].lane) == (Status.MOVE, SIDE)
    assert sum(piece.count for piece in held if piece.status == Status.GRANTED) <= 5
    high = tasks.word(ask_own("own", 1, 500))
    assert [piece[0] for piece in high] == [Status.GRANTED, Status.NO_CREDIT]
    assert tasks.word(ask_retry(want("own", 0, 1, attempt=1))) == [(Status.MOVE, 1, own_lane("own"))]
    assert tasks.word(ask_side(want("small", 10, 500)))[-1][0] == Status.NO_CREDIT


def test_a_cap_with_room_moves_nothing(tasks: LawWorld) -> None:
    tasks.set_global("cap:channel:null", "10000")
    assert tasks.word(ask_shared(want("small", 1, 20))) == [(Status.GRANTED, 20, "")]
    assert tasks.word(ask_retry(want("own", 0, 1, attempt=1))) == [(Status.GRANTED, 1, "")]
    assert tasks.sides() == set()


def test_want_of_capacity_moves_nothing(tasks: LawWorld) -> None:
    tasks.set_global("cap:channel:null", "100000")
    pieces = tasks.word(ask_shared(want("small", 1, 5_000)))
    assert [status for status, _, _ in pieces] == [Status.GRANTED, Status.NO_CREDIT]
    assert tasks.sides() == set()


def test_a_task_with_a_lane_of_its_own_leaves_a_shared_lane_for_that(tasks: LawWorld) -> None:
    tasks.change("small", "lane", own_lane("small"))
    paused(tasks)
    assert tasks.word(ask_shared(want("small", 1, 5))) == [(Status.MOVE, 5, own_lane("small"))]
    assert tasks.word(ask_side(want("small", 1, 5))) == [(Status.MOVE, 5, own_lane("small"))]


def test_a_side_lane_has_the_weight_of_one_task(world: LawWorld) -> None:
    """Beside a shared lane of three tasks it gets a quarter."""
    for number in range(3):
        world.add(f"s{number}", "low", shared=True)
    world.add("moved", "low", shared=True, lane=TOPICS.shared_lane(5))
    world.set_capacity(1_000)
    granted = {SHARED_LANE: 0, SIDE: 0}
    for number in range(1, 101):
        world.advance(100)
        asks = [ask_shared(want("s0", granted[SHARED_LANE], 200)), ask_side(want("moved", granted[SIDE], 200))]
        for asked, wants in zip(asks, world.lease(number, *asks).lanes, strict=True):
            granted[asked.lane] += sum(piece.count for piece in wants[0] if piece.status == Status.GRANTED)
    assert granted[SIDE] / sum(granted.values()) == pytest.approx(1 / 4, abs=0.02)
