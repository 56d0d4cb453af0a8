"""Figures of an estate beside those of a plan."""

import pytest

from benchmarks.estate.sizes import Spent, compared
from benchmarks.throughput import Load

LOAD = Load(chunk=500, count=1_000_000, seed=1)


def test_an_estate_that_spends_what_was_predicted_has_ratios_of_one() -> None:
    first = compared(Spent(1.0, 1.0, 1.0), 10.0, LOAD)
    spent = Spent(
        brokers_s=first["cpus_broker_predicted"] * 10 * 2,
        bookies_s=first["cpus_bookie_predicted"] * 10 * 3,
        stored_bytes=first["bytes_s_bookie_predicted"] * 10 * 3,
    )
    figures = compared(spent, 10.0, LOAD)
    assert [figures[name] for name in figures if name.endswith("_ratio")] == pytest.approx([1.0, 1.0, 1.0])


def test_ratios_do_not_depend_on_the_speed() -> None:
    spent = Spent(1.0, 2.0, 3e8)
    slow, fast = compared(spent, 100.0, LOAD), compared(spent, 1.0, LOAD)
    assert [slow[f"{name}_ratio"] for name in ("cpus_broker", "bytes_s_bookie")] == pytest.approx(
        [fast[f"{name}_ratio"] for name in ("cpus_broker", "bytes_s_bookie")]
    )


def test_what_was_spent_is_a_difference() -> None:
    assert Spent(3.0, 5.0, 7.0).since(Spent(1.0, 2.0, 3.0)) == Spent(2.0, 3.0, 4.0)
