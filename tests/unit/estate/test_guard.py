"""The guard: one of several acts, what it did is known to the next, and it says what it does not do."""

import logging

import pytest

from dispatcher.model.errors import InvalidInput, Refused, Unreachable
from estate.rules.node_life import Intent
from tests.unit.estate.guarded_world import EstateInMemory, GuardedWorld, Killed

SLOW = "bookie/b2:1"


@pytest.fixture
def world() -> GuardedWorld:
    return GuardedWorld()


def messages(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [message for message in caplog.messages if part in message]


def test_a_slow_bookie_is_named_captured_isolated_and_put_back(
    world: GuardedWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.member("g1")
    world.go_on(3)
    world.estate.slow("b2:1")
    world.go_on(4)
    assert world.estate.given == ["isolate b2:1"]
    assert world.estate.captured == [("guard: bookie b2:1 is slow", "b2:1")]
    assert world.state(SLOW) == "isolated"
    world.go_on(10)
    assert world.state(SLOW) == "isolated", "its probes are not well yet"
    world.estate.recover()
    world.go_on(7)
    assert world.estate.given == ["isolate b2:1", "release b2:1"]
    assert world.state(SLOW) == "serving"
    assert world.node(SLOW).probation_ms > 0
    assert messages(caplog, "bookie b2:1 is suspect, was serving")
    assert len(messages(caplog, "to make read-only bookie b2:1: its p99 is 400 ms")) == 1


def test_a_guard_that_does_not_act_says_once_what_it_would_do(
    world: GuardedWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.member("g1", acts=False)
    world.estate.bookie_ms["b2:1"] = 400.0
    world.go_on(20)
    assert world.estate.given == []
    assert (world.state(SLOW), world.node(SLOW).intent) == ("suspect", Intent.NONE)
    assert messages(caplog, "would") == ["would make read-only bookie b2:1; --act is not given"]


def test_of_two_guards_one_acts_and_the_other_follows_it_within_four_and_a_half_seconds(world: GuardedWorld) -> None:
    first, second = world.member("g1"), world.member("g2")
    world.estate.slow("b2:1")
    world.go_on(6)
    assert (first.guard.elected, second.guard.elected) == (True, False)
    assert second.guard.nodes == {}
    assert world.estate.given == ["isolate b2:1"]
    first.alive = False
    world.go_on(4.5)
    assert second.guard.elected
    assert world.state(SLOW) == "isolated"
    world.estate.recover()
    world.go_on(8)
    assert world.estate.given == ["isolate b2:1", "release b2:1"]


@pytest.mark.parametrize(("moment", "commands"), [("before", 2), ("after", 1)])
def test_a_guard_killed_in_the_middle_of_an_action_is_followed_by_one_that_ends_it(
    world: GuardedWorld, moment: str, commands: int
) -> None:
    first, second = world.member("g1"), world.member("g2")
    world.estate.slow("b2:1")
    setattr(world.estate, moment, Killed())
    world.go_on(6)
    assert not first.alive
    assert world.node(SLOW).intent is Intent.ISOLATE, "what was begun is stored before it is begun"
    world.go_on(12)
    assert second.guard.elected
    assert world.state(SLOW) == "isolated"
    assert world.node(SLOW).intent is Intent.NONE
    assert world.estate.given == ["isolate b2:1"] * commands
    world.estate.recover()
    world.go_on(8)
    assert world.state(SLOW) == "serving"
    assert not world.estate.read_only


def test_an_action_whose_end_is_not_known_is_settled_by_what_the_next_look_shows(world: GuardedWorld) -> None:
    world.member("g1")
    world.estate.slow("b2:1")
    world.estate.after = Unreachable("no answer within 5 s.")
    world.go_on(10)
    assert world.estate.given == ["isolate b2:1"]
    assert world.state(SLOW) == "isolated"
    world.estate.recover()
    world.estate.after = Unreachable("no answer within 5 s.")
    world.go_on(10)
    assert world.state(SLOW) == "serving"
    assert world.estate.given == ["isolate b2:1", "release b2:1"]


def test_an_action_that_is_refused_is_said_once_and_tried_again(
    world: GuardedWorld, caplog: pytest.LogCaptureFixture
) -> None:
    member = world.member("g1")
    world.estate.bookie_ms["b2:1"] = 400.0
    world.estate.before = Refused("answered 500.")
    world.go_on(4)
    world.estate.before = Refused("answered 500.")
    world.go_on(1)
    assert world.estate.given == ["isolate b2:1"] * 2
    assert len(messages(caplog, "could not make read-only bookie b2:1: answered 500.")) == 1
    assert len(messages(caplog, "to make read-only bookie b2:1")) == 1
    world.go_on(1)
    assert world.state(SLOW) == "isolated"
    assert {result: count for (*_, result), count in member.guard.ended.items()} == {"refused": 2, "done": 1}


def test_a_guard_that_lost_the_election_while_it_looked_stores_nothing_and_acts_on_nothing(
    world: GuardedWorld,
) -> None:
    first, second = world.member("g1"), world.member("g2")
    world.estate.bookie_ms["b2:1"] = 400.0
    world.go_on(3)
    assert (first.guard.elected, second.guard.elected) == (True, False)

    def stand_still() -> None:
        first.alive = False
        world.go_on(5)

    world.during_look["g1"] = stand_still
    first.guard.step()
    assert (first.guard.elected, second.guard.elected) == (False, True)
    assert first.guard.nodes == {}
    assert world.estate.given == ["isolate b2:1"], "only the second one acted"


def test_states_are_stored_again_after_redis_was_emptied(world: GuardedWorld) -> None:
    world.member("g1")
    world.estate.slow("b2:1")
    world.go_on(6)
    world.view.wipe()
    world.go_on(3)
    assert world.state(SLOW) == "isolated"
    world.estate.recover()
    world.go_on(8)
    assert world.state(SLOW) == "serving"


def test_nothing_is_done_while_redis_is_gone(world: GuardedWorld) -> None:
    world.member("g1")
    world.go_on(2)
    world.redis.gone = True
    world.estate.bookie_ms["b2:1"] = 400.0
    world.go_on(20)
    assert world.estate.given == []
    world.redis.gone = False
    world.go_on(6)
    assert world.estate.given == ["isolate b2:1"]


def test_nodes_that_cannot_be_listed_stay_as_they_are(world: GuardedWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.member("g1")
    world.estate.slow("b2:1")
    world.go_on(6)
    world.estate.unread = {"brokers": "no answer in time", "bookies": "no answer in time"}
    world.estate.bookies = world.estate.brokers = 0
    world.go_on(6)
    assert world.state(SLOW) == "isolated"
    assert world.state("broker/k1:1") == "serving"
    assert messages(caplog, "bookies could not be listed: no answer in time")


def test_without_an_address_of_bookies_slow_ones_are_named_and_none_is_isolated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = GuardedWorld(EstateInMemory(asked_bookies=False))
    world.member("g1")
    world.estate.bookie_ms["b2:1"] = 400.0
    world.go_on(6)
    assert world.state(SLOW) == "suspect"
    assert world.estate.given == []
    assert len(messages(caplog, "stays in use: estate.bookie_http is not set")) == 1


@pytest.mark.parametrize(("limited", "reports"), [("false", 0), ("true", 1)])
def test_missing_figures_of_bookies_are_reported_if_a_setting_of_the_brokers_is_the_cause(
    limited: str, reports: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Without traffic there are none either."""
    settings = {"bookkeeperClientExposeStatsToPrometheus": "true", "bookkeeperClientLimitStatsLogging": limited}
    world = GuardedWorld(EstateInMemory(figures={}, settings=settings))
    world.member("g1")
    world.go_on(6)
    assert len(messages(caplog, "no broker has figures of single bookies; they need bookkeeperClientExpose")) == reports


def test_a_bookie_that_somebody_made_read_only_is_left_to_them(world: GuardedWorld) -> None:
    world.member("g1")
    world.go_on(3)
    world.estate.read_only.add("b2:1")
    world.go_on(20)
    assert world.estate.given == []
    assert (world.state(SLOW), world.node(SLOW).by_guard) == ("isolated", False)
    world.estate.read_only.clear()
    world.go_on(2)
    assert world.state(SLOW) == "serving"


def test_a_slow_broker_is_drained_again_if_pulsar_gives_it_bundles_and_released_when_it_is_well(
    world: GuardedWorld,
) -> None:
    world.member("g1")
    world.estate.probe_ms["k3:1"] = 700.0
    world.go_on(5)
    assert world.estate.given == ["isolate k3:1"]
    assert world.state("broker/k3:1") == "isolated"
    world.estate.drained.clear()
    world.go_on(2)
    assert world.estate.given == ["isolate k3:1"] * 2
    world.estate.probe_ms.clear()
    world.go_on(7)
    assert world.estate.given[-1] == "release k3:1"
    assert world.state("broker/k3:1") == "serving"


def test_a_drain_that_was_not_finished_is_finished_by_the_next_guard(world: GuardedWorld) -> None:
    world.member("g1")
    world.member("g2")
    world.estate.probe_ms["k3:1"] = 700.0
    world.estate.before = Killed()
    world.go_on(4)
    assert world.state("broker/k3:1") == "draining"
    world.estate.probe_ms.clear()
    world.go_on(6)
    assert world.estate.given[:2] == ["isolate k3:1"] * 2
    assert world.state("broker/k3:1") == "isolated"


def test_states_of_a_later_version_are_refused(world: GuardedWorld) -> None:
    world.view.command("SET", world.view.keys.guarded, b'{"format":9,"nodes":[]}')
    world.member("g1")
    with pytest.raises(InvalidInput, match="format 9"):
        world.go_on(1)


@pytest.fixture(autouse=True)
def every_message(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
