"""The settle rules, each seen from outside: what is recorded, sent, published again and acked, and in which order."""

from typing import Any

import pytest

from dispatcher.model.tier import Tier
from dispatcher.wire.envelope import Envelope, decode_envelope
from dispatcher.wire.outcome import ALL_SENT, RETRY, UNSENT, Outcome, Report, Verdict
from tests.records import finished
from tests.unit.engine_world import BUSY, EngineWorld, Worker, busy_at_first, on_each


def one_gone_one_busy(envelope: Envelope) -> Report:
    """Reports of the first attempt's targets."""
    if envelope.attempt == 1:
        return ALL_SENT
    return Report(exceptions={0: Verdict(int(Outcome.FAILED), "gone"), 1: BUSY.verdict})


def always_busy(_envelope: Envelope) -> Report:
    return BUSY


# ------------------------------------------------------------------ errors
def test_errors_are_counted_by_task_with_the_last_of_them() -> None:
    gone = Report(BUSY.verdict, exceptions={0: Verdict(int(Outcome.INVALID), "gone"), 1: Verdict(RETRY, "later", 30.0)})
    world = EngineWorld(lambda envelope: gone if envelope.attempt == 0 else always_busy(envelope))
    world.add_task("t", 8, chunk=4, max_attempts=2)
    world.add_task("fine", 2, channel="log")
    worker = world.worker()
    world.run(lambda: bool(worker.engine.stats.retried))
    [(task, (channel, error))] = worker.engine.errors.take().items()
    assert (task, channel, error.count, error.attempt) == ("t", "null", 2 * 3, 1), "an invalid target is no error"
    assert 30_000 <= error.retry_ms - error.at_ms <= 37_500
    world.run_out("t")
    [(_, (_, last))] = worker.engine.errors.take().items()
    assert (last.reason, last.count) == ("gave up after 2 attempts; the last: busy", 2 * 3)
    assert (last.attempt, last.retry_ms) == (2, 0)


def test_targets_that_the_provider_cannot_have_taken_count_as_sent_only_once_they_are() -> None:
    out_of_reach = Verdict(UNSENT, "refused the connection", 1.0)
    reports = {0: Report(out_of_reach), 1: Report(exceptions={0: out_of_reach})}
    world = EngineWorld(lambda envelope: reports.get(envelope.attempt, ALL_SENT))
    world.add_task("t", 4, chunk=4)
    worker = world.worker()
    world.run_out("t")
    assert worker.engine.stats.tiers[Tier.HIGH].sent == 3 + 1, "three at once, and one that was tried again"


# ------------------------------------------------------------------ the order of the steps
def test_dead_letter_then_record_then_next_attempt_then_ack() -> None:
    world = EngineWorld(one_gone_one_busy)
    world.add_task("t", 3, chunk=3)
    seen: list[str] = []
    worker = world.worker()
    on_each(world.dead_letters, "publish", lambda *_: seen.append("letter"))
    on_each(world.outcomes, "publish", lambda *_: seen.append("record"))
    on_each(worker.publisher, "publish", lambda *_: seen.append("again"))
    on_each(worker.lanes, "ack", lambda *_: seen.append("ack"))
    world.run_out("t")
    assert seen == ["letter", "record", "again", "ack", "record", "ack"]
    assert world.counts("t") == {"sent": 2, "failed": 1}


@pytest.mark.parametrize("failing", ["letters", "record", "next attempt"])
def test_nothing_is_acked_before_everything_is_stored(failing: str) -> None:
    world = EngineWorld(one_gone_one_busy)
    lane = world.add_task("t", 3, chunk=3)
    worker = world.worker()
    faults: Any = {
        "letters": world.dead_letters.receipts,
        "record": world.outcomes.receipts,
        "next attempt": worker.publisher.receipts,
    }[failing]
    faults.fail = 1_000_000
    world.run(within_s=30)
    assert len(world.broker.open(lane)) == 1
    assert len(world.provider_calls) == 1
    faults.fail = 0
    world.run_out("t")
    assert world.counts("t") == {"sent": 2, "failed": 1}
    assert max(world.calls.values()) == 1


def test_one_dead_letter_that_is_not_stored_holds_up_the_record_and_the_ack() -> None:
    """Others of the same record are: their receipts do not stand for its own."""
    world = EngineWorld(lambda _: Report(exceptions={0: Verdict(int(Outcome.FAILED), "gone")}))
    world.add_task("t", 2)
    world.dead_letters.receipts.fail = 1
    seen: list[str] = []
    worker = world.worker()
    on_each(world.dead_letters, "publish", lambda *_: seen.append("letter"))
    on_each(world.outcomes, "publish", lambda *_: seen.append("record"))
    on_each(worker.lanes, "ack", lambda *_: seen.append("ack"))
    world.run_out("t")
    assert seen == ["letter", "letter", "letter", "record", "ack"]


