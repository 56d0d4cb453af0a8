"""The figures of the chart: one row for each 10 s, by any number of writers, and kept over restarts."""

import pytest

from backends.redis.registry.figures import EVERY_MS, MAX_ROWS, FigureRow, FigureTable
from dispatcher.access.principal import Scope
from dispatcher.model.errors import Forbidden, Unreachable
from dispatcher.model.view import TierStats, WorkerBeat
from producers.desk.history import HistoryWriter, SentMeter, arrivals
from tests.records import beat
from tests.unit.dispatch.desk.desk_world import DeskWorld

DAY_S = 86_400


@pytest.fixture
def world() -> DeskWorld:
    made = DeskWorld()
    made.book.follow()
    return made


def writer(world: DeskWorld) -> HistoryWriter:
    """Return the writer of a process."""
    return HistoryWriter(world.connection, world.board)


def table(world: DeskWorld) -> FigureTable:
    return world.connection.figures


def pass_time(world: DeskWorld, ms: int) -> None:
    world.service.clock.advance(ms / 1000)


def test_two_processes_leave_one_row_for_each_ten_seconds(world: DeskWorld) -> None:
    one, other = writer(world), writer(world)
    for _ in range(6):
        assert [one.step(), other.step()] == [True, False]
        pass_time(world, EVERY_MS)
    assert len(table(world).rows(DAY_S)) == 6


def test_two_holders_of_the_job_leave_one_row_too(world: DeskWorld) -> None:
    table(world).keep([1, 2, 3], [10, 20, 30])
    table(world).keep([4, 5, 6], [40, 50, 60])
    assert [row.backlog for row in table(world).rows(60)] == [(40, 50, 60)]


def test_another_process_goes_on_after_a_death(world: DeskWorld) -> None:
    one, other = writer(world), writer(world)
    one.step()
    pass_time(world, EVERY_MS)
    assert not other.step()
    pass_time(world, 2 * EVERY_MS)
    assert other.step()
    assert len(table(world).rows(DAY_S)) == 2


def test_another_process_goes_on_at_once_after_a_stop(world: DeskWorld) -> None:
    one, other = writer(world), writer(world)
    one.start()
    assert one.step()
    one.close()
    assert other.step()


def test_rows_are_kept_over_a_restart(world: DeskWorld) -> None:
    world.submit("sale", targets=["a", "b", "c"])
    writer(world).step()
    pass_time(world, 3 * EVERY_MS)
    writer(world).step()
    assert [row.backlog for row in table(world).rows(DAY_S)] == [(3, 0, 0), (3, 0, 0)]


def test_rows_of_a_day_are_kept_and_no_more(world: DeskWorld) -> None:
    figures = table(world)
    for number in range(MAX_ROWS + 100):
        figures.keep([number], [number])
        pass_time(world, EVERY_MS)
    rows = figures.rows(2 * DAY_S)
    assert [row.backlog[0] for row in rows] == list(range(101, MAX_ROWS + 100))
    assert world.service.view.command("HLEN", world.service.view.keys.figures) == MAX_ROWS


def test_rows_of_an_hour_ago_are_not_taken_for_new_ones(world: DeskWorld) -> None:
    table(world).keep([1], [1])
    pass_time(world, MAX_ROWS * EVERY_MS)
    assert table(world).rows(DAY_S) == []


def test_rows_that_cannot_be_read_are_left_out(world: DeskWorld) -> None:
    table(world).keep([1], [1])
    pass_time(world, EVERY_MS)
    view = world.service.view
    view.command("HSET", view.keys.figures, view.now_ms() // EVERY_MS % MAX_ROWS, b"\xc1")
    assert len(table(world).rows(60)) == 1


def counted(worker: str, sent: int, seen_ms: int, state: str = "serving") -> WorkerBeat:
    return beat(worker, state, seen_ms=seen_ms, tiers={"high": TierStats(sent=sent, rate=7.0)})


def test_burst_between_two_rows_is_in_the_rate_of_the_second() -> None:
    meter = SentMeter()
    assert meter.rates([counted("a", 500, 0)], 0)["high"] == 7.0
    assert meter.rates([counted("a", 2_500, 10_000)], 10_000)["high"] == 200.0
    assert meter.rates([counted("a", 2_500, 20_000)], 20_000)["high"] == 0.0


def test_rate_counts_workers_that_begin_and_stop_in_between() -> None:
    meter = SentMeter()
    meter.rates([counted("a", 100, 0)], 0)
    found = meter.rates([counted("a", 600, 5_000, "stopped"), counted("b", 500, 9_500)], 10_000)
    assert found == {"high": 100.0, "medium": 0.0, "low": 0.0}


def test_rate_does_not_depend_on_when_beats_are_read() -> None:
    meter = SentMeter()
    meter.rates([counted("a", 0, 900)], 1_000)
    assert meter.rates([counted("a", 900, 9_900)], 10_950)["high"] == 100.0


def test_rate_after_a_long_time_without_a_look_is_the_present_one() -> None:
    meter = SentMeter()
    meter.rates([counted("a", 0, 0)], 0)
    assert meter.rates([counted("a", 1_000_000, 3_600_000)], 3_600_000)["high"] == 7.0


def test_what_comes_in_is_a_mean_of_minutes_however_it_is_announced() -> None:
    """A submission of 100 targets/s announces 3,000 every 30 s, and 40/s of them are sent."""
    backlog = [(60 * 10 * step - 40 * 10 * (step % 3), 0, 0) for step in range(19)]
    rows = [FigureRow(10_000 * step, (40.0, 0.0, 0.0), backlog[step]) for step in range(19)]
    assert arrivals(rows) == pytest.approx([100.0, 100.0, 100.0])
    assert arrivals(rows[:1]) == []
    assert arrivals([FigureRow(0, (0.0,), (500,)), FigureRow(10_000, (0.0,), (0,))]) == [0.0], "it was cancelled"


def test_history_is_for_operators(world: DeskWorld) -> None:
    writer(world).step()
    assert len(world.operator().service.history(60)) == 1
    with pytest.raises(Forbidden):
        world.desks(scopes=[Scope.READ]).service.history(60)


def test_history_says_that_redis_is_gone(world: DeskWorld) -> None:
    world.service.redis.gone = True
    with pytest.raises(Unreachable):
        world.operator().service.history(60)
