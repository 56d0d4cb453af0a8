"""The table of benchmarks/peers: who is ahead, and what is said where Fairlane is not."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PEERS))
    return import_module("table")


def waits(p50_ms: float) -> list[dict[str, float]]:
    return [{"p50_ms": p50_ms, "p99_ms": p50_ms, "submit_p50_ms": 1.0}]


def test_whoever_is_as_near_as_the_row_says_is_level(table: ModuleType) -> None:
    shown = table.markdown({"wait-10": {"fairlane": waits(7.0), "celery": waits(6.0), "bullmq": waits(20.0)}})
    assert "Fairlane, Celery (level)" in shown
    assert "in every row" in shown


def test_a_row_in_which_fairlane_failed_is_none_in_which_it_is_ahead(table: ModuleType) -> None:
    shown = table.markdown({"wait-10": {"fairlane": [], "bullmq": waits(6.0)}})
    assert "failed" in shown
    assert "in 0 of 1 rows" in shown
    assert "it could not be measured" in shown


def test_without_fairlane_nothing_is_said_of_it(table: ModuleType) -> None:
    assert "Fairlane" not in table.markdown({"wait-10": {"celery": waits(5.0), "bullmq": waits(6.0)}})
