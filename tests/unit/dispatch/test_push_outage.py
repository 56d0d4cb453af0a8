"""A provider that does not work for half an hour fails nobody: the engine, the channel `fcm`, its gate and the ledger
in virtual time, with the defaults of a task.

In a trouble without an answer the provider has not taken the message: nothing but another try sends it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from consumers.delivery.http2.port import Fate, HttpResponse, RequestFailed
from dispatcher.model.flow_pause import PauseKind
from dispatcher.model.task import PushTask
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, RETRY, UNKNOWN, Report, Verdict
from tests.unit.engine_world import EngineWorld
from tests.unit.push_world import PushWorld, answer, push_world

HALF_AN_HOUR_S = 1_800.0
TARGETS = 400
SENT_BEFORE = 100
LONGEST_AFTER_S = 2_400.0
"""After an outage, by when all is sent: a target that may have been taken waits for up to half an hour, and a quarter
more."""
DEFAULTS = PushTask(app="app", tier="high", channel="log", message="hello")


def refused() -> HttpResponse:
    raise RequestFailed(Fate.NOT_TAKEN, "connection refused")


def silent() -> HttpResponse:
    raise RequestFailed(Fate.UNKNOWN, "no answer within 6 s", timed_out=True)


@dataclass(frozen=True)
class Outage:
    trouble: Callable[[], HttpResponse]
    silent_s: float = 0.0


OUTAGES = {
    "503": Outage(lambda: answer(503)),
    "503 with Retry-After": Outage(lambda: answer(503, {}, b"Retry-After: 600")),
    "500": Outage(lambda: answer(500)),
    "502 of a gateway": Outage(lambda: answer(502)),
    "429 of the project": Outage(lambda: answer(429)),
    "401": Outage(lambda: answer(401)),
    "refused connections": Outage(refused),
    "silence": Outage(silent, 6.0),
}


def in_full_swing(world: PushWorld) -> None:
    """Submit a task with the defaults, and send a part of it."""
    world.set_global("capacity", "100")
    world.add_task("t", TARGETS, chunk=20, channel="fcm", max_attempts=DEFAULTS.max_attempts)
    world.run(lambda: len(world.fcm.accepted) >= SENT_BEFORE, within_s=10.0)


def assert_all_sent_once(world: PushWorld) -> None:
    world.run_out("t", within_s=LONGEST_AFTER_S)
    assert world.counts("t") == {"sent": TARGETS}
    assert set(world.fcm.accepted.values()) == {1}
    assert not world.dead_letters.letters
    assert world.most_tries() < DEFAULTS.max_attempts


@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_of_half_an_hour_fails_nobody(name: str) -> None:
    with push_world() as world:
        in_full_swing(world)
        world.fcm.trouble, world.fcm.silent_s = OUTAGES[name].trouble, OUTAGES[name].silent_s
        world.run(within_s=HALF_AN_HOUR_S)
        world.fcm.trouble, world.fcm.silent_s = None, 0.0
        assert_all_sent_once(world)


def test_a_pause_of_half_an_hour_stops_everything_within_two_seconds_and_costs_no_try() -> None:
    with push_world() as world:
        in_full_swing(world)
        world.pause(PauseKind.HAND)
        world.run(within_s=2.0)
        requests = sum(world.fcm.requests.values())
        world.run(within_s=HALF_AN_HOUR_S)
        assert sum(world.fcm.requests.values()) == requests
        world.pause(PauseKind.ENDED)
        assert_all_sent_once(world)
        assert world.most_tries() == 0
        assert set(world.fcm.requests.values()) == {1}


@pytest.mark.parametrize("code", [RETRY, UNKNOWN])
def test_a_channel_that_pauses_nothing_outlasts_half_an_hour_too(code: int) -> None:
    """Such as `http`, and a user's own: each target uses up its own tries."""
    until_s = 0.0

    def script(_: Envelope) -> Report:
        return Report(Verdict(code, "503")) if world.clock.monotonic_s() < until_s else ALL_SENT

    world = EngineWorld(script)
    world.housekeeping_s = 2.0
    world.worker()
    until_s = world.clock.monotonic_s() + HALF_AN_HOUR_S
    world.add_task("t", TARGETS, chunk=20, max_attempts=DEFAULTS.max_attempts)
    world.run_out("t", within_s=HALF_AN_HOUR_S + LONGEST_AFTER_S)
    assert world.counts("t") == {"sent": TARGETS}
    assert not world.dead_letters.letters


BUSY_DEVICE = {
    "error": {
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": "QUOTA_EXCEEDED"},
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"subject": "device:a"}]},
        ],
    }
}
"""FCM's answer for a device that gets too many messages: try this target later, and no other."""
RETRY_FOR_MS = 600_000


@pytest.mark.parametrize("paused", [False, True], ids=["open", "paused"])
def test_the_age_of_a_target_ends_its_tries_and_does_not_grow_while_its_flow_is_paused(*, paused: bool) -> None:
    with push_world(workers=1) as world:
        world.fcm.trouble, world.fcm.in_trouble = lambda: answer(429, BUSY_DEVICE), "t-device-token-000000000007"
        world.add_task("t", 20, chunk=10, channel="fcm", max_attempts=DEFAULTS.max_attempts, retry_for_ms=RETRY_FOR_MS)
        world.run(lambda: world.counts("t") == {"sent": 19}, within_s=10.0)
        if paused:
            world.pause(PauseKind.HAND)
            world.run(within_s=HALF_AN_HOUR_S)
            world.pause(PauseKind.ENDED)
            world.fcm.trouble = None
        world.run_out("t", within_s=7_200.0)
        if paused:
            assert world.counts("t") == {"sent": 20}
        else:
            assert world.counts("t") == {"sent": 19, "failed": 1}
            ((letter,), tries) = (world.dead_letters.letters, world.fcm.requests["t-device-token-000000000007"])
            assert letter.reasons[0].startswith("gave up 10 m 00 s after the first attempt; the last: 429 ")
            assert 1 < tries < DEFAULTS.max_attempts
            assert letter.at_ms - letter.first_call_ms >= RETRY_FOR_MS
