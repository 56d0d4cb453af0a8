"""Positions of targets as text."""

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.wire.groups import all_positions, pack_positions, unpack_positions


@given(st.sets(st.integers(0, 499)), st.integers(0, 500))
def test_positions_come_back(positions: set[int], size: int) -> None:
    text = pack_positions(positions, size)
    assert unpack_positions(text) == sorted(position for position in positions if position < size)
    assert len(text) in (0, (size + 3) // 4)


@given(st.integers(0, 500))
def test_all_positions_are_those_of_each_target(size: int) -> None:
    assert all_positions(size) == pack_positions(range(size), size)


def test_the_first_position_is_the_lowest_bit_of_the_first_digit() -> None:
    assert pack_positions([0, 5], 9) == "120"
