"""The journal has of each target the first final outcome, once, whatever is stored twice and whenever it is killed."""

import resource
import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.settings import PulsarSettings
from backends.system_clock import SystemClock
from dispatcher.model.errors import Refused, Unreachable
from dispatcher.model.task import TOMBSTONE_MS
from dispatcher.wire.control import ControlChange, Sealed
from dispatcher.wire.outcome import RETRY, CloseTask, EpochMark, Mixed, Outcome, ProviderIds, Run, encode_record
from lab.simulator.world import World
from tests.contract.fold_records import parts
from tests.contract.ledger_worlds import task_record
from tests.records import finished
from tests.virtual_clock import VirtualClock

pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


from spark_jobs.journal import job as journal_module
from spark_jobs.journal.compact import sweep
from spark_jobs.journal.files import NO_APP
from spark_jobs.journal.first_outcomes import FirstOutcomes, Ranges
from spark_jobs.journal.job import Journal, JournalOptions, LandedBatch
from spark_jobs.journal.landing import LONGEST_CHAIN, OPEN_FILES
from spark_jobs.journal.log import CommitChange, Conflict, JournalLog, TableFile
from spark_jobs.journal.tables import outcomes as outcome_table
from spark_jobs.journal.tasks import CONTROL, accepts, rows_of
from tests.contract.registry_records import position
from tests.unit.spark_jobs.journal_world import (
    AT_MS,
    DAY,
    DAY_MS,
    Topic,
    brief,
    facts,
    landed,
    mixed,
    named_targets,
    outcomes,
    ran,
    restated,
    rows,
)

pytestmark = pytest.mark.timeout(300)  # some run on Spark, whose first job takes long on a busy machine
ONE_SENT = outcomes(ran())
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def kept(sequence: int, ids: list[str], positions: list[int] | None = None) -> ProviderIds:
    return ProviderIds(writer="0", attempt=0, sequence=sequence, positions=positions, prefix="p/", ids=ids)


def test_a_row_has_the_providers_id_where_the_record_keeps_it(tmp_path: Path) -> None:
    codes = bytes((Outcome.INVALID, Outcome.SENT, RETRY, Outcome.SENT))
    topic = landed(
        tmp_path,
        outcomes(ran(first=5, count=2, size=2), kept(6, ["1", "2"]), named_targets(sequence=5, targets=["a", "b"])),
        outcomes(mixed(sequence=7, size=4, codes=codes), kept(7, ["3", "4"], [1, 3])),
        outcomes(ran(first=8, size=1)),
    )
    found = {(row["sequence"], row["position"]): (row["provider_id"], row["target"]) for row in rows(topic)}
    assert found == {
        (5, 0): (None, "a"), (5, 1): (None, "b"), (6, 0): ("p/1", None), (6, 1): ("p/2", None),
        (7, 0): (None, None), (7, 1): ("p/3", None), (7, 3): ("p/4", None), (8, 0): (None, None),
    }  # fmt: skip


# ------------------------------------------------------------------ which outcomes count
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=30))
def test_ranges_are_a_set_that_tells_what_is_new(added: list[tuple[int, int]]) -> None:
    ranges, known = Ranges(), set[int]()
    for start, length in added:
        new = {number for first, end in ranges.add(start, start + length) for number in range(first, end)}
        assert new == set(range(start, start + length)) - known
        known |= new
        assert {number for number in range(60) if number in ranges} == known
    assert all(end < start for end, start in zip(ranges.ends, ranges.starts[1:], strict=False))


@SLOW
@given(
    records=st.lists(st.lists(parts(), min_size=1, max_size=4), min_size=1, max_size=8),
    doubled=st.lists(st.integers(0, 7), max_size=6),
    killed=st.lists(st.booleans(), max_size=12),
    at_once=st.integers(1, 5),
)
def test_each_target_has_its_first_outcome_once_however_often_the_journal_is_killed(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[list[Run | Mixed]],
    doubled: list[int],
    killed: list[bool],
    at_once: int,
) -> None:
    log = [outcomes(*some) for some in records]
    for index in doubled:
        log.insert(index, log[index % len(log)])
    topic = Topic(tmp_path_factory.mktemp("tables"), log)
    while (one := topic.land(at_once)) is not None:
        if not killed or not killed.pop():
            topic.commit(one)
    world = World(VirtualClock())
    world.write(task_record("t"))
    world.fold.apply(0, None, "end", [encode_record(record) for record in log])
    found = rows(topic)
    assert Counter(row["outcome"] for row in found) == Counter(world.counts("t"))
    assert len({(row["sequence"], row["position"]) for row in found}) == len(found)


