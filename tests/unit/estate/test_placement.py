"""Bundles are found as Pulsar finds them, and the partitions of a lane reach as many as CRC32 lets them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput
from estate.plans.placement import SPREADING_BUNDLES, BundleRange, bundles_for, hash_of, parse_range, split_point
from tests.unit.estate.equal_bundles import equal_bundles, name_of, spread_of_lane

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", fullmatch=True)
topics = names.map("persistent://fairlane/tasks-03/{}".format)


def test_the_bundles_of_a_namespace_have_the_names_that_pulsar_gives_them() -> None:
    assert [name_of(bundle) for bundle in equal_bundles(4)] == [
        "0x00000000_0x40000000",
        "0x40000000_0x80000000",
        "0x80000000_0xc0000000",
        "0xc0000000_0xffffffff",
    ]


@given(topics, st.integers(1, 256))
def test_each_topic_is_in_exactly_one_bundle(topic: str, count: int) -> None:
    assert sum(bundle.holds(hash_of(topic)) for bundle in equal_bundles(count)) == 1


@pytest.mark.parametrize("hashed", [0, 0x40000000 - 1, 0x40000000, 0xFFFFFFFE, 0xFFFFFFFF])
def test_every_hash_is_in_one_bundle_the_last_one_included(hashed: int) -> None:
    assert sum(bundle.holds(hashed) for bundle in equal_bundles(4)) == 1


@given(names, st.sampled_from([4, 8, 16, 32]))
def test_eight_partitions_of_any_lane_are_in_four_bundles_up_to_32(name: str, count: int) -> None:
    assert len(spread_of_lane(f"persistent://fairlane/tasks-00/{name}", 8, count)) == 4


@given(names)
def test_eight_partitions_of_any_lane_are_in_eight_of_64_bundles(name: str) -> None:
    spread = spread_of_lane(f"persistent://fairlane/tasks-00/{name}", 8, SPREADING_BUNDLES)
    assert list(spread.values()) == [1] * 8


@pytest.mark.parametrize(("brokers", "bundles"), [(1, 4), (3, 4), (4, 4), (5, 64), (8, 64)])
def test_up_to_four_brokers_need_four_bundles_and_more_need_64(brokers: int, bundles: int) -> None:
    assert bundles_for(brokers) == bundles


@given(st.lists(topics, unique=True, max_size=30), st.data())
def test_a_split_leaves_topics_on_both_sides_and_no_other_split_is_more_even(
    lanes: list[str], data: st.DataObject
) -> None:
    weights = {topic: data.draw(st.floats(0.001, 1e6)) for topic in lanes}
    bundle = BundleRange(0, 0xFFFFFFFF)
    point = split_point(bundle, weights)
    if point is None:
        assert len({hash_of(topic) for topic in lanes}) < 2
        return
    uneven = _unevenness(weights, point)
    assert {hash_of(topic) < point for topic in lanes} == {True, False}
    others = sorted({hash_of(topic) for topic in lanes})[1:]
    assert all(uneven <= _unevenness(weights, other) * (1 + 1e-9) + 1e-6 for other in others)


def _unevenness(weights: dict[str, float], point: int) -> float:
    below = sum(weight for topic, weight in weights.items() if hash_of(topic) < point)
    return abs(2 * below - sum(weights.values()))


def test_topics_outside_of_a_bundle_do_not_count_for_its_split() -> None:
    lanes = {f"persistent://fairlane/tasks-00/t{number}": 1.0 for number in range(50)}
    bundle = equal_bundles(4)[1]
    point = split_point(bundle, lanes)
    assert point is not None
    assert bundle.low < point < bundle.high


@given(st.integers(1, 256).flatmap(lambda count: st.sampled_from(equal_bundles(count))))
def test_names_are_parsed_as_they_are_written(bundle: BundleRange) -> None:
    assert parse_range(name_of(bundle)) == bundle


@pytest.mark.parametrize("name", ["", "0x00000000", "0x4_0x2", "a_b_c", "0x0_0x100000000", "-1_5"])
def test_nonsense_is_no_bundle(name: str) -> None:
    with pytest.raises(InvalidInput, match="bundle"):
        parse_range(name)
