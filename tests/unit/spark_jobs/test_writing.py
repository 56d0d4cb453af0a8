from typing import Any

import pytest

from dispatcher.model.errors import AudienceMismatch, InvalidInput, LimitReached, NotReady, TaskEnded
from dispatcher.model.view import Admission
from dispatcher.wire.control import ControlChange, Sealed, TaskRecord
from dispatcher.wire.envelope import decode_message
from producers.ports import Services
from spark_jobs.source import sealing
from spark_jobs.source.columns import Columns
from spark_jobs.source.sealing import commit, left_over, what_stands
from spark_jobs.source.writing import OPEN_LANES, WriteTarget, Written
from tests.unit.producers.fake_service import Died, FakeService
from tests.unit.spark_jobs.tables import PLAIN, attempt, counting, people, target

BY_APP = Columns("target", (), frozenset(), "", ("app",))


def seals(world: FakeService) -> list[Sealed]:
    return [record for record in world.records if isinstance(record, Sealed)]


def committed(services: Services, to: WriteTarget, *attempts: Written, strict: bool = True) -> sealing.Committed:
    return commit(services, to.options, to.base, attempts, strict)


def of_apps(*apps: str) -> list[dict[str, str]]:
    return [{"target": f"{app}-{number}", "app": app} for app in apps for number in range(3)]


def test_two_attempts_write_under_writers_of_their_own_and_one_seal_names_both() -> None:
    world, to = FakeService(), target(chunk="4")
    services = world.services()
    one = attempt(services, to, people(0, 3), people(3, 3))
    other = attempt(services, to, people(6, 5))
    found = committed(services, to, one, other)
    assert found == sealing.Committed(("sale",), 11, 0)
    envelopes = counting(world, "sale")
    assert sorted(name for envelope in envelopes for name in envelope.targets) == sorted(
        row["target"] for row in people(0, 11)
    )
    assert [(len(envelope.targets), envelope.sequence) for envelope in envelopes] == [(4, 0), (2, 1), (4, 0), (1, 1)]
    assert {name["name"] for envelope in envelopes for name in envelope.variables or [] if name} == {
        row["name"] for row in people(0, 11)
    }
    assert len({envelope.writer for envelope in envelopes}) == 2


def test_the_task_is_held_and_made_once() -> None:
    world, to = FakeService(), target()
    for first in (0, 5):
        attempt(world.services(), to, people(first, 5))
    records = [record for record in world.records if isinstance(record, TaskRecord)]
    assert [(record.hold_until_sealed, record.shared) for record in records] == [(True, False)]


def test_the_seal_leaves_out_an_attempt_that_the_commit_does_not_name() -> None:
    world, to = FakeService(), target(chunk="2")
    services = world.services()
    dead = attempt(services, to, people(0, 4))
    done = attempt(services, to, people(0, 6))
    committed(services, to, done)
    assert dead.parts["sale"].writer not in seals(world)[0].writers
    assert sum(len(envelope.targets) for envelope in counting(world, "sale")) == 6


def test_a_sealed_task_is_only_counted_and_compared() -> None:
    world, to = FakeService(), target()
    services = world.services()
    committed(services, to, attempt(services, to, people(0, 6)))
    sent = len(world.envelopes(seals_lane(world)))
    again = [attempt(services, to, people(4, 2)), attempt(services, to, people(0, 4))]
    assert committed(services, to, *again).targets == 6
    assert len(world.envelopes(seals_lane(world))) == sent
    assert len(seals(world)) == 1


def seals_lane(world: FakeService) -> str:
    return next(record.lane for record in world.records if isinstance(record, TaskRecord))


def test_another_audience_under_a_sealed_id_is_refused_and_in_a_stream_told(caplog: pytest.LogCaptureFixture) -> None:
    world, to = FakeService(), target()
    services = world.services()
    committed(services, to, attempt(services, to, people(0, 6)))
    other = attempt(services, to, people(1, 6))
    with pytest.raises(AudienceMismatch, match="6 targets then, 6 now, others"):
        committed(services, to, other)
    committed(services, to, other, strict=False)
    assert "The first stays" in caplog.text
    assert len(seals(world)) == 1