def test_a_retried_target_has_the_outcome_and_the_number_of_its_last_attempt(tmp_path: Path) -> None:
    topic = landed(
        tmp_path,
        outcomes(mixed(sequence=3, size=4, codes=bytes((0, RETRY, 1, RETRY)))),
        outcomes(mixed(attempt=1, sequence=3, size=4, positions=[1, 3], codes=bytes((0, RETRY))), latency_ms=9),
        outcomes(mixed(attempt=2, sequence=3, size=4, positions=[3], codes=bytes((2,)))),
        at_once=1,
    )
    assert brief(topic) == [(3, 0, "sent"), (3, 2, "invalid"), (3, 1, "sent"), (3, 3, "failed")]
    assert [row["attempt"] for row in rows(topic)] == [0, 0, 1, 2]


def test_after_a_task_is_closed_its_outcomes_count_no_more(tmp_path: Path) -> None:
    topic = landed(
        tmp_path,
        outcomes(ran(size=2)),
        CloseTask(1, "t", int(Outcome.CANCELLED), AT_MS),
        outcomes(ran(first=1, size=2)),
        CloseTask(1, "t", int(Outcome.EXPIRED), AT_MS),
        EpochMark(1, "e"),
        at_once=1,
    )
    assert brief(topic) == [(0, 0, "sent"), (0, 1, "sent")]
    assert [file.rows for file in topic.log.read().table("closes")] == [1]


def test_writers_have_sequences_of_their_own(tmp_path: Path) -> None:
    topic = landed(
        tmp_path,
        outcomes(ran(writer="a", count=2), ran(writer="b", first=1, code=1)),
        outcomes(ran(writer="a", first=1)),
    )
    assert [(row["writer"], row["sequence"]) for row in rows(topic)] == [("a", 0), ("a", 1), ("b", 1)]


def test_an_id_that_is_used_again_after_its_tombstone_is_another_task(tmp_path: Path) -> None:
    topic = landed(tmp_path, ONE_SENT, outcomes(ran(code=1), at_ms=AT_MS + TOMBSTONE_MS + 1), at_once=1)
    assert [row["outcome"] for row in rows(topic)] == ["sent", "invalid"]


def test_what_is_remembered_stays_in_few_files_and_forgets_tasks_of_long_ago(tmp_path: Path) -> None:
    many = [outcomes(ran(first=number), task="new", at_ms=AT_MS + TOMBSTONE_MS + 1) for number in range(50)]
    topic = landed(tmp_path, outcomes(ran(), task="old"), *many, at_once=1)
    state = topic.log.read().states["0"]
    assert len(state) <= LONGEST_CHAIN + 1
    assert b"old" not in b"".join((topic.log.root / name).read_bytes() for name in state)
    assert len(rows(topic)) == 51


def test_what_cannot_be_read_is_counted_and_passed_over(tmp_path: Path) -> None:
    topic = Topic(tmp_path, [b"no record", ONE_SENT])
    one = topic.land(10)
    assert one is not None
    assert (one.records, one.malformed, one.outcomes) == (2, 1, 1)


def test_a_run_of_absurd_length_is_told_in_pieces() -> None:
    pieces = FirstOutcomes().of(outcomes(ran(count=1 << 30, size=500)))
    first, second = next(pieces), next(pieces)
    assert isinstance(first, Run)
    assert isinstance(second, Run)
    assert 500 * first.count <= 1 << 16
    assert second.first == first.count


# ------------------------------------------------------------------ rows and files
def test_a_row_tells_all_that_is_known_of_a_target(tmp_path: Path) -> None:
    named = named_targets(sequence=5, positions=[1], targets=["tok-1"], reasons=["unregistered"])
    (one, two) = rows(landed(tmp_path, outcomes(mixed(sequence=5, size=2, codes=bytes((0, 1))), named, latency_ms=70)))
    assert two == {
        "task": "t",
        "channel": "push",
        "writer": "0",
        "sequence": 5,
        "position": 1,
        "attempt": 0,
        "outcome": "invalid",
        "at": datetime.fromtimestamp(AT_MS / 1000, UTC),
        "latency_ms": 70,
        "target": "tok-1",
        "reason": "unregistered",
        "topic": 0,
        "record": position(0),
        "provider_id": None,
    }
    assert (one["target"], one["reason"]) == (None, None)


