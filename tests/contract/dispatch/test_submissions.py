"""Who submits a task, over every Redis and Valkey there is on this machine: leases, and what the control topic says."""

import random
from itertools import pairwise

import msgspec
import pytest

from backends.redis.epochs import Epochs
from backends.redis.registry.registry import Registry
from backends.redis.view import RedisView
from backends.redis.view_records import ViewRecords
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.control import (
    FORMAT,
    ControlRecord,
    Sealed,
    TakenOver,
    TaskRecord,
    encode_control,
)
from dispatcher.wire.submission import WrittenAhead, without_passed, written_ahead
from tests.contract.registry_records import announced, placed, position, ready, sealed, submission_of, task_record
from tests.records import checkpoint


def of(submitter: str) -> TaskRecord:
    return task_record(submitter=submitter, announced=10, announced_digest="d10")


def taken(by: str, at_ms: int) -> TakenOver:
    return TakenOver(FORMAT, "t1", by, at_ms)


def seal_of(submitter: str, targets: int = 10) -> Sealed:
    return msgspec.structs.replace(sealed("t1", targets), submitter=submitter)


def ahead(registry: Registry) -> WrittenAhead:
    row = submission_of(registry)
    return written_ahead(row.record, row.entries, row.checkpoint)


def is_sealed(registry: Registry) -> bool:
    row = registry.submissions.submission("t1")
    return row is not None and row.seal is not None


# ---------------------------------------------------------------------------------------- leases


def test_renewal_under_way_does_not_bring_a_released_lease_back(registry: Registry) -> None:
    registry.submissions.hold_submission("take", "t1", "a")
    registry.submissions.hold_submission("release", "t1", "a")
    registry.submissions.hold_submission("renew", "t1", "a")
    assert registry.submissions.hold_submission("take", "t1", "b").state == "again"


def test_one_has_the_lease_until_it_is_let_go(registry: Registry) -> None:
    first = registry.submissions.hold_submission("take", "t1", "a", "host:1")
    assert first.state == "again"  # the view is not ready: it cannot tell that nobody had it
    held = registry.submissions.hold_submission("take", "t1", "b", "host:2")
    assert (held.state, held.who, held.since_ms) == ("held", "host:1", first.since_ms)
    assert registry.submissions.hold_submission("renew", "t1", "b").state == "held"
    assert registry.submissions.hold_submission("renew", "t1", "a").state == "ours"
    registry.submissions.hold_submission("release", "t1", "b")
    assert registry.submissions.hold_submission("take", "t1", "b").state == "held"
    registry.submissions.hold_submission("release", "t1", "a")
    second = registry.submissions.hold_submission("take", "t1", "b")
    assert second.state == "again"
    assert second.since_ms > first.since_ms
    assert registry.submissions.hold_submission("renew", "t1", "a").state == "held"
    assert registry.submissions.hold_submission("renew", "t2", "a").state == "gone"


def test_a_lease_that_ran_out_is_its_holders_until_another_takes_it(registry: Registry, view: RedisView) -> None:
    registry.submissions.hold_submission("take", "t1", "a")
    view.command("HSET", view.keys.submitting("t1"), "until_ms", "1")
    assert registry.submissions.hold_submission("renew", "t1", "a").state == "ours"
    view.command("HSET", view.keys.submitting("t1"), "until_ms", "1")
    assert registry.submissions.hold_submission("take", "t1", "b").state == "again"
    assert registry.submissions.hold_submission("renew", "t1", "a").state == "held"


def test_a_lease_that_is_renewed_is_known_for_more_than_a_day(registry: Registry, view: RedisView) -> None:
    """A submission may take days. It was forgotten a day after it was taken, and another submitter could have it."""
    registry.submissions.hold_submission("take", "t1", "a")
    view.command("PEXPIRE", view.keys.submitting("t1"), 1_000)
    registry.submissions.hold_submission("renew", "t1", "a")
    assert view.command("PTTL", view.keys.submitting("t1")) > 23 * 3_600_000


def test_a_takeover_is_later_than_the_one_before_it_when_the_clock_is_set_back(
    registry: Registry, view: RedisView
) -> None:
    """Takeovers count in this order, and the last one seals."""
    registry.submissions.hold_submission("take", "t1", "a", "host:1")
    ahead_ms = view.now_ms() + 60_000
    submitting = view.keys.submitting("t1")
    view.command("HSET", submitting, "since_ms", ahead_ms, "until_ms", 0)
    assert registry.submissions.hold_submission("take", "t1", "b", "host:2").since_ms > ahead_ms


