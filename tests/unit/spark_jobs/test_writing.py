from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dispatcher.model.errors import AudienceMismatch, InvalidInput, LimitReached, NotReady, TaskEnded, Unreachable
from dispatcher.model.view import Admission
from dispatcher.wire.control import ControlChange, Sealed, TaskRecord
from dispatcher.wire.envelope import Envelope, decode_message
from producers.ports import Services
from spark_jobs.source import sealing, source
from spark_jobs.source.columns import Columns
from spark_jobs.source.sealing import cancel_left, commit, state_of_tasks
from spark_jobs.source.writing import OPEN_LANES, Written, write
from tests.unit.dispatch.producers.fake_service import Died, FakeService
from tests.unit.spark_jobs.tables import NAMED, PLAIN, people, table, target

BY_KIND = Columns("target", (), "", ("kind",))
BY_APP = Columns("target", (), "", ("app",))


class Job:
    """Writes tables to a service of its own."""

    def __init__(self, columns: Columns = NAMED, *, world: FakeService | None = None, **options: str) -> None:
        self.world, self.to = world or FakeService(), target(columns, **options)
        self.services = self.world.services()

    def attempt(self, *batches: Sequence[Mapping[str, Any]]) -> Written:
        return write(self.services, self.to, [table(rows) for rows in batches])

    def commit(self, *attempts: Written) -> sealing.Committed:
        return commit(self.services, self.to, attempts)

    def write(self, *batches: Sequence[Mapping[str, Any]]) -> sealing.Committed:
        return self.commit(self.attempt(*batches))

    def seals(self) -> list[Sealed]:
        return [record for record in self.world.records if isinstance(record, Sealed)]

    def sent(self, task: str = "sale") -> list[Envelope]:
        """The task's envelopes of the writers that its seal names."""
        seal = next(one for one in self.seals() if one.task == task)
        envelopes = self.world.envelopes(self.made()[task].lane)
        return [envelope for envelope in envelopes if envelope.writer in seal.writers]

    def made(self) -> dict[str, TaskRecord]:
        return {record.task: record for record in self.world.records if isinstance(record, TaskRecord)}

    def targets(self, task: str = "sale") -> list[str]:
        return sorted(name for envelope in self.sent(task) for name in envelope.targets)


def of_apps(*apps: str) -> list[dict[str, str]]:
    return [{"target": f"{app}-{number}", "app": app} for app in apps for number in range(3)]


def test_two_attempts_write_under_writers_of_their_own_and_one_seal_names_both() -> None:
    job = Job(chunk="4")
    one = job.attempt(people(0, 3), people(3, 3))
    other = job.attempt(people(6, 5))
    found = job.commit(one, other)
    assert found == sealing.Committed(("sale",), 11, 0)
    envelopes = job.sent()
    assert job.targets() == sorted(row["target"] for row in people(0, 11))
    assert [(len(envelope.targets), envelope.sequence) for envelope in envelopes] == [(4, 0), (2, 1), (4, 0), (1, 1)]
    assert {name["name"] for envelope in envelopes for name in envelope.variables or [] if name} == {
        row["name"] for row in people(0, 11)
    }
    assert len({envelope.writer for envelope in envelopes}) == 2


@pytest.fixture
def job() -> Job:
    return Job()


def test_the_task_is_held_and_made_once(job: Job) -> None:
    for first in (0, 5):
        job.attempt(people(first, 5))
    records = [record for record in job.world.records if isinstance(record, TaskRecord)]
    assert [(record.hold_until_sealed, record.shared) for record in records] == [(True, False)]


def test_the_seal_leaves_out_an_attempt_that_the_commit_does_not_name() -> None:
    job = Job(chunk="2")
    dead = job.attempt(people(0, 4))
    done = job.attempt(people(0, 6))
    job.commit(done)
    assert dead.parts["sale"].writer not in job.seals()[0].writers
    assert len(job.targets()) == 6


def test_a_sealed_task_is_only_counted_and_compared(job: Job) -> None:
    job.write(people(0, 6))
    lane = job.made()["sale"].lane
    sent = len(job.world.envelopes(lane))
    again = [job.attempt(people(4, 2)), job.attempt(people(0, 4))]
    assert job.commit(*again).targets == 6
    assert len(job.world.envelopes(lane)) == sent
    assert len(job.seals()) == 1


