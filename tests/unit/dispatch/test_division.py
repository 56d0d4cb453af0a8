"""Lanes are divided among the workers by their names alone."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.division import Division, DivisionSettings, RoughCount, holders_for
from dispatcher.wire.topics import stable_hash

LANES = [stable_hash(f"lane-{number}") for number in range(400)]
WORKERS = st.lists(st.text("abcdefghij0123456789", min_size=1, max_size=8), min_size=1, max_size=8, unique=True)


def order(workers: list[str], lane: int) -> list[str]:
    """The workers by their places at a lane."""
    return sorted(workers, key=lambda worker: Division(workers, worker).position(lane))


@given(WORKERS, st.integers(0, 2**64 - 1))
def test_each_worker_has_a_place_of_its_own_at_each_lane(workers: list[str], lane: int) -> None:
    places = sorted(Division(workers, worker).position(lane) for worker in workers)
    assert places == list(range(len(workers)))


@given(WORKERS, st.integers(0, 2**64 - 1))
def test_when_a_worker_goes_the_others_keep_their_order(workers: list[str], lane: int) -> None:
    """So only the lanes move that it held: the next in the order moves up."""
    before = order(workers, lane)
    for gone in workers:
        left = [worker for worker in workers if worker != gone]
        assert order(left, lane) == [worker for worker in before if worker != gone]


def test_lanes_are_spread_evenly() -> None:
    workers = [f"worker-{number}" for number in range(4)]
    divisions = {worker: Division(workers, worker) for worker in workers}
    firsts = Counter(worker for lane in LANES for worker in workers if divisions[worker].position(lane) == 0)
    assert sum(firsts.values()) == len(LANES)
    assert all(70 <= firsts[worker] <= 130 for worker in workers)


def test_a_worker_that_is_not_there_holds_nothing() -> None:
    assert Division(["a", "b"], "c").position(LANES[0]) >= 2


@given(st.integers(1, 50), st.integers(0, 100_000))
def test_a_lane_never_depends_on_one_worker_if_there_are_two(workers: int, lanes: int) -> None:
    holders = Division([f"w{n}" for n in range(workers)], "w0").holders(lanes, DivisionSettings())
    assert min(2, workers) <= holders <= workers


def test_few_lanes_are_held_by_all_and_many_by_two() -> None:
    division, settings = Division([f"w{n}" for n in range(8)], "w0"), DivisionSettings(lanes_each=200)
    assert division.holders(200, settings) == 8
    assert division.holders(400, settings) == 4
    assert division.holders(10_000, settings) == 2


def test_a_lane_with_much_to_send_has_more_holders() -> None:
    settings = DivisionSettings(targets_each=20_000)
    assert holders_for(0, settings) == 2
    assert holders_for(100_000, settings) == 7


def test_a_rough_count_changes_seldom() -> None:
    rough = RoughCount()
    changes = sum(rough.follow(count) for count in range(10_000))
    assert changes < 45
    assert not rough.follow(9_000)
    assert rough.follow(1_000)