def test_targets_named_whole_stand_at_their_rows(tmp_path: Path) -> None:
    names = [named_targets(sequence=number, targets=[f"{number}a", f"{number}b"]) for number in (1, 2, 3)]
    found = rows(landed(tmp_path, outcomes(ran(first=1, count=3, size=2), *names)))
    assert [row["target"] for row in found] == ["1a", "1b", "2a", "2b", "3a", "3b"]


def test_names_that_do_not_fit_their_positions_keep_no_row_from_its_table(tmp_path: Path) -> None:
    names = [
        named_targets(sequence=1, positions=[0, 1, 7], targets=["a", "b"], reasons=["gone"]),
        named_targets(sequence=2, targets=["c"] * 9),
    ]
    found = rows(landed(tmp_path, outcomes(ran(first=1, count=2, size=2, code=1), *names)))
    assert [row["target"] for row in found] == ["a", None, "c", "c"]


def test_days_and_apps_have_files_of_their_own(tmp_path: Path) -> None:
    topic = landed(
        tmp_path,
        ONE_SENT,
        outcomes(ran(first=1), app="bank"),
        outcomes(ran(first=2), at_ms=AT_MS + DAY_MS),
        outcomes(ran(first=3), app=""),
    )
    files = topic.log.read().table("outcomes")
    assert {str(Path(file.path).parent) for file in files} == {
        f"outcomes/day={DAY}/app=shop",
        f"outcomes/day={DAY}/app=bank",
        "outcomes/day=2023-11-15/app=shop",
        f"outcomes/day={DAY}/app={NO_APP}",
    }


EVIL_APPS = ("../../../out", "..", "a/b", "a\\b", "nul\0", "a=b%2F:c", "Grüße", "line\n", "x" * 5_000, "x" * 5_001)


def test_a_batch_may_have_more_apps_than_a_process_may_have_files(tmp_path: Path) -> None:
    apps = [f"app-{number}" for number in range(2 * OPEN_FILES + 50)]
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + OPEN_FILES + 30, limit[1]))
    try:
        topic = landed(tmp_path, *(outcomes(ran(), app=app, task=app) for app in apps), at_once=len(apps))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    files = topic.log.read().table("outcomes")
    assert {(file.app, file.rows) for file in files} == {(app, 1) for app in apps}


def test_no_app_of_a_record_leaves_the_tables_folder(tmp_path: Path) -> None:
    tables = tmp_path / "deep" / "deeper" / "tables"
    records = [outcomes(ran(first=number), app=app) for number, app in enumerate(EVIL_APPS)]
    topic = landed(tables, *records)
    files = topic.log.read().table("outcomes")
    assert sorted(file.app for file in files) == sorted(EVIL_APPS)
    folders = {(topic.log.root / file.path).resolve().parent for file in files}
    assert {folder.parent for folder in folders} == {topic.log.root.resolve() / "outcomes" / f"day={DAY}"}
    assert len(folders) == len(EVIL_APPS)
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]


def test_an_app_with_any_name_is_read_back_from_its_folder(spark: "SparkSession", tmp_path: Path) -> None:
    names = [app for app in EVIL_APPS if len(app) < 100]
    records = [outcomes(ran(first=number), app=app) for number, app in enumerate(names)]
    topic = landed(tmp_path, *records)
    found = outcome_table(spark, topic.log.root.parent)
    assert sorted(row.app for row in found.select("app").collect()) == sorted(names)


def test_what_was_not_committed_is_in_no_table_and_is_swept_away(tmp_path: Path) -> None:
    topic = Topic(tmp_path, [ONE_SENT])
    killed, good = topic.land(1), topic.land(1)
    assert killed is not None
    assert good is not None
    topic.commit(good)
    assert [file.path for file in topic.log.read().table("outcomes")] == [good.files[0].path]
    clock = VirtualClock(wall_ms=4_000_000_000_000)
    assert sweep(topic.log, 0.0, clock) == 2
    assert not (topic.log.root / killed.files[0].path).exists()
    assert len(rows(topic)) == 1


def test_a_sweep_leaves_the_files_of_a_batch_that_is_under_way_however_short_it_keeps_replaced_ones(
    tmp_path: Path,
) -> None:
    topic = Topic(tmp_path, [ONE_SENT])
    under_way = topic.land(1)
    assert under_way is not None
    soon = VirtualClock(wall_ms=SystemClock().wall_ms() + 60_000)
    assert sweep(topic.log, 0.0, soon) == 0
    topic.commit(under_way)
    assert len(rows(topic)) == 1
    topic.log.append(topic.log.read(), CommitChange(removed=[under_way.files[0].path]), AT_MS)
    assert sweep(topic.log, 0.0, soon) == 1


