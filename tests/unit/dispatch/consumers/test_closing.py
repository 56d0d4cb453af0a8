"""Claims past their end are ended and closable tasks closed, each in its outcome topic."""

from typing import Any

import pytest

from consumers.upkeep.closing import Closing
from dispatcher.model.errors import Unreachable
from dispatcher.wire.lease import Closable
from dispatcher.wire.outcome import ClaimsEnded, CloseTask, Outcome
from dispatcher.wire.topics import Topics
from quotas.ledger import MAX_CLAIMS, RedisLedger
from tests.unit.dispatch.consumers.fakes import OutcomeTopics, Topic, outcome_records
from tests.unit.views import view_of
from tests.virtual_clock import VirtualClock


class Claims(RedisLedger):
    """A ledger of whose claims and tasks a test says what is due."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        super().__init__(view_of(self.clock), Topics(outcome_partitions=1))
        self.due: dict[int, list[str]] = {}
        self.close: list[Closable] = []
        self.lengthened: list[int] = []
        self.gone = False

    def lengthen_claims(self, step_ms: int) -> None:
        if self.gone:
            raise Unreachable("Redis is gone.")
        self.lengthened.append(step_ms)

    def due_claims(self, limit: int = MAX_CLAIMS) -> dict[int, list[str]]:
        return self.due

    def closable(self) -> list[Closable]:
        return self.close


class Ending:
    def __init__(self) -> None:
        self.claims, self.outcomes, self.clock = Claims(), OutcomeTopics(), VirtualClock()
        self.ended: list[str] = []
        self.closing = Closing(self.claims, self.outcomes, lambda task: 1, self.clock, self.ended.extend)

    def records(self, partition: int) -> list[Any]:
        return list(outcome_records(self.outcomes.topics[partition])) if partition in self.outcomes.topics else []


@pytest.fixture
def ending() -> Ending:
    return Ending()


def test_ended_claims_go_into_their_partition(ending: Ending) -> None:
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


def test_a_step_of_the_ledgers_clock_ends_no_claims_and_is_added_to_their_ends(ending: Ending) -> None:
    ending.claims.due = {0: ["w.1|a"]}
    passes(ending, 0)
    passes(ending, 1, step_s=3_600)
    assert (ending.records(0), ending.claims.lengthened) == ([], [3_600_000])
    passes(ending, 1, step_s=1.5)
    assert (ending.records(0), ending.claims.lengthened) == ([], [3_600_000, 1_500])
    passes(ending, 1, step_s=-7_200)
    passes(ending, 1, step_s=0.9)
    assert (len(ending.records(0)), ending.claims.lengthened) == (2, [3_600_000, 1_500])


def test_a_step_that_could_not_be_made_good_at_once_is_made_good_before_any_claim_is_ended(ending: Ending) -> None:
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


def test_in_a_new_term_clocks_are_compared_from_its_first_call_on(ending: Ending) -> None:
    """The worker that held the job lock meanwhile has corrected for clock steps."""
    ending.claims.due = {0: ["w.1|a"]}
    passes(ending, 0)
    ending.closing.begin()
    passes(ending, 60, step_s=3_600)
    assert (ending.records(0), ending.claims.lengthened) == ([], [])
    passes(ending, 1)
    assert (len(ending.records(0)), ending.claims.lengthened) == (1, [])


def test_a_closable_task_is_closed_and_not_at_every_round(ending: Ending) -> None:
    ending.claims.close = [Closable("a", int(Outcome.CANCELLED), "why")]
    for _ in range(4):
        ending.closing.close_tasks()
        ending.clock.advance(1)
    assert ending.records(1) == [CloseTask(1, "a", int(Outcome.CANCELLED), ending.records(1)[0].at_ms, "why")]
    ending.clock.advance(10)
    ending.closing.close_tasks()
    assert len(ending.records(1)) == 2


def test_an_outcome_topic_that_takes_nothing_holds_up_no_other(ending: Ending) -> None:
    """Its broker may be away; each try may take ten seconds."""
    ending.closing.end_claims()  # the first of a term only compares clocks
    ending.outcomes.topics = {0: Topic(broken=True), 1: Topic()}
    ending.claims.due = {0: ["w.1|a"], 1: ["w.2|b"]}
    with pytest.raises(Unreachable):
        ending.closing.end_claims()
    assert ending.records(1) == [ClaimsEnded(1, ["w.2|b"])]
    closing = Closing(ending.claims, ending.outcomes, lambda task: int(task[1:]) % 2, ending.clock, ending.ended.extend)
    ending.claims.close = [Closable(f"t{number}", int(Outcome.CANCELLED)) for number in range(4)]
    with pytest.raises(Unreachable):
        closing.close_tasks()
    assert [record.task for record in ending.records(1)[1:]] == ["t1", "t3"]


def test_a_task_that_an_operator_closed_waits_for_claims_and_for_its_topic_so_long_and_no_longer(
    ending: Ending,
) -> None:
    ending.claims.close = [Closable("a", int(Outcome.CANCELLED), "lost", closed=True, waits=True)]
    ending.outcomes.topics = {1: Topic()}
    states: dict[int, tuple[int, bool]] = {}
    for second in range(40):
        ending.closing.close_tasks()
        states[second] = len(ending.records(1)), bool(ending.ended)
        ending.clock.advance(1)
    assert (states[14], states[15], states[29], states[30]) == ((0, False), (1, False), (3, False), (4, True))
    ending.outcomes.topics = {1: Topic(broken=True)}
    ending.ended.clear()
    with pytest.raises(Unreachable):
        ending.closing.close_tasks()
    assert ending.ended == ["a"]
