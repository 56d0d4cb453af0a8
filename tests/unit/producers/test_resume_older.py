"""A submission that version 0.2 began is completed by this one, target by target as 0.2 would have done it."""

import base64

import pytest

from dispatcher.model.errors import AudienceMismatch, NotReady
from dispatcher.model.task import PushTask
from dispatcher.wire.control import TaskRecord, decode_control
from producers.ports import WindowPace
from producers.submit.intake import AudienceRules
from producers.submit.report import SubmitResult, Watchers
from producers.submit.submit import submit
from tests.unit.producers.fake_service import LANE, FakeService, slabs

AUDIENCE = [
    *(("ab" if number % 3 else "AB") * 31 + f"{number:02X}" for number in range(10, 26)),
    *(" " + "cd" * 32, "AB" * 31 + "0A", "ab" * 31 + "0b"),
]
"""Tokens in both spellings, one with a space, and two that are there before in another spelling."""
TASK = PushTask(id="t", app="shop", tier="high", channel="apns", message="Hi", chunk=2)
LOG = [
    (
        "3AAboXQBoXSkc2hvcKRoaWdopGFwbnOBpGJvZHmiSGnZIHBlcnNpc3RlbnQ6Ly9mYWlybGFuZS90YXNrcy0wNi90wgL/zQPoAAAAwgjPAAABi8/"
        "laADZIDA4MDY0NWQ0NmIwNWQ1ODI2NDE0ZWVmZjAyYTE1YzU3AACwMGM4ZTZlYTUwZTNkY2Q4MgTZQGQ0ZDZiZTg5NjBiOWQyNmY1MjFjOGUwND"
        "cwNTI4NTUxM2FjYjEyMDkzMDMwYjAzZGU4ODBkOWI2ODYxM2Y4NjIAwgA="
    ),
    "maFrAaF0oTACBAAE2UBkNGQ2YmU4OTYwYjlkMjZmNTIxYzhlMDQ3MDUyODU1MTNhY2IxMjA5MzAzMGIwM2RlODgwZDliNjg2MTNmODYy",
    (
        "mKFhAaF0sDBjOGU2ZWE1MGUzZGNkODIEDADZQDRjNmZiNTk0NTdlMmE1NTc0NjkzODJmZWJhNDhlZGZmNGEyNDRhMWUxMDZiYWIwZGE1ZGVjMzk4"
        "OTZmMjRiN2Y="
    ),
]
"""The control topic as 0.2 left it: the task, a checkpoint of its first four targets, and the announcement of eight
more that are not published yet."""


def begun_by_0_2() -> FakeService:
    world = FakeService(ready=True)
    world.log = [base64.b64decode(text) for text in LOG]
    world.lanes[LANE] = []
    world.fold()
    world.clock.advance(3_600)  # its submitter's lease is over
    return world


def resume(world: FakeService, audience: list[str] = AUDIENCE, rules: AudienceRules = AudienceRules()) -> SubmitResult:
    services = world.services(windows=WindowPace(first_targets=4, targets=8))
    return submit(services, TASK, slabs(audience, 2), Watchers(), rules)


def test_what_0_2_began_goes_on_with_its_targets_as_they_were_given() -> None:
    world = begun_by_0_2()
    result = resume(world)
    assert (result.accepted, result.refused) == (18, 1)
    assert [target for one in world.envelopes(LANE) for target in one.targets] == [*AUDIENCE[4:16], *AUDIENCE[17:]]
    assert resume(world).accepted == 18  # verified by the digest of its seal


def test_what_0_2_began_is_not_completed_with_other_spellings() -> None:
    with pytest.raises(AudienceMismatch):
        resume(begun_by_0_2(), [target.lower() for target in AUDIENCE])


def test_a_new_task_has_the_canonical_form_and_says_so() -> None:
    world = FakeService(ready=True)
    result = resume(world, rules=AudienceRules(duplicates="remove"))
    assert (result.accepted, result.refused, result.duplicates) == (17, 0, 2)
    assert [target for one in world.envelopes(LANE) for target in one.targets] == [
        target.strip().lower() for target in AUDIENCE[:17]
    ]
    assert world.records_of(TaskRecord)[0].canonical
    assert resume(world, rules=AudienceRules(duplicates="remove")).accepted == 17
    spelled = [target.strip().upper() for target in AUDIENCE]
    assert resume(world, spelled, AudienceRules(duplicates="remove")).accepted == 17


def test_a_task_that_0_2_begins_meanwhile_is_submitted_again() -> None:
    world = FakeService(ready=True)
    record = decode_control(base64.b64decode(LOG[0]))
    assert isinstance(record, TaskRecord)

    def arrives(step: str) -> None:
        if step == "take":
            world.fault = lambda _: None
            world.log.append(base64.b64decode(LOG[0]))
            world.fold()

    world.fault = arrives
    with pytest.raises(NotReady, match="another version"):
        resume(world)
    world.clock.advance(3_600)
    assert resume(world).accepted == 18