def test_a_lease_ends_in_time_when_the_clock_is_set_back(registry: Registry, view: RedisView) -> None:
    """Else the next submission of a task whose submitter died would wait for as long as the step."""
    registry.submissions.hold_submission("take", "t1", "a", "host:1")
    submitting = view.keys.submitting("t1")
    view.command("HSET", submitting, "until_ms", view.now_ms() + 3_600_000)
    held = registry.submissions.hold_submission("take", "t1", "b")
    left_ms = held.until_ms - view.now_ms()
    assert (held.state, held.who) == ("held", "host:1")
    assert 0 < left_ms <= 15_000
    assert registry.submissions.hold_submission("take", "t1", "b").until_ms == held.until_ms, "not put off"
    assert registry.submissions.hold_submission("renew", "t1", "a").state == "ours"


def test_a_new_task_is_admitted_with_its_lease(registry: Registry, view: RedisView) -> None:
    ready(view)
    view.command("HSET", view.keys.epoch, "grants_after_ms", "1")
    admission = registry.submissions.admit(of("a"), "host:1")
    assert (admission.reached, admission.lease.state, admission.lease.who) == ("", "fresh", "host:1")
    assert registry.submissions.admit(of("b")).lease.state == "held"
    registry.control.apply(position(1), of("a"))
    registry.submissions.hold_submission("release", "t1", "a")
    known = registry.submissions.admit(of("b"))
    assert (known.reached, known.lease.state) == ("known", "again")
    assert registry.submissions.admit(task_record()).lease.state == ""  # many writers need none


def test_a_view_that_was_made_just_now_cannot_say_that_nobody_had_a_lease(registry: Registry, view: RedisView) -> None:
    ready(view)
    view.command("HSET", view.keys.epoch, "grants_after_ms", str(registry.service.now_ms()))
    assert registry.submissions.admit(of("a")).lease.state == "again"


def test_the_first_view_of_all_remembers_every_lease_until_redis_is_restarted(
    registry: Registry, view: RedisView
) -> None:
    epochs = Epochs(view)
    epochs.begin_epoch("e1", 13_000, 2)
    epochs.epoch_announced("e1", first=True, position="1")
    view.command("HSET", view.keys.epoch, "ready", "1")
    assert registry.submissions.admit(of("a")).lease.state == "fresh"
    view.command("HSET", view.keys.epoch, "run_id", "of a Redis that was stopped")
    view.command("DEL", view.keys.submitting("t1"))
    view.client.connection_pool.disconnect()
    view.command("HSET", view.keys.epoch, "ready", "1")
    assert registry.submissions.admit(of("b")).lease.state == "again"


# ---------------------------------------------------------------------------------------- the topic


def test_the_view_has_what_is_announced_behind_the_last_checkpoint(registry: Registry) -> None:
    registry.control.apply_all(placed(of("a"), announced("a", 10, 20)))
    registry.control.apply_all(placed(announced("a", 10, 20), taken("b", 5), announced("a", 20, 30), first=2))
    registry.control.apply(position(5), announced("b", 20, 40))
    assert [end.targets for end in ahead(registry).ends] == [10, 20, 40]
    registry.control.apply_all(
        placed(
            checkpoint("t1", 2, targets=20, consumed=20, digest="d20"),
            announced("b", 40, 50),
            first=6,
        )
    )
    assert [end.targets for end in ahead(registry).ends] == [40, 50]
    row = submission_of(registry)
    assert position(2) not in row.entries
    assert ahead(registry)[:3] == ("b", "a", 5)


def test_takeovers_do_not_pile_up(registry: Registry) -> None:
    registry.control.apply(position(1), of("a"))
    for number in range(300):
        registry.control.apply(position(2 + number), taken(f"s{number}", 10 + number))
    row = submission_of(registry)
    assert len(row.entries) <= 100
    assert ahead(registry)[:3] == ("s299", "s298", 309)


def test_a_seal_counts_if_its_submitter_is_the_current_one_at_its_place(registry: Registry) -> None:
    registry.control.apply(position(1), of("a"))
    registry.control.apply_all(placed(taken("b", 5), taken("late", 4), first=3))
    for number, by in ((5, "a"), (5, "late"), (2, "b")):
        registry.control.apply(position(number), seal_of(by))
        assert not is_sealed(registry)
    registry.control.apply(position(6), seal_of("b"))
    assert is_sealed(registry)
    assert registry.tasks.complete() == []


def test_a_seal_before_a_takeover_counts(registry: Registry) -> None:
    registry.control.apply(position(1), of("a"))
    registry.control.apply(position(3), taken("b", 5))
    registry.control.apply(position(2), seal_of("a"))
    assert is_sealed(registry)


