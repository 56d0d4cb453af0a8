"""Trouble of a flow is kept by its pause, and not by its targets: the end of the pause frees them all."""

import pytest

from consumers.delivery.http2.port import HttpResponse
from dispatcher.model.flow_pause import PauseKind
from tests.unit.push_world import PushWorld, answer, push_world

RETRY_AFTER_S = 900.0
TARGETS = 400
TROUBLES = [(401, ""), (403, ""), (404, ""), (429, "86400"), (429, ""), (502, "86400"), (503, "86400"), (500, "86400")]


def in_trouble(world: PushWorld, status: int, retry_after: str) -> None:
    """Send a part of a task, then let the provider answer with trouble until the flow is paused."""
    world.set_global("capacity", "100")
    world.add_task("t", TARGETS, chunk=20, channel="fcm", max_attempts=8)
    world.run(lambda: len(world.fcm.accepted) >= 100, within_s=10.0)
    header = [b"Retry-After: " + retry_after.encode()] if retry_after else []

    def trouble() -> HttpResponse:
        return answer(status, {"error": {"status": "X"}}, *header)

    world.fcm.trouble = trouble
    world.run(within_s=60.0)
    world.fcm.trouble = None


@pytest.mark.parametrize(("status", "retry_after"), TROUBLES)
def test_the_end_of_a_pause_by_hand_frees_the_targets_that_met_its_cause(status: int, retry_after: str) -> None:
    with push_world() as world:
        in_trouble(world, status, retry_after)
        world.pause(PauseKind.ENDED)
        world.run(lambda: world.counts("t") == {"sent": TARGETS}, within_s=120.0)
        assert set(world.fcm.accepted.values()) == {1}


@pytest.mark.parametrize("status", [429, 503])
def test_without_a_word_by_hand_a_pause_obeys_retry_after(status: int) -> None:
    with push_world() as world:
        in_trouble(world, status, str(round(RETRY_AFTER_S)))
        requests = sum(world.fcm.requests.values())
        world.run(within_s=RETRY_AFTER_S - 90.0)
        assert sum(world.fcm.requests.values()) == requests
        world.run_out("t", within_s=RETRY_AFTER_S)
        assert world.counts("t") == {"sent": TARGETS}


def test_trouble_after_an_earlier_resume_is_not_hurried() -> None:
    """A resume ends the pause before it, not the next."""
    with push_world() as world:
        world.pause(PauseKind.HAND)
        world.run(within_s=5.0)
        world.pause(PauseKind.ENDED)
        in_trouble(world, 429, str(round(RETRY_AFTER_S)))
        requests = sum(world.fcm.requests.values())
        world.run(within_s=RETRY_AFTER_S - 90.0)
        assert sum(world.fcm.requests.values()) == requests


def test_targets_of_a_capped_flow_that_is_slowed_wait_as_long_as_without_a_resume() -> None:
    """Its cap is halved, and there is no pause whose end could free them."""
    with push_world() as world:
        world.set_global("cap:app_channel:app/fcm", "100:10")
        world.pause(PauseKind.HAND)
        world.run(within_s=5.0)
        world.pause(PauseKind.ENDED)
        in_trouble(world, 429, "")
        world.run(within_s=120.0)
        assert max(world.fcm.requests.values()) <= 4


@pytest.mark.parametrize("pool", ["app_channel:app/fcm", "channel:fcm"])
def test_targets_of_a_flow_whose_cap_is_removed_are_sent_at_once(pool: str) -> None:
    """Nor do those wait that were granted under the cap, whose last may leave a minute later."""
    with push_world(workers=1) as world:
        world.set_global(f"cap:{pool}", "1")
        world.add_task("t", TARGETS, chunk=20, channel="fcm")
        world.run(lambda: len(world.fcm.accepted) >= 10, within_s=60.0)
        world.set_global(f"cap:{pool}", "0")
        world.run_out("t", within_s=15.0)
        assert world.counts("t") == {"sent": TARGETS}
