"""Every chore reaches its end by another round, and the outage of one server stops no other chore."""

import threading
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import msgspec
import pytest

from consumers.closing import Closing
from consumers.finishing import Finisher
from consumers.housekeeping import LONGEST_REST_S, Chore, Housekeeper
from consumers.lane_cleanup import CleanupSettings, LaneCleaner
from consumers.side_lanes import SideLaneCleaner
from dispatcher.clock import VirtualClock
from dispatcher.control import ControlRecord, Finished
from dispatcher.errors import FairlaneError, NotFound, Refused, Unreachable
from dispatcher.lease import Closable
from dispatcher.outcome import ClaimsEnded, CloseTask, Outcome
from dispatcher.view import TargetCounts, TaskView
from tests.actors import running
from tests.unit.consumers.fakes import (
    ControlTopic,
    OutcomeTopics,
    Topic,
    control_records,
    eventually,
    outcome_records,
)


def lane(task: str) -> str:
    return f"persistent://t/tasks-00/{task}"


class LaneTopics:
    def __init__(self, *tasks: str) -> None:
        self.lanes = [lane(task) for task in tasks]
        self.attached: set[str] = set()
        self.tries = 0

    def list_topics(self, namespace: str) -> Sequence[str]:
        return list(self.lanes)

    def delete_topic(self, topic: str) -> bool:
        self.tries += 1
        if topic in self.attached:
            return False
        if topic in self.lanes:
            self.lanes.remove(topic)
        return True


class Tombstone(NamedTuple):
    id: str
    lane: str
    shared: bool
    finished_ms: int


class Known:
    """fates: "live" or "ended" by task; others are unknown."""

    def __init__(self) -> None:
        self.ended: dict[str, int] = {}
        self.fates: dict[str, str] = {}
        self.lanes: dict[str, str] = {}
        """Of tasks whose records name another lane than their own."""
        self.complete = True
        self.all_read = True

    def ended_since(self, at_ms: int) -> list[str]:
        return [task for task, ended_ms in self.ended.items() if ended_ms >= at_ms]

    def tombstones(self, tasks: Sequence[str]) -> Sequence[Tombstone]:
        return [Tombstone(task, self.lanes.get(task, lane(task)), False, self.ended[task]) for task in tasks]

    def ends(self, tasks: Sequence[str]) -> dict[str, bool]:
        return {task: self.fates[task] == "ended" for task in tasks if task in self.fates}


class Cleanup:
    def __init__(self, *tasks: str) -> None:
        self.topics, self.known, self.clock = LaneTopics(*tasks), Known(), VirtualClock()
        settings = CleanupSettings(sweep_s=60, grace_s=100, retry_s=(1.0, 4.0))
        self.cleaner = LaneCleaner(
            self.topics,
            self.known,
            lambda: self.known.complete,
            ["t/tasks-00"],
            self.clock,
            settings,
            lambda: self.known.all_read,
        )

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.cleaner.round()
            self.clock.advance(1)


def test_the_lane_of_an_ended_task_goes_once_nobody_is_attached() -> None:
    cleanup = Cleanup("a", "b")
    cleanup.known.fates = {"a": "live", "b": "live"}
    cleanup.rounds(1)
    cleanup.known.ended["a"] = cleanup.clock.wall_ms()
    cleanup.topics.attached.add(lane("a"))
    cleanup.rounds(3)
    assert cleanup.topics.lanes == [lane("a"), lane("b")]
    cleanup.topics.attached.clear()
    cleanup.rounds(5)
    assert cleanup.topics.lanes == [lane("b")]


def test_an_end_that_is_dated_in_the_future_hides_no_end_after_it() -> None:
    """By a worker whose clock was wrong."""
    cleanup = Cleanup("a", "b")
    cleanup.known.fates = {"a": "live", "b": "live"}
    cleanup.rounds(1)
    cleanup.known.ended["a"] = cleanup.clock.wall_ms() + 365 * 86_400_000
    cleanup.rounds(2)
    cleanup.known.ended["b"] = cleanup.clock.wall_ms()
    cleanup.rounds(2)
    assert cleanup.topics.lanes == []