def test_a_record_without_receipt_is_written_again_and_counts_once(world: EngineWorld) -> None:
    world.add_task("t", 10)
    world.outcomes.receipts.lose = 1
    worker = world.worker()
    world.sent_once("t", 10)
    assert worker.engine.stats.stored_again == 1


def test_a_next_attempt_without_receipt_is_published_again_and_sent_once() -> None:
    world = EngineWorld(busy_at_first)
    world.add_task("t", 4, chunk=4)
    worker = world.worker()
    worker.publisher.receipts.lose = 1
    world.sent_once("t", 4)


# ------------------------------------------------------------------ copies
def test_copies_of_a_resumed_submission_are_sent_once(world: EngineWorld) -> None:
    lane = world.add_task("t", 200)
    world.broker.repeat(lane)
    worker = world.worker()
    world.sent_once("t", 200)
    assert worker.engine.stats.dropped == 200


def test_forgotten_acks_bring_nothing_back(world: EngineWorld) -> None:
    lane = world.add_task("t", 50)
    world.worker()
    world.run_out("t")
    world.broker.forget_acks(lane)
    world.sent_once("t", 50)


def lose_the_next_attempt(world: EngineWorld, worker: Worker, lane: str) -> None:
    """Delete it after its receipt, and let the first attempt come again."""
    world.run(lambda: not world.broker.open(lane))
    retry = world.topics.retry_lane(Tier.HIGH, 1)
    world.broker.delete(retry)
    world.broker.create(retry)
    worker.die()
    world.broker.forget_acks(lane)


def test_a_copy_of_what_is_recorded_and_open_gets_its_next_attempt_again() -> None:
    world = EngineWorld(busy_at_first)
    lane = world.add_task("t", 4, chunk=4)
    worker = world.worker()
    lose_the_next_attempt(world, worker, lane)
    second = world.worker()
    world.sent_once("t", 4)
    assert second.engine.stats.republished == 1


def test_a_next_attempt_that_was_lost_is_made_again_of_the_open_targets_alone() -> None:
    world = EngineWorld(lambda envelope: ALL_SENT if envelope.attempt else Report(exceptions={1: BUSY.verdict}))
    lane = world.add_task("t", 3, chunk=3)
    worker = world.worker()
    lose_the_next_attempt(world, worker, lane)
    world.worker()
    world.run_out("t")
    assert [envelope.targets for envelope in world.provider_calls] == [["t:0", "t:1", "t:2"], ["t:1"]]


# ------------------------------------------------------------------ retries
def test_the_last_attempt_fails_the_targets_and_says_why() -> None:
    world = EngineWorld(always_busy)
    world.add_task("t", 2, chunk=2, max_attempts=3)
    world.worker()
    assert world.run_out("t") >= 6.0, "delays of 1 and 5 seconds"
    assert world.counts("t") == {"failed": 2}
    assert [envelope.attempt for envelope in world.provider_calls] == [0, 1, 2]
    (letter,) = world.dead_letters.letters
    assert letter.targets == ["t:0", "t:1"]
    assert letter.reasons == ["gave up after 3 attempts; the last: busy"] * 2


def test_no_target_waits_for_the_delay_of_another() -> None:
    def script(envelope: Envelope) -> Report:
        if envelope.attempt:
            return ALL_SENT
        return Report(exceptions={0: BUSY.verdict, 1: Verdict(RETRY, "later", 20.0)})

    world = EngineWorld(script)
    world.add_task("t", 3, chunk=3, tier=Tier.MEDIUM)
    worker = world.worker()
    started_s = world.clock.monotonic_s()
    world.run(lambda: len(world.provider_calls) == 2)
    assert 1.0 <= world.clock.monotonic_s() - started_s < 3.0
    world.run_out("t")
    assert 20.0 <= world.clock.monotonic_s() - started_s < 27.0
    assert [(one.attempt, one.targets) for one in world.provider_calls] == [
        (0, ["t:0", "t:1", "t:2"]), (1, ["t:0"]), (2, ["t:1"])
    ]  # fmt: skip
    assert world.counts("t") == {"sent": 3}
    assert worker.engine.stats.given_back == 0
    assert world.stats()["granted:medium"] == world.stats()["used:medium"] == 3 + 1 + 1, "what is due is paid for"


def test_a_wait_beyond_the_longest_lane_goes_round_it_again_and_costs_no_round() -> None:
    def script(envelope: Envelope) -> Report:
        return Report(Verdict(RETRY, "in an hour", 3_600.0)) if envelope.attempt == 0 else ALL_SENT

    world = EngineWorld(script)
    world.add_task("t", 2, chunk=2)
    worker = world.worker()
    assert 3_600 <= world.run_out("t", within_s=5_000) < 3_600 * 1.26
    assert [one.attempt for one in world.provider_calls] == [0, 1]
    assert 2 + 4 <= worker.engine.stats.acked <= 2 + 6, "each lap takes up to 750 s"
    assert len(world.records()) == 2


