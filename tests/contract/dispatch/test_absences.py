"""When no worker was there, and when none had a channel, is kept for `task why`."""

import pytest

from backends.redis.epochs import Epochs
from backends.redis.registry.registry import Registry
from backends.redis.view import RedisView
from backends.redis.workers import Workers
from backends.settings import PulsarSettings, RedisSettings
from dispatcher.analysis.task_times import TimeSpan
from dispatcher.model.view import WorkerBeat
from fairlane.settings import Settings
from producers.client import PushClient
from tests import records
from tests.contract.registry_records import epoch_of, position, task_record

MINUTE_MS = 60_000


def beat(state: str = "serving", channels: tuple[str, ...] = ("http",), started_ms: int = 0) -> WorkerBeat:
    return records.beat(state=state, started_ms=started_ms, extra={"channels": list(channels)})


@pytest.fixture
def workers(view: RedisView) -> Workers:
    return Workers(view)


def age(view: RedisView, channel: str, ms: int) -> int:
    """Make the last heartbeat of a channel older; return its time."""
    return int(view.command("HINCRBY", view.keys.served, f"last:{channel}", -ms))


def test_before_the_first_worker_there_was_none(view: RedisView, workers: Workers) -> None:
    [(from_ms, to_ms)] = workers.absences("http")
    assert (from_ms, to_ms <= view.now_ms()) == (0, True)
    first_ms = workers.beat(beat())
    assert workers.absences() == workers.absences("http") == [TimeSpan(0, first_ms)]
    [(from_ms, to_ms)] = workers.absences("sms")
    assert (from_ms, to_ms >= first_ms) == (0, True), "no worker ever had it"


def test_of_the_time_before_redis_was_emptied_nothing_is_said(view: RedisView, workers: Workers) -> None:
    view.command("HSET", view.keys.epoch, "id", "e", "first", "0")
    assert workers.absences() == workers.absences("http") == []
    first_ms = workers.beat(beat())
    assert workers.absences() == workers.absences("http") == [TimeSpan(first_ms, first_ms)]
    assert workers.absences("sms")[0].from_ms == first_ms


@pytest.mark.parametrize("channel", ["", "http"])
def test_workers_that_go_leave_a_gap_until_another_comes(view: RedisView, workers: Workers, channel: str) -> None:
    workers.beat(beat())
    gone_ms = age(view, channel, MINUTE_MS)
    assert workers.absences(channel)[-1].from_ms == gone_ms, "it lasts"
    workers.beat(beat("stopped"))
    assert workers.absences(channel)[-1].from_ms == gone_ms, "a worker that has stopped serves nothing"
    back_ms = workers.beat(beat(started_ms=gone_ms + 1_000))
    assert workers.absences(channel)[1:] == [TimeSpan(gone_ms, back_ms)]


def test_a_worker_that_redis_did_not_hear_was_there(view: RedisView, workers: Workers) -> None:
    workers.beat(beat())
    age(view, "http", MINUTE_MS)
    workers.beat(beat(started_ms=view.now_ms() - 2 * MINUTE_MS))
    assert len(workers.absences("http")) == 1


def test_the_time_without_redis_and_the_wait_behind_it_are_known(view: RedisView, workers: Workers) -> None:
    """They were half of a task's age, and not counted."""
    workers.beat(beat())
    gone_ms = age(view, "", MINUTE_MS)
    back_ms = workers.beat(beat(started_ms=gone_ms - 1_000))
    workers.beat(beat(started_ms=gone_ms - 1_000))
    assert workers.outages() == [TimeSpan(gone_ms, back_ms)]
    assert len(workers.absences()) == 1, "workers were there"
    Epochs(view).begin_epoch("e1", 13_000, 1)
    waits_ms = epoch_of(Epochs(view)).started_ms
    assert workers.outages() == [TimeSpan(gone_ms, back_ms), TimeSpan(waits_ms, waits_ms + 17_000)]


def test_the_oldest_of_many_gaps_are_forgotten(view: RedisView, workers: Workers) -> None:
    for _ in range(150):
        workers.beat(beat(started_ms=view.now_ms()))
        age(view, "http", 5_000)
    assert len(workers.absences("http")) == 1 + 100 + 1


def test_while_a_worker_does_not_say_what_it_has_nothing_is_said_of_absences(
    server_view: RedisView, server_url: str
) -> None:
    view, workers = server_view, Workers(server_view)
    known = Registry(view).control
    known.apply(position(1), task_record("t1", created_ms=view.now_ms() - MINUTE_MS))
    known.apply(position(2), records.checkpoint("t1", 1, targets=1))
    settings = Settings(
        pulsar=PulsarSettings(url="pulsar://localhost:1", admin_url="http://localhost:1"),
        redis=RedisSettings(url=server_url, prefix=view.keys.prefix),
    )
    with PushClient.connect(settings) as client:
        assert [part.cause for part in client.why("t1").parts] == ["no_worker_runs"]
        workers.beat(records.beat("silent"))
        assert [part.cause for part in client.why("t1").parts] == ["no_worker"]