def test_a_record_that_names_a_topic_of_another_tenant_does_not_have_it_deleted() -> None:
    cleanup, foreign = Cleanup("a"), "persistent://other/tasks-00/b"
    cleanup.topics.lanes.append(foreign)
    cleanup.rounds(1)
    cleanup.known.lanes["b"] = foreign
    cleanup.known.ended = {"a": cleanup.clock.wall_ms(), "b": cleanup.clock.wall_ms()}
    cleanup.rounds(2)
    assert cleanup.topics.lanes == [foreign]


def test_an_attached_lane_is_not_hammered() -> None:
    cleanup = Cleanup("a")
    cleanup.known.fates["a"] = "ended"
    cleanup.topics.attached.add(lane("a"))
    cleanup.rounds(20)
    assert cleanup.topics.tries <= 8


def test_the_sweep_finds_what_an_earlier_housekeeper_left() -> None:
    cleanup = Cleanup("ended", "live")
    cleanup.known.fates = {"ended": "ended", "live": "live"}
    cleanup.rounds(1)
    assert cleanup.topics.lanes == [lane("live")]


def test_a_topic_of_an_unknown_task_goes_only_after_the_grace() -> None:
    cleanup = Cleanup("stray")
    cleanup.rounds(100)
    assert cleanup.topics.lanes == [lane("stray")]
    cleanup.rounds(100)
    assert cleanup.topics.lanes == []


def test_a_task_that_becomes_known_in_the_grace_keeps_its_lane() -> None:
    cleanup = Cleanup("late")
    cleanup.rounds(90)
    cleanup.known.fates["late"] = "live"
    cleanup.rounds(400)
    assert cleanup.topics.lanes == [lane("late")]


def test_while_control_records_are_passed_over_no_topic_of_an_unknown_task_goes() -> None:
    """One of them may be its task's, and a newer version will read it."""
    cleanup = Cleanup("a", "b")
    cleanup.known.fates = {"b": "ended"}
    cleanup.known.all_read = False
    cleanup.rounds(400)
    assert cleanup.topics.lanes == [lane("a")]
    cleanup.known.all_read = True
    cleanup.rounds(100)
    assert cleanup.topics.lanes == []


def test_nothing_is_swept_while_the_view_is_being_rebuilt() -> None:
    cleanup = Cleanup("stray")
    cleanup.known.complete = False
    cleanup.rounds(500)
    assert cleanup.topics.lanes == [lane("stray")]


def test_many_lanes_are_cleared_away_at_a_pace_and_within_a_minute() -> None:
    names = [f"t{number}" for number in range(3_000)]
    cleanup = Cleanup(*names)
    cleanup.rounds(1)
    cleanup.known.ended = dict.fromkeys(names, cleanup.clock.wall_ms())
    left = [len(cleanup.topics.lanes)]
    for _ in range(60):
        cleanup.rounds(1)
        left.append(len(cleanup.topics.lanes))
    assert max(before - after for before, after in pairwise(left)) <= 200
    assert left[1] < 3_000
    assert left[-1] == 0


class Claims:
    def __init__(self) -> None:
        self.due: dict[int, list[str]] = {}
        self.close: list[Closable] = []
        self.clock = VirtualClock()
        self.lengthened: list[int] = []
        self.gone = False

    def now_ms(self) -> int:
        return self.clock.wall_ms()

    def lengthen_claims(self, step_ms: int) -> None:
        if self.gone:
            raise Unreachable("Redis is gone.")
        self.lengthened.append(step_ms)

    def due_claims(self) -> dict[int, list[str]]:
        return self.due

    def closable(self) -> list[Closable]:
        return self.close


def side(app: str) -> str:
    return f"persistent://t/shared/side.{app}~null"


class Sides:
    """Topics of a namespace, with their backlogs, and what the registry knows of them."""

    def __init__(self) -> None:
        self.backlogs: dict[str, int] = {"persistent://t/shared/low-0": 0}
        self.known: set[str] = set()
        self.attached: set[str] = set()

    def list_topics(self, namespace: str) -> list[str]:
        return list(self.backlogs)

    def backlog(self, topic: str) -> int:
        if topic not in self.backlogs:
            raise NotFound(topic)
        return self.backlogs[topic]

    def delete_topic(self, topic: str) -> bool:
        if topic not in self.attached:
            self.backlogs.pop(topic, None)
        return topic not in self.attached

    def side_lanes(self) -> frozenset[str]:
        return frozenset(self.known)

    def add_side_lane(self, topic: str) -> None:
        self.known.add(topic)

    def drop_side_lane(self, topic: str) -> None:
        self.known.discard(topic)


