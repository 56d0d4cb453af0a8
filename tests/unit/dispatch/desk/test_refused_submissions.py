"""Submissions that fail at the desk: their client reads the ids that it knows, and no commands that it has not."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dispatcher.access.principal import Scope
from dispatcher.model.errors import AudienceMismatch, BeingSubmitted, FairlaneError, NotReady, TaskEnded, Unreachable
from dispatcher.wire.control import TaskRecord
from tests.unit.dispatch.desk.desk_world import EVERYTHING, DeskWorld, new_task
from tests.unit.dispatch.producers.fake_service import MAKES, Make, breaking

TARGETS = ("a", "b", "c", "d", "e", "f", "g")
GIVEN = [{"id": "sale"}, {"id": None}]


def submit(
    world: DeskWorld, targets: Sequence[object] = TARGETS, make: Make = list, scopes: Any = EVERYTHING, **fields: Any
) -> str:
    """Return its id."""
    return world.desks(scopes=scopes).tasks.submit(new_task(**fields), make(targets)).result.task  # type: ignore[arg-type]


def refused(world: DeskWorld, *given: Any, **fields: Any) -> Exception:
    error = failure_of(lambda: submit(world, *given, **fields))
    assert error is not None
    return error


def failure_of(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:  # an upload breaks off with errors of the server
        return error
    return None


def check_fit_for_client(error: Exception) -> None:
    texts = [error.cause, error.next_step] if isinstance(error, FairlaneError) else getattr(error, "__notes__", [])
    for sentence in re.split(r"(?<=\.) ", " ".join(texts)):
        assert "shop--" not in sentence
        assert "fairlane " not in sentence or "perator" in sentence, sentence
        assert not re.search(r"://|[a-z]:\d", sentence), "addresses and processes stay inside"


def stopped(world: DeskWorld) -> None:
    """Leave a task without its seal."""
    world.service.fail_at("append Sealed", Unreachable("Pulsar is gone."))
    check_fit_for_client(refused(world))
    world.service.recover()


def hold(world: DeskWorld) -> None:
    """Another submitter has the task, for 5 s from now on."""
    now_ms, lease = world.service.clock.wall_ms(), world.service.view.keys.submitting("shop--sale")
    world.service.view.command(
        "HSET", lease, "id", "other", "who", "host:42", "since_ms", now_ms, "until_ms", now_ms + 5_000
    )


# ------------------------------------------------------------------ refusals
def ended(world: DeskWorld) -> Exception:
    stopped(world)
    world.desks().tasks.cancel("sale", 0.0)
    return refused(world)


def held(world: DeskWorld) -> Exception:
    def wait(_: float) -> None:
        world.service.clock.advance(1)
        hold(world)

    stopped(world)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("producers.submit.lease.time.sleep", wait)
        hold(world)
        return refused(world)


def taken_over(world: DeskWorld) -> Exception:
    world.service.fault = lambda step: hold(world) if step == "create" else None
    return refused(world)


def limited(world: DeskWorld) -> Exception:
    world.client.limit_app("shop", targets=3)
    return refused(world)


def unlimited(world: DeskWorld) -> Exception:
    """The view that has the limit is being rebuilt."""
    world.client.limit_app("shop", targets=3)
    world.service.view.command("HSET", world.service.view.keys.epoch, "ready", 0)
    return refused(world)


def unknown_to_the_book(world: DeskWorld) -> Exception:
    world.service.clock.advance(6)
    return refused(world)


def other_audience(world: DeskWorld, make: Make) -> Exception:
    submit(world)
    return refused(world, TARGETS[:-1], make)


REFUSALS: dict[str, Callable[[DeskWorld], Exception]] = {
    "empty": lambda world: refused(world, []),
    "nothing accepted": lambda world: refused(world, [" ", ""]),
    "nothing accepted of an upload": lambda world: refused(world, [" ", ""], MAKES["file"]),
    "wrong field": lambda world: refused(world, tier="urgent"),
    "wrong message": lambda world: refused(world, message="x" * 20_000),
    "wrong id": lambda world: refused(world, id="a b"),
    "no scope": lambda world: refused(world, scopes={Scope.READ}),
    "beyond the policy": lambda world: refused(world, channel="http"),
    "late start": lambda world: refused(world, start_at="2001-01-01T00:00:00Z"),
    "another task": lambda world: (submit(world), refused(world, message="Other"))[1],
    "another audience": lambda world: other_audience(world, list),
    "another audience of an upload": lambda world: other_audience(world, MAKES["file"]),
    "ended": ended,
    "held": held,
    "taken over": taken_over,
    "limited": limited,
    "limits unknown": unlimited,
    "keys unknown": unknown_to_the_book,
}
KINDS = {
    "another task": AudienceMismatch, "another audience": AudienceMismatch, "ended": TaskEnded,
    "held": BeingSubmitted, "taken over": BeingSubmitted, "limits unknown": NotReady, "keys unknown": NotReady,
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal_names_the_clients_id_and_no_command_for_it(world: DeskWorld, name: str) -> None:
    error = REFUSALS[name](world)
    assert isinstance(error, KINDS.get(name, FairlaneError))
    check_fit_for_client(error)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("make", ["list", "file"])
def test_failure_at_any_step_names_the_id_with_which_the_client_goes_on(given: dict[str, Any], make: str) -> None:
    failures = [
        Unreachable("Pulsar at pulsar://p:6650 (given): could not append (Timeout).", "Run `fairlane doctor`."),
        NotReady("The server stops."),
        RuntimeError("The client is gone."),
    ]
    tried = DeskWorld()
    submit(tried, TARGETS, MAKES[make], **given)
    for step in dict.fromkeys(tried.service.steps):
        for failure in failures:
            world = DeskWorld()
            world.service.fail_at(step, type(failure)(*failure.args))
            error = failure_of(lambda: submit(world, TARGETS, MAKES[make], **given))  # noqa: B023  # it is called now
            if error is None:  # a checkpoint may fail
                continue
            check_fit_for_client(error)
            world.service.recover()
            if world.service.records_of(TaskRecord):
                hint = error.next_step if isinstance(error, FairlaneError) else " ".join(error.__notes__)
                (id_,) = re.findall(r"id='([^']+)'", hint)
                assert submit(world, TARGETS, MAKES[make], id=id_) == id_
                assert {record.task for record in world.service.records_of(TaskRecord)} == {f"shop--{id_}"}


@pytest.mark.parametrize("given", GIVEN)
def test_upload_that_breaks_off_before_anything_is_stored_names_no_id(world: DeskWorld, given: dict[str, Any]) -> None:
    error = refused(world, (), lambda _: Breaking(), **given)
    assert (world.service.records_of(TaskRecord), getattr(error, "__notes__", [])) == ([], [])


class Breaking:
    """An audience that breaks off before its first target."""

    waits = True

    def slabs(self, unit: int) -> Any:
        return breaking((), RuntimeError("The client is gone."))


def test_task_without_an_id_gets_one_that_its_key_may_name(world: DeskWorld) -> None:
    id_ = submit(world, id=None)
    assert not id_.startswith("~")
    assert world.service.records_of(TaskRecord)[0].task == f"shop--{id_}"
    assert submit(world, id=id_) == id_
