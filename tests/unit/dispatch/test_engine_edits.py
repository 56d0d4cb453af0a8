"""An edited message is what is sent of all targets not yet sent, retries included; nothing else changes by it."""

from dispatcher.engine.events import LanesChanged
from dispatcher.model.task_control import edited_message
from dispatcher.model.tier import Tier
from dispatcher.wire.envelope import decode_message, encode_message
from tests.records import edit_text, lane_info
from tests.unit.engine_world import MESSAGE, EngineWorld, busy_at_first

EDITED = bytes(encode_message({"title": "edited"}))


def tell(world: EngineWorld, overrides: dict[str, bytes]) -> None:
    for worker in world.workers:
        worker.inbox.put(LanesChanged(world.held_lanes(), overrides))


def test_what_is_not_yet_sent_is_sent_as_edited() -> None:
    world = EngineWorld(capacity=100)
    world.add_task("t", 300, chunk=3)
    world.add_task("other", 30, chunk=3)
    world.worker()
    world.run(lambda: len(world.provider_calls) > 20)
    before = len(world.provider_calls)
    tell(world, {"t": EDITED})
    world.run_out("t", "other")
    later = [sent.message for sent in world.provider_calls[before + 20 :] if sent.task == "t"]
    assert later
    assert {bytes(message) for message in later} == {EDITED}
    assert {decode_message(sent.message)["title"] for sent in world.provider_calls if sent.task == "other"} == {"hello"}
    assert world.counts("t") == {"sent": 300}
    assert max(world.calls.values()) == 1


def test_further_attempts_are_sent_as_edited_and_by_the_latest_edit() -> None:
    world = EngineWorld(busy_at_first)
    world.add_task("t", 6, chunk=3)
    world.worker()
    tell(world, {"t": bytes(encode_message({"title": "first edit"}))})
    world.run(lambda: len(world.provider_calls) == 2)
    tell(world, {"t": EDITED})
    world.run_out("t")
    assert [decode_message(sent.message)["title"] for sent in world.provider_calls] == ["first edit"] * 2 + [
        "edited"
    ] * 2
    assert world.counts("t") == {"sent": 6}


def test_the_envelopes_themselves_keep_their_message() -> None:
    """The worker that sends the next attempt knows the latest edit, so envelopes do not contain edits."""
    world = EngineWorld(busy_at_first)
    world.add_task("t", 3, chunk=3)
    world.worker()
    tell(world, {"t": EDITED})
    retry = world.topics.retry_lane(Tier.HIGH, 1)
    world.run(lambda: bool(world.broker.open(retry)))
    assert {bytes(envelope.message) for envelope in world.broker.open(retry)} == {bytes(MESSAGE)}


def test_a_stored_override_is_what_an_envelope_would_carry() -> None:
    assert edited_message(edit_text(12, {"title": "edited"}).encode()) == EDITED


# ------------------------------------------------------------------ out of a shared lane
def leave_shared_lane(world: EngineWorld, task: str) -> str:
    """As a client does it: the lane, then the record, and workers are told."""
    lane = world.topics.own_lane(task)
    world.broker.create(lane)
    world.change(task, "lane", lane)
    world.add_lane(lane_info(lane, task, tier="low"))
    return lane


def test_a_cancelled_task_that_left_its_shared_lane_ends_and_what_stands_there_is_dropped() -> None:
    world = EngineWorld(capacity=50)
    shared = world.add_task("t", 300, tier=Tier.LOW, shared=True)
    world.worker()
    world.run(lambda: len(world.provider_calls) > 10)
    lane = leave_shared_lane(world, "t")
    world.change("t", "cancelled", "1")
    world.run(lambda: world.finished("t"))
    world.remove_lane(lane)
    world.run(lambda: not world.broker.open(shared))
    counts = world.counts("t")
    assert counts["sent"] + counts["cancelled"] == 300
    assert counts["sent"] == len(world.provider_calls)