def test_whoever_holds_the_lease_seals_at_once_and_lets_it_go(registry: Registry) -> None:
    """The fold may not have come to his takeover yet."""
    registry.control.apply(position(1), of("a"))
    registry.submissions.hold_submission("take", "t1", "b")
    registry.control.apply(position(5), seal_of("b"))
    assert is_sealed(registry)
    assert registry.submissions.hold_submission("renew", "t1", "b").state == "gone"


def test_the_seal_of_many_writers_counts(registry: Registry) -> None:
    registry.control.apply_all(placed(of("a"), sealed("t1", 5, ("w1", "w2"))))
    assert is_sealed(registry)


def test_what_is_announced_is_restated(registry: Registry, view: RedisView) -> None:
    records: list[ControlRecord] = [
        of("a"),
        announced("a", 10, 20),
        taken("b", 5),
        announced("a", 20, 30),
        announced("b", 20, 40),
    ]
    for number, record in enumerate(records, 1):
        registry.control.apply(position(number), record)
    before = ahead(registry)
    restated = ViewRecords(view).of_tasks(["t1"])
    view.wipe()
    for number, record in enumerate(restated, 100):
        registry.control.apply(*read_control(position(number), encode_control(record)))
    assert ahead(registry) == before
    registry.control.apply(position(200), seal_of("a"))
    assert not is_sealed(registry)


def test_a_task_is_registered_by_one_whose_lease_is_looked_at_and_the_first_record_is_read_back(
    registry: Registry,
) -> None:
    registry.submissions.hold_submission("take", "t1", "b")
    lease, row = registry.submissions.start_submission(position(2), of("b"), "b")
    assert lease.state == "ours"
    assert row is not None
    assert row.record.submitter == "b"
    lease, row = registry.submissions.start_submission(position(1), of("a"), "a")
    assert lease.state == "held"
    assert row is not None
    assert row.record.submitter == "a"


def test_a_seal_of_one_who_lost_the_lease_is_left_to_the_topic(registry: Registry) -> None:
    registry.control.apply(position(1), of("a"))
    registry.submissions.hold_submission("take", "t1", "a")
    registry.submissions.hold_submission("release", "t1", "a")
    registry.submissions.hold_submission("take", "t1", "b")  # its takeover is in the topic, and not applied yet
    seal = seal_of("a")
    assert not registry.submissions.seal_submission(position(4), seal)
    assert not is_sealed(registry)


def test_a_seal_ends_the_lease_and_one_that_was_applied_already_is_no_fault(registry: Registry) -> None:
    registry.control.apply(position(1), of("a"))
    registry.submissions.hold_submission("take", "t1", "a")
    seal = seal_of("a")
    assert registry.submissions.seal_submission(position(2), seal)
    assert registry.submissions.hold_submission("renew", "t1", "a").state == "gone"
    assert registry.submissions.seal_submission(position(2), seal)
    assert not registry.submissions.seal_submission(position(3), seal_of("b", 12))


# ---------------------------------------------------------------------------------------- passed records
def history(rng: random.Random) -> list[tuple[str, ControlRecord]]:
    """A task's records as its submitters append them: windows, takeovers, and checkpoints that come late or again."""
    records: list[ControlRecord] = [of("a")]
    submitter, targets = "a", 10
    for at_ms in range(1, 60):
        what = rng.random()
        if what < 0.1:
            submitter = rng.choice("abc")
            records.append(taken(submitter, at_ms))
        elif what < 0.4:
            stored = rng.randint(0, targets)
            records.append(checkpoint("t1", stored, targets=stored, digest=f"d{stored}"))
        else:
            records.append(announced(rng.choice([submitter, "a"]), targets, targets + 3))
            targets += 3
    return placed(*records)


@pytest.mark.parametrize("seed", range(30))
def test_a_view_is_the_same_without_the_records_that_a_checkpoint_passes(
    registry: Registry, view: RedisView, seed: int
) -> None:
    rng = random.Random(seed)
    records = history(rng)
    cuts = sorted(rng.sample(range(1, len(records)), 3))
    registry.control.apply_all(records)
    expected = submission_of(registry)
    view.wipe()
    applied = 0
    for start, end in pairwise([0, *cuts, len(records)]):
        left = without_passed(records[start:end])
        registry.control.apply_all(left)
        applied += len(left)
    found = submission_of(registry)
    assert applied < len(records)
    assert (found.checkpoint, found.ahead) == (expected.checkpoint, expected.ahead)