def test_a_seal_that_came_first_counts() -> None:
    """Two jobs write one id at once: both publish, the first seal is in force, the second learns of it."""
    world, to = FakeService(), target()
    services = world.services()
    one, other = attempt(services, to, people(0, 6)), attempt(services, to, people(0, 6))
    committed(services, to, one)
    committed(services, to, other)
    assert [seal.writers for seal in seals(world)] == [[one.parts["sale"].writer]]
    with pytest.raises(AudienceMismatch):
        committed(services, to, attempt(services, to, people(0, 7)))


def test_a_task_of_the_same_id_but_another_message_is_refused() -> None:
    world = FakeService()
    attempt(world.services(), target(), people(0, 1))
    with pytest.raises(AudienceMismatch, match="another message"):
        attempt(world.services(), target(message="Other"), people(0, 1))


def test_in_a_stream_a_task_that_is_there_stays_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    """A query started again with another message, whose last batch comes again."""
    world = FakeService()
    attempt(world.services(), target(), people(0, 1))
    again = target(message="Other")._replace(first_stays=True)
    committed(world.services(), again, attempt(world.services(), again, people(0, 1)), strict=False)
    assert "another message. It stays as it was" in caplog.text
    assert [decode_message(envelope.message) for envelope in counting(world, "sale")] == [{"body": "Sale!"}]


def test_a_cancelled_task_takes_no_more() -> None:
    world = FakeService()
    attempt(world.services(), target(), people(0, 1))
    world.cancel("sale")
    with pytest.raises(TaskEnded):
        attempt(world.services(), target(), people(0, 1))


def test_an_app_at_its_limit_gets_no_task() -> None:
    world = FakeService(admission=Admission("tasks", 5, 5))
    with pytest.raises(LimitReached):
        attempt(world.services(), target(), people(0, 1))
    assert world.records == []


def test_a_bad_row_fails_the_attempt_or_is_counted() -> None:
    bad = [{"target": "a b", "name": "x"}]
    with pytest.raises(InvalidInput, match="A row is invalid: the target has whitespace"):
        attempt(FakeService().services(), target(), people(0, 2) + bad)
    world, to = FakeService(), target(oninvalid="refuse", refused="7")
    found = committed(world.services(), to, attempt(world.services(), to, people(0, 2) + bad))
    assert found == sealing.Committed(("sale",), 2, 8)
    assert (seals(world)[0].targets, seals(world)[0].refused) == (2, 8)


def test_a_table_without_rows_makes_no_task() -> None:
    world, to = FakeService(), target()
    with pytest.raises(InvalidInput, match="has no rows"):
        committed(world.services(), to, attempt(world.services(), to))
    assert world.records == []


def test_a_table_of_bad_rows_is_told_with_the_first() -> None:
    to = target(oninvalid="refuse")
    services = FakeService().services()
    with pytest.raises(InvalidInput, match=r"None of the table's 2 rows is a target.*whitespace"):
        committed(services, to, attempt(services, to, [{"target": "a b", "name": "x"}] * 2))


def test_split_columns_make_a_task_for_each_value() -> None:
    world, to = FakeService(), target(BY_APP, app="", split="app", oninvalid="refuse")
    services = world.services()
    rows: list[dict[str, Any]] = [
        *of_apps("shop", "bank"),
        {"target": "x", "app": None},
        {"target": "y", "app": "not an app"},
    ]
    found = committed(services, to, attempt(services, to, rows))
    assert found == sealing.Committed(("sale.shop", "sale.bank"), 6, 2)
    for app in ("shop", "bank"):
        assert {name for envelope in counting(world, f"sale.{app}") for name in envelope.targets} == {
            f"{app}-{number}" for number in range(3)
        }
    apps = {record.task: record.app for record in world.records if isinstance(record, TaskRecord)}
    assert apps == {"sale.shop": "shop", "sale.bank": "bank"}


