"""A rebuild can be stopped between any two steps and taken over, and never grants before claims have ended."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from consumers.upkeep.rebuild import Rebuilder, RebuildPorts, RebuildSettings
from dispatcher.model.errors import NotFound, Refused, Unreachable
from dispatcher.wire.control import NO_EPOCH, EpochStarted, GlobalChange
from dispatcher.wire.outcome import EpochMark
from tests.actors import running
from tests.unit.dispatch.consumers.fakes import (
    ControlTopic,
    MemoryEpochs,
    OutcomeTopics,
    control_records,
    epoch_of,
    eventually,
    outcome_records,
)
from tests.virtual_clock import VirtualClock

SETTINGS = RebuildSettings(partitions=2, claim_max_ms=13_000)
WAIT_S = 17.0
"""For these claims, and for reports of what is not recorded."""


class Rebuild:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.epochs, self.control, self.outcomes = MemoryEpochs(self.clock), ControlTopic(), OutcomeTopics()
        self.made = 0

    def worker(self, restore: Callable[[str], None] | None = None, *, steps: int = 0, **settings: Any) -> Rebuilder:
        """A worker that has taken this number of steps."""
        ports = RebuildPorts(self.epochs, self.control, self.outcomes, self.control.open)
        settings = {"address": self.epochs.address} | settings
        worker = Rebuilder(ports, lambda: True, self.clock, self.new_id, replace(SETTINGS, **settings), restore)
        for _ in range(steps):
            worker.step()
        return worker

    def announced(self) -> list[EpochStarted]:
        return [record for record in control_records(self.control) if isinstance(record, EpochStarted)]

    def addresses(self) -> list[str]:
        """Where views were said to be, in order."""
        return [record.address for record in self.announced() if record.address]

    def claims(self) -> list[int]:
        """Values of the longest claim that were reported, in order."""
        return [record.claim_ms for record in self.announced() if record.claim_ms]

    def new_id(self) -> str:
        self.made += 1
        return f"e{self.made}"

    def marked(self) -> list[str]:
        return [record.epoch for record in control_records(self.control) if isinstance(record, EpochMark)]


@pytest.fixture
def rebuild() -> Rebuild:
    return Rebuild()


def test_a_broken_view_is_made_again_and_waits_for_its_claims(rebuild: Rebuild) -> None:
    worker = rebuild.worker(steps=3)
    rebuild.epochs.now = epoch_of("e1", 0, announced=True, marked=True, broken="WRONGTYPE")
    worker.step()
    assert rebuild.epochs.now == epoch_of("e2", 13_000)
    worker.step()
    assert worker.step() > 0
    assert rebuild.marked() == ["e1"], "nothing is granted before the claims of the broken view have ended"


def test_the_first_epoch_ever_does_not_wait(rebuild: Rebuild) -> None:
    rebuild.control.append(GlobalChange(1, "capacity", "10", 0))
    rebuild.worker(steps=3)
    assert rebuild.epochs.now == epoch_of("e1", 0, announced=True, marked=True)
    assert rebuild.marked() == ["e1"]
    assert [outcome_records(topic) for topic in rebuild.outcomes.topics.values()] == [[EpochMark(1, "e1")]] * 2


def test_a_later_epoch_marks_only_after_the_longest_claim_has_ended(rebuild: Rebuild) -> None:
    rebuild.control.append(EpochStarted(1, "before", 0))
    worker = rebuild.worker(steps=5)
    assert rebuild.epochs.now == epoch_of("e1", 13_000, announced=True)
    assert rebuild.marked() == []
    rebuild.clock.advance(WAIT_S)
    worker.step()
    assert rebuild.marked() == ["e1"]


def test_a_clock_of_redis_that_is_set_forward_does_not_end_the_wait(rebuild: Rebuild) -> None:
    rebuild.control.append(EpochStarted(1, "before", 0))
    worker = rebuild.worker(steps=5)
    rebuild.epochs.now = epoch_of("e1", 0, announced=True)
    assert worker.step() == 1.0
    rebuild.clock.advance(WAIT_S - 0.5)
    assert worker.step() == pytest.approx(0.5)
    assert rebuild.marked() == []
    rebuild.clock.advance(0.5)
    worker.step()
    assert rebuild.marked() == ["e1"]


@pytest.mark.parametrize("ready", [False, True], ids=["being made", "complete"])
def test_a_clock_of_redis_that_is_set_back_lets_nothing_wait_for_longer_than_claims_last(
    rebuild: Rebuild, ready: bool
) -> None:
    """It may be wrong for some seconds after its machine has started, which is when a view begins to wait."""
    hour_ms = 3_600_000
    rebuild.epochs.now = epoch_of("e1", hour_ms + 13_000, early_ms=hour_ms, announced=True, marked=ready, ready=ready)
    rebuild.worker(steps=1)
    assert rebuild.epochs.now == epoch_of("e1", 13_000, announced=True, marked=ready, ready=ready)
    rebuild.clock.advance(1)
    rebuild.worker(steps=2)
    assert rebuild.epochs.now == epoch_of("e1", 12_000, announced=True, marked=ready, ready=ready)


def test_a_ready_view_is_left_alone(rebuild: Rebuild) -> None:
    rebuild.epochs.now = epoch_of("e0", 0, ready=True, announced=True, marked=True)
    rebuild.worker().step()
    assert rebuild.control.records == []


def test_a_former_primary_announces_and_marks_nothing(rebuild: Rebuild) -> None:
    rebuild.epochs.now = epoch_of("e1", 0, announced=True, marked=True, deposed="e1.2-run")
    rebuild.worker(steps=3)
    assert rebuild.control.records == []


def test_a_replica_that_lacks_restarts_takes_a_number_above_theirs_before_it_is_announced(rebuild: Rebuild) -> None:
    for epoch in ("e1", "e1.1-a", "e1.2-b", "other.7-c"):
        rebuild.control.append(EpochStarted(1, epoch, 0, rebuild.epochs.address))
    rebuild.epochs.now = epoch_of("e1.1-c", 13_000)
    rebuild.worker(steps=2)
    assert rebuild.epochs.now == epoch_of("e1.3-c", 13_000, announced=True)
    assert [record.epoch for record in rebuild.announced()][-3:] == ["e1.1-c", "e1.3-c", "e1.3-c"]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_another_worker_takes_over_after_any_step(rebuild: Rebuild, steps: int) -> None:
    rebuild.worker(steps=steps)
    rebuild.worker(steps=3)
    assert rebuild.epochs.now == epoch_of("e1", 0, announced=True, marked=True)


def test_one_that_died_after_announcing_does_not_make_its_own_epoch_wait(rebuild: Rebuild) -> None:
    rebuild.epochs.begin_epoch("e1", 13_000, 2)
    rebuild.control.append(EpochStarted(1, "e1", 0))  # and died
    rebuild.worker().step()
    assert rebuild.epochs.now == epoch_of("e1", 0, announced=True)


def test_redis_emptied_between_two_steps_begins_another_epoch(rebuild: Rebuild) -> None:
    worker = rebuild.worker(steps=2)
    rebuild.epochs.now = None
    for _ in range(3):
        worker.step()
    assert rebuild.epochs.now == epoch_of("e2", 13_000, announced=True)


def test_an_end_of_the_control_topic_that_cannot_be_read_leaves_the_wait(rebuild: Rebuild) -> None:
    worker = rebuild.worker(steps=1)
    rebuild.control.broken = True
    with pytest.raises(Unreachable):
        worker.step()
    assert rebuild.epochs.now == epoch_of("e1", 13_000)


def test_a_complete_view_is_announced_again_and_one_in_the_making_is_not(rebuild: Rebuild) -> None:
    worker = rebuild.worker()
    worker.restate()
    rebuild.epochs.now = epoch_of("e0", 0)
    worker.restate()
    assert rebuild.control.records == []
    rebuild.epochs.now = epoch_of("e0", 0, ready=True, announced=True, marked=True)
    worker.restate()
    assert [record.epoch for record in rebuild.announced()] == ["e0"]


def test_marks_that_are_not_reached_are_written_again(rebuild: Rebuild) -> None:
    worker = rebuild.worker(steps=4)
    assert rebuild.marked() == ["e1"]
    rebuild.clock.advance(31)
    worker.step()
    assert rebuild.marked() == ["e1", "e1"]


def test_a_snapshot_is_restored_before_the_epoch_is_announced(rebuild: Rebuild) -> None:
    restored: list[str] = []

    def restore(epoch: str) -> None:
        assert rebuild.control.records == []
        restored.append(epoch)
        if len(restored) == 1:
            raise Unreachable("Pulsar is gone.")
        rebuild.epochs.now = epoch_of(epoch, 13_000)

    worker = rebuild.worker(restore)
    worker.step()
    assert rebuild.epochs.now == epoch_of("e1", 13_000, restoring=True)
    with pytest.raises(Unreachable):
        worker.step()
    for _ in range(3):
        worker.step()
    assert restored == ["e1", "e1"]
    assert rebuild.epochs.now == epoch_of("e1", 0, announced=True, marked=True)


def test_what_cannot_be_read_in_the_control_topic_may_be_of_another_epoch_whose_claims_are_waited_for() -> None:
    rebuild = Rebuild()
    rebuild.control.store(b"\xc1")
    rebuild.worker(steps=3)
    assert rebuild.epochs.now == epoch_of("e1", 13_000, announced=True)


def test_a_refusal_is_waited_out_since_it_would_end_one_worker_after_the_other(rebuild: Rebuild) -> None:
    refusals = iter([Refused("No rights.", "Give them."), NotFound("No such topic.", "Provision.")])

    def new_id() -> str:
        for error in refusals:
            raise error
        return "e1"

    rebuild.new_id = new_id  # type: ignore[method-assign]
    with running(rebuild.worker(poll_s=0.001).run):
        eventually(lambda: rebuild.marked() == ["e1"])


def test_a_server_that_is_gone_is_waited_for(rebuild: Rebuild) -> None:
    rebuild.control.broken = True
    with running(rebuild.worker(poll_s=0.001).run):
        eventually(lambda: rebuild.control.calls > 2)
        assert rebuild.epochs.now == epoch_of("e1", 13_000)
        rebuild.control.broken = False
        eventually(lambda: rebuild.marked() == ["e1"])


def at(address: str) -> Rebuild:
    """A service whose view was at the Redis `old`, as the workers of the Redis at this address see it."""
    rebuild = Rebuild()
    for body in (EpochStarted(1, "e-old", 0), EpochStarted(1, "e-old", 0, "old"), EpochStarted(1, "e-old", 0)):
        rebuild.control.append(body)
    rebuild.epochs.address = address
    return rebuild


def test_an_emptied_redis_is_filled_again() -> None:
    rebuild = at("old")
    rebuild.worker(steps=3)
    assert rebuild.epochs.now == epoch_of("e1", 13_000, announced=True, address="old")
    assert rebuild.addresses() == ["old", "old"]


def test_no_view_is_made_in_another_redis() -> None:
    rebuild = at("new")
    rebuild.worker(steps=5)
    assert rebuild.epochs.now == epoch_of("e1", 13_000, foreign="old", address="new")
    assert rebuild.addresses() == ["old"], "workers that serve the view at old are not stopped"
    assert rebuild.marked() == []


def test_a_view_moves_to_another_redis_where_that_is_asked_for() -> None:
    rebuild = at("new")
    rebuild.epochs.now = epoch_of("e9", 13_000, adopted=True)
    rebuild.worker(steps=1)
    assert rebuild.epochs.now == epoch_of("e9", 13_000, adopted=True, announced=True, address="new")
    assert rebuild.addresses() == ["old", "new"]


def test_a_view_that_moved_while_no_worker_ran_is_refused_and_not_announced_again() -> None:
    """Its workers were stopped, so none of them read that it was adopted at another Redis."""
    rebuild = at("old")
    here = epoch_of("e-old", 0, ready=True, announced=True, marked=True, address="old")
    rebuild.epochs.now = here
    worker = rebuild.worker()
    worker.check_home()
    rebuild.control.append(EpochStarted(1, "e-new", 0, "new"))
    for before_serving in (worker.check_home, worker.restate):
        rebuild.epochs.now = here
        with pytest.raises(Refused, match=r"in another Redis, new\. This one is old"):
            before_serving()
        assert rebuild.epochs.now == replace(here, foreign="new")
    assert rebuild.addresses() == ["old", "new"], "workers that serve the view at new are not stopped"


def test_a_view_whose_server_has_another_name_is_announced_with_it() -> None:
    rebuild = at("old")
    rebuild.control.records.clear()
    rebuild.epochs.now = epoch_of("e0", 0, ready=True, announced=True, marked=True, address="older")
    worker = rebuild.worker(steps=3)
    assert rebuild.epochs.now == epoch_of("e0", 0, ready=True, announced=True, marked=True, address="old")
    assert rebuild.addresses() == ["old"]
    worker.restate()
    assert rebuild.addresses() == ["old", "old"]


def test_a_rebuild_waits_for_the_longer_claims_of_a_worker_that_is_gone() -> None:
    rebuild = at("old")
    gone = rebuild.worker(claim_max_ms=63_000)
    gone.announce_claims()
    worker = rebuild.worker()
    worker.announce_claims()
    for _ in range(3):
        worker.step()
    assert rebuild.epochs.now == epoch_of("e1", 63_000, announced=True, address="old")
    assert rebuild.claims() == [63_000, 63_000], "said by the worker that makes them, and with the view"


def test_claims_of_the_first_worker_of_all_are_not_waited_for(rebuild: Rebuild) -> None:
    worker = rebuild.worker(claim_max_ms=63_000)
    worker.announce_claims()
    for _ in range(2):
        worker.step()
    assert rebuild.epochs.now == epoch_of("e1", 0, announced=True)


def test_the_longest_claim_is_said_again_before_the_topic_forgets_it(rebuild: Rebuild) -> None:
    rebuild.epochs.now = epoch_of("e0", 0, ready=True, announced=True, marked=True, claim_ms=63_000)
    rebuild.worker().restate()
    assert rebuild.claims() == [63_000]


def test_claims_that_no_worker_can_make_are_not_waited_for() -> None:
    """A record that makes no sense must not stop the service for good."""
    rebuild = at("old")
    rebuild.control.append(EpochStarted(1, NO_EPOCH, 0, "", 10**12))
    rebuild.worker(steps=3)
    assert rebuild.epochs.now == epoch_of("e1", 13_000, announced=True, address="old")


def test_a_view_that_failed_over_to_another_address_is_no_other_one() -> None:
    rebuild = at("replica")
    rebuild.epochs.now = epoch_of("e-old.3f2a", 13_000, address="old")
    for _ in range(2):
        rebuild.worker().step()
    assert rebuild.epochs.now == epoch_of("e-old.3f2a", 13_000, announced=True, address="replica")


def test_one_that_died_while_announcing_does_not_hide_where_the_view_is() -> None:
    rebuild = at("new")
    rebuild.epochs.begin_epoch("e1", 13_000, 2)
    rebuild.control.append(EpochStarted(1, "e1", 0))  # and died
    rebuild.worker().step()
    assert rebuild.epochs.now == epoch_of("e1", 13_000, foreign="old", address="new")