def test_another_audience_under_a_sealed_id_is_refused_and_in_a_stream_told(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    job.write(people(0, 6))
    other = job.attempt(people(1, 6))
    with pytest.raises(AudienceMismatch, match="6 targets then, 6 now, others"):
        job.commit(other)
    job.to = job.to._replace(first_stays=True)
    job.commit(other)
    assert "The first stays" in caplog.text
    assert len(job.seals()) == 1


def test_a_seal_that_came_first_counts(job: Job) -> None:
    """Two jobs write one id at once: both publish, the first seal is in force, the second learns of it."""
    one, other = job.attempt(people(0, 6)), job.attempt(people(0, 6))
    job.commit(one)
    job.commit(other)
    assert [seal.writers for seal in job.seals()] == [[one.parts["sale"].writer]]
    with pytest.raises(AudienceMismatch):
        job.write(people(0, 7))


def test_a_task_of_the_same_id_but_another_message_is_refused(job: Job) -> None:
    job.attempt(people(0, 1))
    with pytest.raises(AudienceMismatch, match="another message"):
        Job(world=job.world, message="Other").attempt(people(0, 1))


def test_in_a_stream_a_task_that_is_there_stays_as_it_was(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    """A query started again with another message, whose last batch comes again."""
    job.attempt(people(0, 1))
    again = Job(world=job.world, message="Other")
    again.to = again.to._replace(first_stays=True)
    again.write(people(0, 1))
    assert "another message. It stays as it was" in caplog.text
    assert [decode_message(envelope.message) for envelope in job.sent()] == [{"body": "Sale!"}]


def test_a_cancelled_task_takes_no_more(job: Job) -> None:
    job.attempt(people(0, 1))
    job.world.cancel("sale")
    with pytest.raises(TaskEnded):
        job.attempt(people(0, 1))


def test_an_app_at_its_limit_gets_no_task() -> None:
    job = Job(world=FakeService(admission=Admission("tasks", 5, 5)))
    with pytest.raises(LimitReached):
        job.attempt(people(0, 1))
    assert job.world.records == []


def test_a_bad_row_fails_the_attempt_or_is_counted() -> None:
    bad = [{"target": "a b", "name": "x"}]
    with pytest.raises(InvalidInput, match="A row is invalid: the target has whitespace"):
        Job().attempt(people(0, 2) + bad)
    job = Job(oninvalid="refuse", refused="7")
    found = job.write(people(0, 2) + bad)
    assert found == sealing.Committed(("sale",), 2, 8)
    assert (job.seals()[0].targets, job.seals()[0].refused) == (2, 8)


def test_a_table_without_rows_makes_no_task(job: Job) -> None:
    with pytest.raises(InvalidInput, match="has no rows"):
        job.write()
    assert job.world.records == []


def test_a_table_of_bad_rows_is_told_with_the_first() -> None:
    job = Job(oninvalid="refuse")
    with pytest.raises(InvalidInput, match=r"None of the table's 2 rows has a target.*whitespace"):
        job.write([{"target": "a b", "name": "x"}] * 2)


def test_split_columns_make_a_task_for_each_value() -> None:
    job = Job(BY_APP, app="", split="app", oninvalid="refuse")
    rows: list[dict[str, Any]] = [
        *of_apps("shop", "bank"),
        {"target": "x", "app": None},
        {"target": "y", "app": "not an app"},
    ]
    found = job.write(rows)
    assert found == sealing.Committed(("sale.shop", "sale.bank"), 6, 2)
    for app in ("shop", "bank"):
        assert job.targets(f"sale.{app}") == [f"{app}-{number}" for number in range(3)]
    assert {task: record.app for task, record in job.made().items()} == {"sale.shop": "shop", "sale.bank": "bank"}


def test_more_parts_than_lanes_may_be_open() -> None:
    job = Job(BY_KIND, split="kind", chunk="2")
    rows = [{"target": f"{kind}-{n}", "kind": str(kind)} for n in range(3) for kind in range(3 * OPEN_LANES)]
    found = job.write(rows, rows)
    assert (len(found.tasks), found.targets) == (3 * OPEN_LANES, 2 * len(rows))
    assert sum(len(job.targets(task)) for task in found.tasks) == 2 * len(rows)


def test_a_part_that_only_a_dead_attempt_made_is_left_over() -> None:
    job = Job(BY_KIND, split="kind")
    job.attempt([{"target": "a", "kind": "dead"}])
    found = job.write([{"target": "a", "kind": "alive"}])
    Job(world=job.world, id="sale.other", message="Not ours").attempt(people(0, 1))
    assert cancel_left(job.services, job.to.options, job.to.base, found.tasks) == ["sale.dead"]
    assert [record.task for record in job.world.records if isinstance(record, ControlChange)] == ["sale.dead"]


def test_a_part_in_a_language_is_left_over_though_there_is_no_message_without_one() -> None:
    columns = Columns("target", (), "", ("language",))
    messages: Any = {"message.de": "Hallo", "message.fr": "Salut"}
    job = Job(columns, split="language", message="", **messages)
    job.attempt([{"target": "a", "language": "de"}])
    found = job.write([{"target": "a", "language": "fr"}])
    assert cancel_left(job.services, job.to.options, job.to.base, found.tasks) == ["sale.de"]


@pytest.mark.parametrize("step", ["append TaskRecord", "apply TaskRecord", "append Sealed", "apply Sealed"])
def test_a_job_that_dies_at_any_step_is_completed_by_the_next(step: str) -> None:
    world = FakeService()

    def fault(name: str) -> None:
        if name == step:
            raise Died

    def write_all() -> Job:
        job = Job(world=world, chunk="3")
        assert job.commit(job.attempt(people(0, 4)), job.attempt(people(4, 4))).targets == 8
        return job

    world.fault = fault
    with pytest.raises(Died):
        write_all()
    world.fault = lambda name: None
    job = write_all()
    assert job.targets() == sorted(row["target"] for row in people(0, 8))
    assert len({(seal.digest, seal.targets) for seal in job.seals()}) == 1


def test_what_stands_after_a_failure_is_told(job: Job) -> None:
    assert state_of_tasks(job.services, job.to).startswith("Nothing was created of task sale.")
    held = job.attempt(people(0, 1))
    reported = state_of_tasks(job.services, job.to)
    assert reported.startswith("Nothing is sent of task sale: a task is held until its seal")
    assert "fairlane task cancel" in reported
    job.commit(held)
    assert state_of_tasks(job.services, job.to, [held]).startswith("Complete and sent: task sale.")


def test_a_task_that_was_cancelled_meanwhile_is_not_sealed(job: Job) -> None:
    held = job.attempt(people(0, 1))
    assert cancel_left(job.services, job.to.options, job.to.base) == ["sale"]
    with pytest.raises(TaskEnded, match="Task sale is cancelled"):
        job.commit(held)
    assert job.seals() == []


def test_a_seal_that_is_no_longer_shown_is_not_written_again(job: Job) -> None:
    job.write(people(0, 1))
    counted = job.attempt(people(0, 1))
    world = job.world
    world.log = [body for body, record in zip(world.log, world.records, strict=True) if not isinstance(record, Sealed)]
    with pytest.raises(NotReady):
        job.commit(counted)


def test_without_variables_none_are_sent() -> None:
    job = Job(PLAIN)
    job.write(people(0, 3))
    assert [envelope.variables for envelope in job.sent()] == [None]


def test_rows_that_their_provider_would_refuse_make_no_task() -> None:
    job = Job(channel="apns", message="Hi {{name}}")
    with pytest.raises(InvalidInput, match="not a device token"):
        job.attempt([{"target": "short", "name": "Ann"}])
    with pytest.raises(InvalidInput, match="variable name"):
        job.attempt([{"target": "ab" * 32, "name": None}])
    assert job.world.records == []


def test_rows_that_their_provider_would_refuse_may_be_left_out() -> None:
    job = Job(channel="apns", message="Hi {{name}}", oninvalid="refuse")
    assert job.write([{"target": "short", "name": "Ann"}, {"target": "ab" * 32, "name": "Bob"}]).targets == 1
    assert job.targets() == ["ab" * 32]


def test_columns_that_the_message_needs_are_named() -> None:
    options = target(channel="apns", message="Hi {{name}} {{town}}").options
    with pytest.raises(InvalidInput, match=r"no column: town"):
        options.check_columns(["name"])


# ----------------------------------------------------------------- a write that failed


class Connected:
    """In place of a connection. services: what it gives, or raises."""

    def __init__(self, services: Services | Unreachable) -> None:
        self._services = services
        self.closed = False

    def services(self) -> Services:
        if isinstance(self._services, Unreachable):
            raise self._services
        return self._services

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("gone", "message"), [(False, "sale"), (True, "The state of the tasks cannot be read: Pulsar is away. Look.")]
)
def test_what_stands_is_told_if_it_can_be(
    job: Job, gone: bool, message: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written = job.attempt(people(0, 4))
    connected = Connected(Unreachable("Pulsar is away.", "Look.") if gone else job.services)
    monkeypatch.setattr(source, "Connection", lambda _servers: connected)
    source.BatchWriter(job.to).abort([source.Message(written), None])
    assert "The job failed." in caplog.text
    assert message in caplog.text
    assert connected.closed


def test_a_commit_says_how_many_targets_have_a_language_without_a_text(caplog: pytest.LogCaptureFixture) -> None:
    columns = Columns("target", ("lang",), "", ())
    job = Job(columns, channel="apns", locales='{"de": "Hallo"}')
    rows = [{"target": f"{number:064x}", "lang": tag} for number, tag in enumerate(["de-AT", "fr", "fr", None, "it"])]
    job.commit(job.attempt(rows[:2]), job.attempt(rows[2:]))
    assert "3 targets with a language without a text (fr 2, it 1)" in caplog.text
