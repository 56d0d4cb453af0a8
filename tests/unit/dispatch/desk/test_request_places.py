"""Requests of an app in a second: counted in Redis, over processes that take several places at once."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from backends.redis.registry.access import AccessTable
from producers.desk.request_places import BLOCKS, RequestPlaces
from tests.unit.views import LostRedis, view_of
from tests.virtual_clock import VirtualClock

PROCESSES = 3


def processes(clock: VirtualClock) -> list[RequestPlaces]:
    table = AccessTable(view_of(LostRedis(clock.wall_ms)))
    return [RequestPlaces(table.take_requests, clock) for _ in range(PROCESSES)]


ASKED = st.lists(st.tuples(st.integers(0, PROCESSES - 1), st.sampled_from([0, 0, 0, 0.004, 0.3, 1.7])), max_size=300)


@given(st.sampled_from([1, 3, BLOCKS, 2 * BLOCKS, 5 * BLOCKS]), ASKED)
def test_no_second_has_more_requests_than_the_maximum(maximum: int, asked: list[tuple[int, float]]) -> None:
    clock = VirtualClock()
    doors, used = processes(clock), Counter[int]()
    for number, later_s in asked:
        clock.advance(later_s)
        second = clock.wall_ms() // 1000
        if doors[number].use("shop", maximum):
            used[second] += 1
        else:
            others_hold = (PROCESSES - 1) * (max(1, maximum // BLOCKS) - 1)
            assert used[second] >= maximum - others_hold
    assert max(used.values(), default=0) <= maximum


def test_apps_have_places_of_their_own() -> None:
    door = processes(VirtualClock())[0]
    assert door.use("shop", 1)
    assert not door.use("shop", 1)
    assert door.use("toys", 1)


def test_most_requests_ask_redis_for_nothing() -> None:
    clock, calls = VirtualClock(), []

    def take(app: str, maximum: int, count: int) -> tuple[int, int]:
        calls.append(app)
        return count, 1_000

    door = RequestPlaces(take, clock)
    assert all(door.use("shop", 1_000) for _ in range(1_000))
    assert len(calls) == BLOCKS
