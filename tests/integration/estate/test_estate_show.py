"""LOOK on a real estate: a slow bookie is named by what brokers see, and nodes that hang are rows."""

from typing import Any

from benchmarks.estate.servers import EstateServers
from benchmarks.estate.steady_lanes import steady_lanes
from estate.view import EstateView, EstateViewer
from fairlane.settings import Settings
from tests.integration.worker_crew import eventually

LANES = 6
NAMED_S = 30.0
"""A slow bookie must be named within this."""


def states(rows: list[dict[str, Any]], kind: str) -> dict[str, str]:
    return {row[kind]: row["state"] for row in rows}


def test_all_nodes_are_shown_with_leader_and_auditor(estate_settings: Settings, estate: EstateServers) -> None:
    with EstateViewer(estate_settings, with_stages=True) as viewer:
        viewer.look()
        with steady_lanes(estate_settings.pulsar, LANES):  # which writes to the metadata store
            view = viewer.look()
    assert sorted(states(view.brokers, "broker").values()) == ["leader", "up"]
    assert set(states(view.bookies, "bookie")) == {estate.bookie_id(f"bookie-{number}") for number in (1, 2, 3)}
    assert view.metadata["leader"] in states(view.brokers, "broker")
    assert view.metadata["auditor"] in states(view.bookies, "bookie")
    assert view.metadata["load_manager"] == "modular"
    assert view.metadata["put_p99_ms"] > 0


def test_a_slow_bookie_is_named_with_the_largest_share(estate_settings: Settings, estate: EstateServers) -> None:
    slow = estate.bookie_id("bookie-2")
    with (
        EstateViewer(estate_settings, with_stages=True) as viewer,
        steady_lanes(estate_settings.pulsar, LANES),
        estate.slowed("bookie-2"),
    ):
        looks: list[EstateView] = []

        def named() -> bool:
            looks.append(viewer.look())
            return any(f"bookie {slow} is slow" in one for one in looks[-1].wrong)

        eventually(named, NAMED_S, "it is named")
    view = looks[-1]
    assert states(view.bookies, "bookie")[slow] == "slow"
    assert view.stages is not None
    assert max(view.stages, key=lambda one: one.share or 0.0).stage == f"stored by bookie {slow}"


def test_nodes_that_hang_are_rows_and_the_others_are_complete(estate_settings: Settings, estate: EstateServers) -> None:
    broker, bookie = estate.broker_web("broker-2"), estate.bookie_id("bookie-3")
    with EstateViewer(estate_settings) as viewer, estate.paused("broker-2"), estate.paused("bookie-3"):
        view = viewer.look()
    assert states(view.brokers, "broker")[broker] == "no answer"
    assert states(view.bookies, "bookie")[bookie] == "no answer"
    assert [row["lanes"] is not None for row in view.brokers if row["broker"] != broker] == [True]
    assert all(row["ledgers"] is not None for row in view.bookies if row["bookie"] != bookie)
