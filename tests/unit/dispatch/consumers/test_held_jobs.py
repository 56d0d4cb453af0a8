"""Jobs are shared out, follow a worker that dies, and are let go of at the end."""

import threading
from collections.abc import Sequence

import pytest

from backends.redis.workers import JobLocks
from consumers.upkeep.jobs import HeldJobs, JobLockSettings
from tests.actors import running
from tests.unit.dispatch.consumers.fakes import eventually
from tests.unit.views import LostRedis, view_of
from tests.virtual_clock import VirtualClock

NAMES = [f"job-{n}" for n in range(6)]


class Crew:
    def __init__(self, count: int) -> None:
        self.clock = VirtualClock()
        self.set_back_ms = 0
        self.redis = LostRedis(lambda: self.clock.wall_ms() - self.set_back_ms)
        self.view = view_of(self.redis)
        self.locks = JobLocks(self.view)
        self.count = count
        self.jobs = [self.member(n) for n in range(count)]

    def member(self, number: int) -> HeldJobs:
        return HeldJobs(self.locks, NAMES, f"w{number}", self.clock, lambda: self.count, JobLockSettings(3.5, 0.001))

    def rounds(self, count: int, members: Sequence[HeldJobs] | None = None) -> None:
        for _ in range(count):
            for jobs in self.jobs if members is None else members:
                jobs.renew()
            self.clock.advance(1)

    def owned(self) -> int:
        """Return the number of jobs that are taken in Redis."""
        return int(self.view.command("EXISTS", *map(self.view.keys.lock, NAMES)))

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


def test_a_dead_worker_is_followed_though_the_clock_of_redis_is_set_back() -> None:
    """Nobody would fold its outcome topics for as long as that step."""
    crew = Crew(2)
    crew.rounds(2)
    crew.set_back_ms = 3_600_000
    crew.rounds(7, members=crew.jobs[:1])
    assert crew.holding() == [6, 0]


def test_without_redis_a_job_ends_with_its_time() -> None:
    crew = Crew(1)
    crew.rounds(1)
    crew.redis.gone = True
    crew.clock.advance(3)
    assert crew.holding() == [0]


def test_an_emptied_redis_is_taken_again_at_once() -> None:
    crew = Crew(2)
    crew.rounds(2)
    crew.redis.store.clear()
    crew.rounds(1)
    assert crew.holding() == [3, 3]


def test_at_the_end_all_are_let_go() -> None:
    crew = Crew(1)
    crew.rounds(1)
    stop = threading.Event()
    stop.set()
    crew.jobs[0].run(stop)
    assert crew.owned() == 0
    assert crew.holding() == [0]


def test_a_key_of_another_type_ends_no_worker(caplog: pytest.LogCaptureFixture) -> None:
    crew = Crew(1)
    crew.view.command("HSET", crew.view.keys.lock(NAMES[0]), "foreign", "1")
    (jobs,) = crew.jobs
    with running(jobs.run):
        eventually(lambda: "job locks cannot be renewed" in caplog.text)
        crew.view.command("DEL", crew.view.keys.lock(NAMES[0]))
        eventually(lambda: jobs.held(NAMES[0]))
    assert "WRONGTYPE" in caplog.text


def test_an_outage_is_waited_for_and_at_the_end_locks_run_out_by_themselves() -> None:
    crew = Crew(1)
    redis, (jobs,) = crew.redis, crew.jobs
    redis.gone = True
    with running(jobs.run):
        eventually(lambda: redis.asked > 2)
        assert not jobs.held(NAMES[0])
        redis.gone = False
        eventually(lambda: jobs.held(NAMES[0]))
        redis.gone = True
    assert not jobs.held(NAMES[0])
    redis.gone = False
    assert crew.owned() == 6