class SideCleanup:
    def __init__(self) -> None:
        self.sides, self.clock = Sides(), VirtualClock()
        self.cleaner = SideLaneCleaner(self.sides, self.sides, lambda: True, "t/shared", self.clock)


def test_a_side_lane_goes_once_it_stood_empty_and_nobody_is_attached() -> None:
    cleanup = SideCleanup()
    sides = cleanup.sides
    sides.backlogs |= {side("shop"): 5, side("bank"): 0}
    sides.known = {side("shop"), side("bank"), side("never-created")}
    sides.attached = {side("shop"), side("bank")}
    for _ in range(3):
        cleanup.cleaner.round()
        cleanup.clock.advance(10)
    assert sides.known == {side("shop")}
    assert side("bank") in sides.backlogs
    sides.attached = {side("shop")}
    cleanup.cleaner.round()
    assert sides.backlogs == {"persistent://t/shared/low-0": 0, side("shop"): 5}


def test_a_side_lane_that_an_empty_redis_forgot_is_known_again() -> None:
    cleanup = SideCleanup()
    cleanup.sides.backlogs[side("shop")] = 5
    cleanup.cleaner.round()
    assert cleanup.sides.known == {side("shop")}


class Ending:
    def __init__(self) -> None:
        self.claims, self.outcomes, self.clock = Claims(), OutcomeTopics(), VirtualClock()
        self.closing = Closing(self.claims, self.outcomes, lambda task: 1, self.clock)

    def records(self, partition: int) -> list[object]:
        return list(outcome_records(self.outcomes.topics[partition])) if partition in self.outcomes.topics else []


def test_ended_claims_go_into_their_partition() -> None:
    ending = Ending()
    ending.claims.due = {0: ["w.1|a"], 1: ["w.2|b", "w.3|c"], 2: []}
    ending.closing.end_claims()
    ending.closing.end_claims()
    assert ending.records(0) == [ClaimsEnded(1, ["w.1|a"])]
    assert ending.records(1) == [ClaimsEnded(1, ["w.2|b", "w.3|c"])]
    assert ending.records(2) == []


def passes(ending: Ending, seconds: float, *, step_s: float = 0.0) -> None:
    """step_s: what the ledger's clock is set forward by at the end of it."""
    ending.clock.advance(seconds)
    ending.claims.clock.advance(seconds + step_s)
    ending.closing.end_claims()


def test_a_step_of_the_ledgers_clock_ends_no_claims_and_is_added_to_their_ends() -> None:
    ending = Ending()
    ending.claims.due = {0: ["w.1|a"]}
    passes(ending, 0)
    passes(ending, 1, step_s=3_600)
    assert (ending.records(0), ending.claims.lengthened) == ([], [3_600_000])
    passes(ending, 1, step_s=1.5)
    assert (ending.records(0), ending.claims.lengthened) == ([], [3_600_000, 1_500])
    passes(ending, 1, step_s=-7_200)
    passes(ending, 1, step_s=0.9)
    assert (len(ending.records(0)), ending.claims.lengthened) == (2, [3_600_000, 1_500])


def test_a_step_that_could_not_be_made_good_at_once_is_made_good_before_any_claim_is_ended() -> None:
    ending = Ending()
    ending.claims.due = {0: ["w.1|a"]}
    passes(ending, 0)
    ending.claims.gone = True
    for step_s in (10, 0, 5):
        with pytest.raises(Unreachable):
            passes(ending, 1, step_s=step_s)
    ending.claims.gone = False
    passes(ending, 1)
    assert (ending.records(0), ending.claims.lengthened) == ([], [15_000])
    passes(ending, 1)
    assert len(ending.records(0)) == 1