def test_more_parts_than_lanes_may_be_open() -> None:
    world, to = FakeService(), target(Columns("target", (), frozenset(), "", ("kind",)), split="kind", chunk="2")
    services = world.services()
    rows = [{"target": f"{kind}-{n}", "kind": str(kind)} for n in range(3) for kind in range(3 * OPEN_LANES)]
    found = committed(services, to, attempt(services, to, rows, rows))
    assert (len(found.tasks), found.targets) == (3 * OPEN_LANES, 2 * len(rows))
    assert sum(len(envelope.targets) for task in found.tasks for envelope in counting(world, task)) == 2 * len(rows)


def test_a_part_that_only_a_dead_attempt_made_is_left_over() -> None:
    world, to = FakeService(), target(Columns("target", (), frozenset(), "", ("kind",)), split="kind")
    services = world.services()
    attempt(services, to, [{"target": "a", "kind": "dead"}])
    found = committed(services, to, attempt(services, to, [{"target": "a", "kind": "alive"}]))
    attempt(services, target(id="sale.other", message="Not ours"), people(0, 1))
    live = ["sale.dead", "sale.alive", "sale.other"]
    orphans = left_over(services, to.options, "sale", live, found)
    assert orphans == ["sale.dead"]
    sealing.cancel(services, orphans)
    assert [record.task for record in world.records if isinstance(record, ControlChange)] == ["sale.dead"]


def test_a_part_in_a_language_is_left_over_though_there_is_no_message_without_one() -> None:
    columns = Columns("target", (), frozenset(), "", ("language",))
    world, to = (
        FakeService(),
        target(columns, split="language", message="", **{"message.de": "Hallo", "message.fr": "Salut"}),
    )
    services = world.services()
    attempt(services, to, [{"target": "a", "language": "de"}])
    found = committed(services, to, attempt(services, to, [{"target": "a", "language": "fr"}]))
    assert left_over(services, to.options, "sale", ["sale.de", "sale.fr"], found) == ["sale.de"]


@pytest.mark.parametrize("step", ["append TaskRecord", "apply TaskRecord", "append Sealed", "apply Sealed"])
def test_a_job_that_dies_at_any_step_is_completed_by_the_next(step: str) -> None:
    world, to = FakeService(), target(chunk="3")

    def fault(name: str) -> None:
        if name == step:
            raise Died

    def job() -> sealing.Committed:
        services = world.services()
        return committed(services, to, attempt(services, to, people(0, 4)), attempt(services, to, people(4, 4)))

    world.fault = fault
    with pytest.raises(Died):
        job()
    world.fault = lambda name: None
    assert job().targets == 8
    assert sorted(name for envelope in counting(world, "sale") for name in envelope.targets) == sorted(
        row["target"] for row in people(0, 8)
    )
    assert len({(seal.digest, seal.targets) for seal in seals(world)}) == 1


def test_what_stands_after_a_failure_is_told() -> None:
    world, to = FakeService(), target()
    services = world.services()
    assert what_stands(services, "sale", False).startswith("Nothing was created of task sale.")
    held = attempt(services, to, people(0, 1))
    reported = what_stands(services, "sale", False)
    assert reported.startswith("Nothing is sent of task sale: a task is held until its seal")
    assert "fairlane task cancel" in reported
    committed(services, to, held)
    assert what_stands(services, "sale", False, [held]).startswith("Complete and sent: task sale.")


def test_a_seal_that_is_no_longer_shown_is_not_written_again() -> None:
    world, to = FakeService(), target()
    services = world.services()
    committed(services, to, attempt(services, to, people(0, 1)))
    counted = attempt(services, to, people(0, 1))
    world.log = [body for body, record in zip(world.log, world.records, strict=True) if not isinstance(record, Sealed)]
    with pytest.raises(NotReady):
        committed(services, to, counted)


def test_without_variables_none_are_sent() -> None:
    world, to = FakeService(), target(PLAIN)
    services = world.services()
    committed(services, to, attempt(services, to, people(0, 3)))
    assert [envelope.variables for envelope in counting(world, "sale")] == [None]
