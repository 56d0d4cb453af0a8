"""A submission that is refused, or whose servers go away: what is left of it, and what its caller is told."""

from pathlib import Path

import pytest

from dispatcher.model.errors import FairlaneError, InvalidInput, LimitReached, NotReady, Unreachable
from dispatcher.model.view import Admission
from dispatcher.wire.control import Sealed, TaskRecord
from producers.files.targets_file import TargetsFile
from producers.ports import WindowPace
from tests.unit.dispatch.producers.fake_service import FakeService, slabs
from tests.unit.dispatch.producers.test_submit import push, run, sent


def test_without_redis_a_new_task_is_not_accepted(world: FakeService) -> None:
    """Whether its app may have one more is not known then."""
    world.redis.gone = True
    with pytest.raises(Unreachable):
        run(world, push(id=None), ["a"])
    assert (world.records, world.lanes) == ([], {})


@pytest.mark.parametrize(
    ("admission", "error", "message"),
    [
        (Admission("tasks", 3, 3), LimitReached, "limit of 3 tasks: it has 3 live tasks"),
        (Admission("targets", 1_000, 998), LimitReached, "998 queued targets and 4 more"),
        (Admission("view"), NotReady, "being rebuilt"),
    ],
)
def test_a_task_over_a_limit_of_its_app_creates_nothing(
    admission: Admission, error: type[FairlaneError], message: str
) -> None:
    world = FakeService(admission=admission)
    with pytest.raises(error, match=message) as refused:
        run(world, push(), ["a", "b", "c", "d"])
    assert refused.value.retryable
    assert (world.records, world.lanes) == ([], {})


def test_a_known_task_goes_on_whatever_the_limits_of_its_app(world: FakeService) -> None:
    run(world, push(), ["a"])
    world.admission = Admission("tasks", 1, 1)
    assert run(world, push(), ["a"]).accepted == 1


def test_when_redis_goes_away_a_new_task_is_stored_and_the_caller_told_to_go_on(world: FakeService) -> None:
    world.fail_at("append TaskRecord", lose_redis=True)
    with pytest.raises(Unreachable, match=r"is stored.*id='made-1' again"):
        run(world, push(id=None), ["a"])
    assert [type(record) for record in world.records] == [TaskRecord]
    assert all(not bodies for bodies in world.lanes.values())
    world.recover()
    assert run(world, push(id="made-1"), ["a"]).accepted == 1


def test_redis_may_go_away_while_targets_are_streamed(world: FakeService) -> None:
    world.fail_at("send", lose_redis=True)
    audience = [f"t{number}" for number in range(40)]
    with pytest.raises(Unreachable, match="complete and stored"):
        run(world, push(), slabs(audience, 4), windows=WindowPace())
    assert [record.targets for record in world.records_of(Sealed)] == [40]
    assert sent(world) == audience


def test_without_redis_nothing_is_published_beyond_what_was_announced_with_it(world: FakeService) -> None:
    """Whether somebody has taken the submission over cannot be asked then."""
    world.fail_at("send", lose_redis=True)
    audience = [f"t{number}" for number in range(40)]
    with pytest.raises(Unreachable, match="Submit the same"):
        run(world, push(), slabs(audience, 4))
    assert sent(world) == audience[:4]
    world.recover()
    assert run(world, push(), audience).accepted == 40
    assert set(sent(world)) == set(audience)


def test_a_failure_of_pulsar_is_told_with_how_to_go_on(world: FakeService) -> None:
    world.fail_at("flush", Unreachable("Pulsar is away.", "Look."))
    with pytest.raises(Unreachable, match=r"Pulsar is away.*id='t' again"):
        run(world, push(), ["a"])


def test_an_audience_that_cannot_be_read_leaves_no_task_behind(world: FakeService, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    for name in ("a.csv", "missing.csv"):
        with pytest.raises(InvalidInput, match=name):
            run(world, push(), TargetsFile(tmp_path / name))
    assert world.steps == []


def test_when_both_servers_go_away_what_stopped_the_submission_is_told(world: FakeService) -> None:
    """Whether the task was stopped meanwhile cannot be asked then."""
    world.fail_at("flush", Unreachable("The lane is gone."), lose_redis=True)
    with pytest.raises(Unreachable, match="The lane is gone"):
        run(world, push(id=None), ["a"])