def test_what_is_not_due_waits_though_what_is_before_it_is_due() -> None:
    world = EngineWorld(busy_at_first)
    world.add_task("early", 1)
    world.worker()
    world.run(lambda: bool(world.provider_calls))
    early_s = world.clock.monotonic_s()
    world.run(within_s=0.6)
    world.add_task("late", 1)
    seen = len(world.provider_calls)
    world.run(lambda: len(world.provider_calls) > seen)
    late_s = world.clock.monotonic_s()
    world.run(lambda: world.calls["early:0", 1] == 1)
    assert world.clock.monotonic_s() - early_s >= 1.0
    world.run(lambda: world.calls["late:0", 1] == 1)
    assert world.clock.monotonic_s() - late_s >= 1.0
    world.run_out("early", "late")


# ------------------------------------------------------------------ what is not sent
@pytest.mark.parametrize("how", ["cancelled", "expired"])
def test_what_is_closed_in_a_shared_lane_is_recorded_without_being_sent(world: EngineWorld, how: str) -> None:
    world.add_task("t", 30, shared=True, tier=Tier.LOW, expires_ms=world.clock.wall_ms() + 5_000)
    world.add_task("other", 30, shared=True, tier=Tier.LOW)
    if how == "cancelled":
        world.change("t", "cancelled", "1")
    else:
        world.clock.advance(6.0)
    world.worker()
    world.run_out("t", "other")
    assert world.counts("t") == {how: 30}
    assert world.counts("other") == {"sent": 30}
    assert {envelope.task for envelope in world.provider_calls} == {"other"}


def test_a_cancelled_task_with_its_own_lane_is_left_alone_and_closed_as_a_whole(world: EngineWorld) -> None:
    lane = world.add_task("t", 30)
    world.change("t", "cancelled", "1")
    world.worker()
    world.run(lambda: world.finished("t"))
    assert world.counts("t") == {"cancelled": 30}
    assert world.provider_calls == []
    assert len(world.broker.open(lane)) == 30


def test_an_envelope_of_an_unknown_task_is_kept_whole_and_never_sent(world: EngineWorld) -> None:
    lane = world.topics.shared_lane(0)
    world.add_task("known", 3, shared=True)
    world.publish("stranger", lane, 2)
    world.worker()
    world.run_out("known")
    assert {envelope.task for envelope in world.provider_calls} == {"known"}
    bodies = [decode_envelope(letter.body) for letter in world.dead_letters.letters]
    assert [(envelope.task, envelope.sequence) for envelope in bodies] == [("stranger", 0), ("stranger", 1)]
    assert "stranger" not in [record.task for record in world.records()]


def test_a_paused_task_leaves_the_retry_lanes_and_goes_on_from_its_own() -> None:
    world = EngineWorld(busy_at_first)
    lane = world.add_task("t", 6, chunk=3)
    worker = world.worker()
    world.run(lambda: bool(world.provider_calls))
    world.change("t", "paused", "1")
    world.run(lambda: worker.engine.stats.moved == 2)
    calls = len(world.provider_calls)
    world.run(within_s=10.0)
    assert len(world.provider_calls) == calls
    assert [envelope.attempt for envelope in world.broker.open(lane)] == [1, 1]
    world.change("t", "paused", "0")
    world.sent_once("t", 6)


def test_what_was_to_be_moved_to_a_lane_that_is_gone_is_dropped_once_the_task_has_ended() -> None:
    world = EngineWorld(busy_at_first)
    lane = world.add_task("t", 3, chunk=3)
    worker = world.worker()
    world.run(lambda: bool(world.provider_calls))
    world.change("t", "paused", "1")
    world.run(lambda: not world.broker.open(lane))
    world.remove_lane(lane)
    world.broker.delete(lane)
    world.run(lambda: worker.engine.stats.moved > 1)
    world.write(finished("t", 0, 0, 0, 0, 3, state="cancelled"))
    world.run(world.settled, within_s=10.0)
    assert worker.engine.stats.dropped == 1
    assert len(world.provider_calls) == 1


def test_envelopes_of_a_writer_that_does_not_count_are_dropped(world: EngineWorld) -> None:
    lane = world.add_task("t", 5)
    world.publish("t", lane, 5, writer="stage-1-attempt-2")
    worker = world.worker()
    world.run_out("t")
    assert worker.engine.stats.dropped == 5
    assert len(world.provider_calls) == 5