def test_in_a_new_term_clocks_are_compared_from_its_first_call_on() -> None:
    """Whoever had the seat meanwhile has made good what happened."""
    ending = Ending()
    ending.claims.due = {0: ["w.1|a"]}
    passes(ending, 0)
    ending.closing.begin()
    passes(ending, 60, step_s=3_600)
    assert (ending.records(0), ending.claims.lengthened) == ([], [])
    passes(ending, 1)
    assert (len(ending.records(0)), ending.claims.lengthened) == (1, [])


def test_a_closable_task_is_closed_and_not_at_every_round() -> None:
    ending = Ending()
    ending.claims.close = [Closable("a", int(Outcome.CANCELLED), "why")]
    for _ in range(4):
        ending.closing.close_tasks()
        ending.clock.advance(1)
    assert ending.records(1) == [CloseTask(1, "a", int(Outcome.CANCELLED), ending.records(1)[0].at_ms, "why")]
    ending.clock.advance(10)
    ending.closing.close_tasks()
    assert len(ending.records(1)) == 2


def test_an_outcome_topic_that_takes_nothing_holds_up_no_other() -> None:
    """Its broker may be away; each try may take ten seconds."""
    ending = Ending()
    ending.closing.end_claims()  # the first of a term only compares clocks
    ending.outcomes.topics = {0: Topic(broken=True), 1: Topic()}
    ending.claims.due = {0: ["w.1|a"], 1: ["w.2|b"]}
    with pytest.raises(Unreachable):
        ending.closing.end_claims()
    assert ending.records(1) == [ClaimsEnded(1, ["w.2|b"])]
    closing = Closing(ending.claims, ending.outcomes, lambda task: int(task[1:]) % 2, ending.clock)
    ending.claims.close = [Closable(f"t{number}", int(Outcome.CANCELLED)) for number in range(4)]
    with pytest.raises(Unreachable):
        closing.close_tasks()
    assert [record.task for record in ending.records(1)[1:]] == ["t1", "t3"]


# ---------------------------------------------------------------- chores
def refuse(error: FairlaneError) -> None:
    raise error


@pytest.mark.parametrize("error", [Unreachable("Redis is gone."), Refused("No rights.", "Give them.")])
def test_a_chore_that_cannot_be_done_keeps_no_other_from_being_done(error: FairlaneError) -> None:
    done: list[str] = []
    chores = [Chore(partial(refuse, error)), Chore(partial(done.append, "other"))]
    Housekeeper(chores, lambda: True, VirtualClock()).round()
    assert done == ["other"]


def test_what_nobody_has_foreseen_ends_no_housekeeper_and_is_done_again(caplog: pytest.LogCaptureFixture) -> None:
    """What is stored wrong would end one worker after the other."""
    clock, done = VirtualClock(), list[str]()

    def nonsense() -> None:
        done.append("nonsense")
        int("a number")

    keeper = Housekeeper([Chore(nonsense), Chore(partial(done.append, "other"))], lambda: True, clock)
    for _ in range(round(LONGEST_REST_S) + 1):
        keeper.round()
        clock.advance(1)
    assert done.count("nonsense") == 2
    assert done.count("other") == LONGEST_REST_S + 1
    assert caplog.text.count("This is a defect") == 2


def test_a_chore_is_done_as_often_as_it_says() -> None:
    clock, often, rarely = VirtualClock(), list[int](), list[int]()
    keeper = Housekeeper(
        [Chore(partial(often.append, 1)), Chore(partial(rarely.append, 1), every_s=600)], lambda: True, clock
    )
    for _ in range(4):
        keeper.round()
        clock.advance(300)
    assert (len(often), len(rarely)) == (4, 2)


def test_a_chore_that_takes_long_is_done_less_often_but_not_rarely() -> None:
    clock, done = VirtualClock(), list[float]()

    def look(took_s: float) -> None:
        done.append(clock.monotonic_s())
        clock.advance(took_s)

    for took_s, wanted in ((0.01, 1.0), (0.1, 5.0), (3.0, LONGEST_REST_S)):
        done.clear()
        keeper = Housekeeper([Chore(partial(look, took_s), rest=50)], lambda: True, clock)
        while len(done) < 2:
            keeper.round()
            clock.advance(1.0)
        assert wanted <= done[1] - done[0] <= wanted + 2.0


