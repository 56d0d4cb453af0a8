"""The watchdog ends a worker of which a part hangs, and no other."""

import math
import threading

import pytest

from dispatcher.model.errors import Hung
from fairlane.settings import Settings
from fairlane.worker.process import watchdog
from fairlane.worker.process.threads import Threads
from fairlane.worker.process.watchdog import Judge, Watchdog, WatchdogSettings, channel_part, watchdog_settings

TIMEOUT_S = 20.0
SETTINGS = WatchdogSettings({"engine": 3.0, "rebuild": math.inf}, upkeep_s=10.0)


def observations(judge: Judge, count: int, **signs: object) -> list[str | None]:
    return [judge.observe(signs) for _ in range(count)]


def test_a_part_hangs_when_it_gives_the_same_sign_for_longer_than_its_limit() -> None:
    judge = Judge(SETTINGS)
    assert observations(judge, 4, engine=7) == [None] * 4  # the first look is where counting begins
    assert judge.observe({"engine": 7}) == "engine"


def test_a_part_that_moves_or_has_nothing_to_do_does_not_hang() -> None:
    judge = Judge(SETTINGS)
    for tick in range(100):
        assert judge.observe({"engine": tick // 3, "fold-0": None, "rebuild": 1}) is None


@pytest.mark.parametrize("signs", [{"engine": 8}, {"engine": None}, {}], ids=["moves", "rests", "ended"])
def test_every_move_rest_and_end_of_a_part_begins_its_count_again(signs: dict[str, int | None]) -> None:
    judge = Judge(SETTINGS)
    observations(judge, 4, engine=7)
    assert judge.observe(signs) is None
    assert observations(judge, 4, engine=7) == [None] * 4
    assert judge.observe({"engine": 7}) == "engine"


def test_limits_follow_from_the_timeouts() -> None:
    limits = watchdog_settings(Settings(), {"push": 60.0, "log": 5.0}, lease_s=2.0)
    assert limits.limit_s(channel_part("push")) == 2.0 + 60.0 + watchdog.OVERDUE_S
    assert limits.limit_s("channels") == 60.0 + watchdog.OVERDUE_S
    redis = Settings().redis
    assert limits.limit_s("lease") > 2 * (redis.connect_timeout_s + redis.socket_timeout_s)
    assert limits.limit_s("fold-3") > Settings().pulsar.operation_timeout_s
    assert limits.limit_s("snapshots") == math.inf


def test_a_channel_may_be_named_as_a_thread_is() -> None:
    limits = watchdog_settings(Settings(), {"engine": 600.0}, lease_s=2.0)
    assert limits.limit_s("engine") == watchdog.ENGINE_S


def test_a_thread_that_hangs_ends_the_worker_with_the_place_where_it_hangs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    exits: list[tuple[float, int]] = []
    monkeypatch.setattr(watchdog, "exit_within", lambda seconds, code: exits.append((seconds, code)))
    over, release = threading.Event(), threading.Event()
    threads = Threads(over)

    def hang_here(_: threading.Event) -> None:
        release.wait(TIMEOUT_S)

    def rest(stop: threading.Event) -> None:
        stop.wait(TIMEOUT_S)

    def move(stop: threading.Event) -> None:
        while not stop.is_set():
            release.wait(0.001)

    threads.start("rests", rest)
    threads.start("moves", move)
    threads.start("hangs", hang_here)
    settings = WatchdogSettings({}, upkeep_s=0.05, tick_s=0.01)
    dog = Watchdog(threads.checks, threads.fail, settings, lambda: lambda: None)
    threads.start("watchdog", dog.run)
    assert over.wait(TIMEOUT_S)
    release.set()
    assert threads.join(TIMEOUT_S) == []
    assert isinstance(threads.failure, Hung)
    assert "The thread 'hangs' has made no progress for more than 0.05 s." in caplog.text
    assert "in hang_here" in caplog.text
    assert exits == [(watchdog.EXIT_WITHIN_S, 6)]
