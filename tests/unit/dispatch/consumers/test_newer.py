"""How long lanes with envelopes of a later version are kept out of."""

from consumers.lanes.newer import NewerFormats, NewerSettings
from dispatcher.wire.lease import LaneKind
from tests.records import lane_info
from tests.virtual_clock import VirtualClock

OWN, SHARED = lane_info("own"), lane_info("shared", kind=LaneKind.SHARED)


def formats() -> tuple[NewerFormats, VirtualClock]:
    clock = VirtualClock()
    return NewerFormats(clock, NewerSettings(max_refused=3, max_refused_own=2, again_s=30.0)), clock


def test_a_lane_full_of_them_is_kept_out_of_for_twice_as_long_each_time() -> None:
    newer, clock = formats()
    waits = []
    for _ in range(6):
        while newer.refuse(OWN):
            pass
        waits.append(newer.left_for_s("own"))
        clock.advance(waits[-1])
        assert newer.left_for_s("own") == 0
    assert waits == [30, 60, 120, 240, 480, 480]
    clock.advance(480)
    assert newer.names() == []
    assert not newer.refuse(OWN)
    assert newer.left_for_s("own") == 30


def test_a_single_one_that_no_newer_worker_takes_holds_up_its_lane_once() -> None:
    """Else one message would stop a task for ever."""
    newer, clock = formats()
    assert not newer.refuse(OWN)
    clock.advance(30)
    for _ in range(20):
        assert newer.refuse(OWN)
        assert newer.left_for_s("own") == 0
        assert newer.names() == ["own"]
        clock.advance(31)


def test_several_partitions_with_such_envelopes_count_once() -> None:
    newer, _ = formats()
    assert [newer.refuse(OWN) for _ in range(12)] == [False] * 12
    assert newer.left_for_s("own") == 30
    assert newer.names() == ["own"]


def test_of_a_lane_of_many_single_messages_are_refused_and_above_the_bound_the_lane_is_left() -> None:
    newer, clock = formats()
    assert [newer.refuse(SHARED) for _ in range(3)] == [True] * 3
    assert newer.names() == ["shared"]
    assert newer.left_for_s("shared") == 0
    clock.advance(31)
    assert newer.refuse(SHARED), "the others have been delivered again meanwhile"
    assert [newer.refuse(SHARED) for _ in range(3)] == [True, True, False]
    assert newer.left_for_s("shared") == 30