# ------------------------------------------------------------------ the log
def file(name: str) -> TableFile:
    return TableFile(table="outcomes", path=name, rows=1, size=10)


def test_of_two_who_write_the_same_commit_one_is_told(tmp_path: Path) -> None:
    log = JournalLog(tmp_path)
    base = log.read()
    log.append(base, CommitChange(added=[file("a")]), AT_MS)
    with pytest.raises(Conflict):
        log.append(base, CommitChange(added=[file("b")]), AT_MS)
    assert list(log.read().files) == ["a"]


def test_the_log_is_read_from_its_last_whole_commit(tmp_path: Path) -> None:
    log = JournalLog(tmp_path)
    state = log.read()
    for number in range(120):
        removed = [f"{number - 3}"] if number >= 3 else []
        state = log.append(state, CommitChange({"0": str(number)}, {}, [file(str(number))], removed), AT_MS + number)
    assert log.read() == state
    assert sorted(state.files) == ["117", "118", "119"]
    sweep(log, 0.0, VirtualClock(wall_ms=AT_MS + 10_000))
    assert min(log.numbers()) == 100
    assert log.read() == state


# ------------------------------------------------------------------ tasks
def test_the_control_topic_tells_acceptance_tier_seal_and_end_of_a_task() -> None:
    accepted = task_record("t")
    found = facts(
        accepted,
        ControlChange(1, "t", "paused", "1", 0),
        ControlChange(1, "t", "tier", "low", 0),
        Sealed(format=1, task="t", targets=7, refused=2, digest="sum:1f", writers=["a", "b"]),
        finished("t", 5, 2, at_ms=AT_MS),
        restated(accepted),
    )
    assert [row["record"] for row in found] == [position(index) for index in (0, 2, 3, 4, 0)]
    assert found[0] == found[-1]
    assert found[2]["writers"] == ["a", "b"]
    assert (found[3]["sent"], found[3]["invalid"]) == (5, 2)
    assert list(rows_of(position(9), b"of a later version")) == []
    assert [accepts(row, position(index)) for index, row in zip((0, 2, 3, 4, 5), found, strict=True)] == [
        True, False, False, False, False,
    ]  # fmt: skip  # `journal run` said 1,415 tasks of 500: it counted rows


# ------------------------------------------------------------------ while Pulsar is gone
class Steps(Journal):
    """A journal whose batches have these results in order; then it is stopped."""

    def __init__(self, tables: Path, *batches: LandedBatch | Unreachable) -> None:
        super().__init__(None, JournalOptions(tables, PulsarSettings(), 100), VirtualClock())
        self.stop = threading.Event()
        self._batches = list(batches)

    def step(self, until: dict[str, str]) -> LandedBatch:
        batch = self._batches.pop(0)
        if not self._batches:
            self.stop.set()
        if isinstance(batch, Unreachable):
            raise batch
        return batch


def test_a_pulsar_that_is_gone_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "PAUSE_S", 0.001)
    monkeypatch.setattr(journal_module, "last_positions", lambda _: {})
    gone = Unreachable("Pulsar is gone.")
    journal = Steps(tmp_path, LandedBatch(records=1), gone, gone, LandedBatch(records=2))
    reported: list[int] = []
    total = journal.run(journal.stop, 0.001, lambda batch: reported.append(batch.records))
    assert (reported, total.records) == ([1, 2], 3)


@pytest.mark.parametrize(("outcomes_end", "control_end"), [(2, 5), (4, 3)])
def test_the_journal_of_a_pulsar_whose_data_was_deleted_is_refused_and_not_silent_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcomes_end: int, control_end: int
) -> None:
    ends = {"0": position(4), "1": ""}, {CONTROL: position(5)}
    monkeypatch.setattr(journal_module, "last_positions", lambda _: ends[0])
    monkeypatch.setattr(journal_module, "ends_of", lambda *_: ends[1])
    log = JournalLog(tmp_path)
    log.append(log.read(), CommitChange(cursors={"0": position(4), "1": position(7), CONTROL: position(5)}), AT_MS)
    assert Steps(tmp_path, LandedBatch(records=1)).run_once(threading.Event()).records == 1
    ends = {"0": position(outcomes_end), "1": ""}, {CONTROL: position(control_end)}
    with pytest.raises(Refused, match="the journal of another Pulsar, or of data that was deleted"):
        Steps(tmp_path, LandedBatch(records=1)).run_once(threading.Event())
