"""While the view is being made, what is known of a submission is read from the control topic."""

from unittest.mock import Mock

import pytest
from msgspec import structs

from backends.redis.registry.tasks import TaskTable
from dispatcher.model.errors import TaskEnded, Unreachable
from dispatcher.wire.control import TaskRecord, encode_control
from producers.submit.report import Watchers
from producers.submit.submit import submit
from tests.contract.registry_records import change, position
from tests.records import edit_text
from tests.unit.dispatch.producers.fake_service import FakeService
from tests.unit.dispatch.producers.submitters import TASK

AUDIENCE = ["a", "b", "c"]


def submitted() -> FakeService:
    world = FakeService()
    submit(world.services(), TASK, AUDIENCE, Watchers())
    world.steps.clear()
    return world


@pytest.mark.parametrize("forgets", [True, False], ids=["restated-only", "restated-too"])
def test_what_is_restated_is_known(forgets: bool) -> None:
    world = submitted()
    world.log = world.restated() if forgets else [*world.log, *world.restated()]
    assert submit(world.services(), TASK, AUDIENCE, Watchers()).accepted == 3
    assert world.steps == []


def test_a_cancel_is_known_where_it_is_restated() -> None:
    world = submitted()
    world.cancel("t")
    world.log = world.restated()[:-2] + world.restated()[-1:]  # its seal was never stored
    with pytest.raises(TaskEnded, match="cancelled"):
        submit(world.services(), TASK, AUDIENCE, Watchers())


def test_an_edit_that_is_restated_is_no_further_edit() -> None:
    world = submitted()
    world.log.append(encode_control(change("t", "override", edit_text(1, {"body": "x"}))))
    world.log += world.restated()
    known = world.services().known.submission("t")
    assert known is not None
    assert known.edits == 1


def test_a_record_that_was_applied_late_dispositions_one_that_came_after_it() -> None:
    world = submitted()
    (record,) = world.records_of(TaskRecord)
    world.view.wipe()
    world.complete_view()
    world.registry.control.apply(position(9), structs.replace(record, submitter="other"))
    known = world.services().known.submission_at("t", position(0))
    assert (known.position, known.record) == (position(0), record)


def test_without_redis_a_stopped_task_counts_what_its_checkpoint_says(monkeypatch: pytest.MonkeyPatch) -> None:
    services = submitted().services()
    known = services.known.submission("t")
    assert known is not None
    assert services.known.counted(known) == 3
    monkeypatch.setattr(TaskTable, "task", Mock(side_effect=Unreachable("Redis is away.")))
    assert services.known.counted(known) == known.published == 3
