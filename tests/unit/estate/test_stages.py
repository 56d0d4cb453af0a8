"""Stages of an envelope's way: shares add up, and the worst node of each is named."""

from hypothesis import given
from hypothesis import strategies as st

from estate.rules.cluster import BookieState, BrokerLoad, Estate
from estate.rules.stages import SERVICE_STAGES, ServiceStage, stages_of

times_ms = st.one_of(st.none(), st.floats(0, 1e5))


def test_a_slow_bookie_has_the_largest_share() -> None:
    estate = Estate(
        brokers=(BrokerLoad(name="b1", publish_p99_ms=407.0, bookies_p99_ms={"k1": 9.0, "k2": 400.0}),),
        bookies=(BookieState(name="k1", broker_p99_ms=9.0), BookieState(name="k2", broker_p99_ms=400.0)),
    )
    found = max(stages_of(estate, [ServiceStage("sent", "w1", 5.0, 20.0)]), key=lambda one: one.share or 0.0)
    assert (found.stage, found.worst) == ("stored by bookie k2", "k2")


def test_without_traffic_there_are_no_stages() -> None:
    assert stages_of(Estate(brokers=(BrokerLoad(name="b1"),), bookies=(BookieState(name="k1"),))) == []


@given(st.lists(times_ms, max_size=4), st.lists(times_ms, max_size=4), st.lists(st.floats(0, 1e5), max_size=4))
def test_shares_add_up_to_one(brokers: list[float | None], bookies: list[float | None], workers: list[float]) -> None:
    seen = {f"k{n}": p99 for n, p99 in enumerate(bookies) if p99 is not None}
    estate = Estate(
        brokers=tuple(
            BrokerLoad(name=f"b{n}", publish_p99_ms=p99, bookies_p99_ms=seen) for n, p99 in enumerate(brokers)
        ),
        bookies=tuple(BookieState(name=f"k{n}", broker_p99_ms=p99, fsync_p99_ms=p99) for n, p99 in enumerate(bookies)),
    )
    service = [ServiceStage(stage, f"w{n}", 0.0, p99) for stage in SERVICE_STAGES for n, p99 in enumerate(workers)]
    shares = [one.share for one in stages_of(estate, service) if one.share is not None]
    assert not shares or abs(sum(shares) - 1.0) < 1e-6