def test_a_term_begins_anew_and_nothing_is_done_without_the_seat() -> None:
    steps: list[str] = []
    seat, over = iter([False, True, True, False, False, True]), threading.Event()

    def held() -> bool:
        answer = next(seat, None)
        if answer is None:
            over.set()
        return bool(answer)

    chore = Chore(partial(steps.append, "done"), begin=partial(steps.append, "begun"))
    with running(Housekeeper([chore], held, VirtualClock(), period_s=0.001).run):
        assert over.wait(10)
    assert steps == ["begun", "done", "done", "begun", "done"]


# ---------------------------------------------------------------- ends of tasks
def view(task: str = "a", sealed: bool = True, finished_ms: int = 0, **counts: int) -> TaskView:
    targets = TargetCounts(total=sum(counts.values()), **counts)
    return TaskView(
        task, "app", "high", "null", "running", sealed, 1.0, 0, targets, 0.0, None, 0, lane(task), False, 100, 0,
        0, 0, 0, 0, finished_ms,
    )  # fmt: skip


class Table:
    def __init__(self, view: TaskView | None) -> None:
        self.view = view
        self.applied: list[ControlRecord] = []
        self.gone = 0

    def tasks_by_id(self, tasks: Sequence[str]) -> list[TaskView]:
        if self.gone:
            self.gone -= 1
            raise Unreachable("Redis is gone.")
        return [msgspec.structs.replace(self.view, id=task) for task in tasks] if self.view else []

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> list[str]:
        self.applied += [record for _, record in records]
        return []


def test_a_complete_task_gets_its_tombstone_in_the_control_topic_and_the_view() -> None:
    table, control = Table(view(sent=3, invalid=1)), ControlTopic()
    assert Finisher(table, lambda: True, control, VirtualClock()).finish(["a"]) == ["a"]
    expected = Finished(1, "a", "completed", [3, 1, 0, 0, 0], VirtualClock().wall_ms())
    assert control_records(control) == [expected]
    assert table.applied == [expected]


@pytest.mark.parametrize(
    "open_view", [view(sent=1, pending=1), view(sealed=False, sent=1), view(sent=1, finished_ms=5), None]
)
def test_an_incomplete_ended_or_unknown_task_gets_none(open_view: TaskView | None) -> None:
    control = ControlTopic()
    assert not Finisher(Table(open_view), lambda: True, control, VirtualClock()).finish(["a"])
    assert control.records == []


def test_nothing_is_ended_while_the_view_is_being_rebuilt() -> None:
    control = ControlTopic()
    assert not Finisher(Table(view(sent=1)), lambda: False, control, VirtualClock()).finish(["a"])
    assert control.records == []


def test_ending_is_tried_again_when_a_server_was_gone() -> None:
    table, control = Table(view(sent=1)), ControlTopic()
    table.gone = 2
    finisher = Finisher(table, lambda: True, control, VirtualClock(), retry_s=0.001)
    with running(finisher.run):
        finisher.take(["a"])
        eventually(lambda: len(control.records) == 1)


def test_a_task_that_cannot_be_ended_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    class Poisoned(Table):
        def tasks_by_id(self, tasks: Sequence[str]) -> list[TaskView]:
            if "b" in tasks:
                raise ValueError("invalid literal for int(): 'x'")
            return super().tasks_by_id(tasks)

    control = ControlTopic()
    finisher = Finisher(Poisoned(view(sent=1)), lambda: True, control, VirtualClock(), retry_s=0.001)
    finisher.take(["a", "b", "c"])
    with running(finisher.run):
        eventually(lambda: len(control.records) == 2)
    assert "Task b has an outcome for every target and cannot be ended" in caplog.text


def test_tasks_that_end_together_are_ended_together() -> None:
    table, control = Table(view(sent=1)), ControlTopic()
    finisher = Finisher(table, lambda: True, control, VirtualClock(), retry_s=0.001)
    names = [f"t{number}" for number in range(250)]
    finisher.take(names)
    with running(finisher.run):
        eventually(lambda: len(control.records) == 250)
    assert sorted(record.task for record in table.applied if isinstance(record, Finished)) == sorted(names)
    assert control.calls <= 4
