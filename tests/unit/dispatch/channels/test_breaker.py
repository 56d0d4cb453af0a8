"""Pauses of a flow whose provider does not work grow, no matter who made the last one."""

from dispatcher.channels.guards.trouble import LONGEST_DOWN_S, Breaker


def test_a_pause_is_twice_the_last_until_the_provider_answers() -> None:
    breaker = Breaker()
    pauses = [breaker.pause_s("fcm/app", 10.0) for _ in range(7)]
    assert pauses == [10.0, 20.0, 40.0, 80.0, 160.0, LONGEST_DOWN_S, 300.0]
    breaker.works("fcm/app")
    assert breaker.pause_s("fcm/app", 10.0) == 10.0


def test_a_short_pause_of_another_worker_does_not_shorten_the_next() -> None:
    breaker = Breaker()
    for _ in range(4):
        breaker.pause_s("fcm/app", 10.0)
    breaker.note("fcm/app", 1.0)
    assert breaker.pause_s("fcm/app", 10.0) == 160.0


def test_a_long_pause_of_another_worker_lengthens_the_next() -> None:
    breaker = Breaker()
    breaker.note("fcm/app", 40.0)
    assert breaker.pause_s("fcm/app", 10.0) == 80.0
