"""The router's counters: windows of partitions, and the targets stored without a gap."""

from hypothesis import given
from hypothesis import strategies as st

from producers.publish.in_flight import Confirmed, SendWindow


@given(st.lists(st.integers(1, 5), max_size=40), st.randoms(use_true_random=False))
def test_what_is_confirmed_has_no_gap_whatever_the_order(sizes: list[int], chance: object) -> None:
    pieces, start = [], 0
    for size in sizes:
        pieces.append((start, start + size))
        start += size
    chance.shuffle(pieces)  # type: ignore[attr-defined]
    confirmed, stored = Confirmed(), set[int]()
    for first, end in pieces:
        confirmed.add(first, end)
        stored |= set(range(first, end))
        assert confirmed.upto == next(number for number in range(start + 1) if number not in stored)
        gaps = sum(number not in stored and number + 1 in stored for number in range(start))
        assert confirmed.ranges == gaps
    assert confirmed.upto == start


def test_however_much_is_stored_behind_a_gap_it_takes_no_memory() -> None:
    confirmed = Confirmed()
    for first in range(1, 100_000):
        confirmed.add(first, first + 1)
    assert (confirmed.upto, confirmed.ranges) == (0, 1)
    confirmed.add(0, 1)
    assert (confirmed.upto, confirmed.ranges) == (100_000, 0)


def test_a_window_is_silent_since_its_last_answer_or_its_oldest_message() -> None:
    window = SendWindow(100, 1_000, now_s=10.0)
    assert window.silent_s(50.0) == 0.0
    window.add(0, 1, 10, 50.0)
    window.add(1, 1, 10, 51.0)
    assert window.silent_s(52.0) == 2.0
    window.answered(0, 1, 10, 53.0)
    assert window.silent_s(54.0) == 1.0
    window.answered(1, 1, 10, 55.0)
    assert window.silent_s(99.0) == 0.0
    assert (window.messages, window.bytes) == (0, 0)


def test_a_window_takes_what_fits_and_what_is_too_large_alone() -> None:
    window = SendWindow(2, 100, now_s=0.0)
    assert window.takes(2, 100)
    assert window.takes(1, 1_000)
    window.add(0, 1, 90, 0.0)
    assert window.takes(1, 10)
    assert not window.takes(1, 11)
    assert not window.takes(2, 2)
