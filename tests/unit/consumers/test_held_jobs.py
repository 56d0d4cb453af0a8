"""Seats are shared out, follow a worker that dies, and are let go of at the end."""

import threading
from collections.abc import Collection, Sequence

import pytest

from consumers.upkeep.held_jobs import HeldJobs, JobLockSettings
from dispatcher.clock import VirtualClock
from dispatcher.model.errors import Unreachable
from tests.actors import running
from tests.unit.consumers.fakes import eventually

NAMES = [f"job-{n}" for n in range(6)]


class Locks:
    """Elections by a virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.owners: dict[str, tuple[str, float]] = {}
        self.gone = False
        self.asked = 0

    def hold(
        self, names: Sequence[str], owner: str, ttl_ms: int, limit: int, overdue: Collection[str]
    ) -> dict[str, str]:
        self._reach()
        now_s = self.clock.monotonic_s()
        held = {name: who for name, (who, until_s) in self.owners.items() if until_s > now_s}
        mine = sum(who == owner for who in held.values())
        for name in names:
            taken = name not in held and (mine < limit or name in overdue)
            if taken or held.get(name) == owner:
                mine += taken
                held[name] = owner
                self.owners[name] = (owner, now_s + ttl_ms / 1000)
        return held

    def _reach(self) -> None:
        self.asked += 1
        if self.gone:
            raise Unreachable("Redis is gone.")

    def release(self, names: Sequence[str], owner: str) -> None:
        self._reach()
        for name in names:
            if self.owners.get(name, ("", 0))[0] == owner:
                del self.owners[name]


class Crew:
    def __init__(self, count: int) -> None:
        self.clock = VirtualClock()
        self.locks = Locks(self.clock)
        self.count = count
        self.jobs = [self.member(n) for n in range(count)]

    def member(self, number: int) -> HeldJobs:
        return HeldJobs(self.locks, NAMES, f"w{number}", self.clock, lambda: self.count, JobLockSettings(3.5, 1.0))

    def rounds(self, count: int, members: Sequence[HeldJobs] | None = None) -> None:
        for _ in range(count):
            for jobs in self.jobs if members is None else members:
                jobs.renew()
            self.clock.advance(1)

    def holding(self) -> list[int]:
        return [sum(jobs.held(name) for name in NAMES) for jobs in self.jobs]


@pytest.mark.parametrize(("workers", "jobs"), [(1, [6]), (3, [2, 2, 2])])
def test_one_worker_holds_all_and_several_share(workers: int, jobs: list[int]) -> None:
    crew = Crew(workers)
    crew.rounds(2)
    assert crew.holding() == jobs


def test_a_worker_that_joins_gets_its_share() -> None:
    crew = Crew(1)
    crew.rounds(2)
    crew.count = 2
    crew.jobs.append(crew.member(1))
    crew.rounds(3)
    assert crew.holding() == [3, 3]


def test_a_dead_worker_is_followed_while_it_is_still_counted() -> None:
    crew = Crew(2)
    crew.rounds(2)
    crew.rounds(6, members=crew.jobs[:1])
    assert crew.holding() == [6, 0]


def test_a_job_is_never_held_by_two() -> None:
    crew = Crew(3)
    for _ in range(10):
        crew.rounds(1)
        assert sum(crew.holding()) <= 6


def test_without_redis_a_job_ends_with_its_time() -> None:
    crew = Crew(1)
    crew.rounds(1)
    crew.locks.gone = True
    crew.clock.advance(3)
    assert crew.holding() == [0]


def test_an_emptied_redis_is_taken_again_at_once() -> None:
    crew = Crew(2)
    crew.rounds(2)
    crew.locks.owners.clear()
    crew.rounds(1)
    assert crew.holding() == [3, 3]


def test_at_the_end_all_are_let_go() -> None:
    crew = Crew(1)
    crew.rounds(1)
    stop = threading.Event()
    stop.set()
    crew.jobs[0].run(stop)
    assert crew.locks.owners == {}
    assert crew.holding() == [0]


def test_an_outage_is_waited_for_and_at_the_end_locks_run_out_by_themselves() -> None:
    crew = Crew(1)
    locks, jobs = crew.locks, HeldJobs(crew.locks, NAMES, "w0", crew.clock, lambda: 1, JobLockSettings(3.5, 0.001))
    locks.gone = True
    with running(jobs.run):
        eventually(lambda: locks.asked > 2)
        assert not jobs.held(NAMES[0])
        locks.gone = False
        eventually(lambda: jobs.held(NAMES[0]))
        locks.gone = True
    assert not jobs.held(NAMES[0])
    assert len(locks.owners) == 6
