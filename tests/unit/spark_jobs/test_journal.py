"""The journal has of each target the first final outcome, once, whatever is stored twice and whenever it is killed."""

import os
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.settings import PulsarSettings
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
from spark_jobs.journal.compact import compact
from spark_jobs.journal.files import CLOSES, INVALID_TARGETS, OUTCOMES, STATES, TASKS, journal_table
from spark_jobs.journal.first_outcomes import FirstOutcomes, Ranges
from spark_jobs.journal.job import Journal, JournalOptions, LandedBatch
from spark_jobs.journal.landing import LONGEST_CHAIN
from spark_jobs.journal.tables import outcomes as outcome_table
from spark_jobs.journal.tasks import CONTROL, accepts, rows_of
from spark_jobs.storage.delta import Conflict
from tests.contract.registry_records import position
from tests.unit.spark_jobs.journal_world import (
    AT_MS,
    COMMITS,
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
    stored,
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
    killed=st.lists(st.integers(0, len(COMMITS)), max_size=12),
    at_once=st.integers(1, 5),
)
def test_each_target_has_its_first_outcome_once_however_often_the_journal_is_killed(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[list[Run | Mixed]],
    doubled: list[int],
    killed: list[int],
    at_once: int,
) -> None:
    log = [outcomes(*some) for some in records]
    for index in doubled:
        log.insert(index, log[index % len(log)])
    topic = Topic(tmp_path_factory.mktemp("tables"), log)
    while (one := topic.land(at_once)) is not None:
        topic.commit(one, killed.pop() if killed else len(COMMITS))
        at_once = at_once % 5 + 1  # a batch after a killed one may end earlier or later
    world = World(VirtualClock())
    world.write(task_record("t"))
    world.fold.apply(0, None, "end", [encode_record(record) for record in log])
    found = rows(topic)
    assert Counter(row["outcome"] for row in found) == Counter(world.counts("t"))
    assert len({(row["sequence"], row["position"]) for row in found}) == len(found)
    dead = Counter(row["target"] for row in found if row["outcome"] == "invalid" and row["target"] is not None)
    assert Counter(row["target"] for row in rows(topic, INVALID_TARGETS)) == dead


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
    assert topic.read(CLOSES).rows == 1


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
    assert topic.read(STATES).files
    assert len(topic.read(STATES).files) <= LONGEST_CHAIN
    assert {row["task"] for row in rows(topic, STATES)} == {"new"}
    assert len(rows(topic)) == 51


def test_what_cannot_be_read_is_counted_and_passed_over(tmp_path: Path) -> None:
    topic = Topic(tmp_path, [b"no record", ONE_SENT])
    one = topic.land(10)
    assert one is not None
    assert (one.records, one.malformed, one.rows(OUTCOMES)) == (2, 1, 1)


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
        "app": "shop",
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


def test_each_day_has_files_of_its_own(tmp_path: Path) -> None:
    days = [outcomes(ran(first=number), at_ms=AT_MS + number * DAY_MS, app=app) for number, app in enumerate(("", "x"))]
    files = landed(tmp_path, *days).read().files
    assert [(dict(file.partition), file.rows) for file in sorted(files, key=lambda file: file.path)] == [
        ({"day": DAY}, 1),
        ({"day": "2023-11-15"}, 1),
    ]


ANY_APPS = ("../../../out", "..", "a/b", "a\\b", "nul\0", "a=b%2F:c", "Grüße", "line\n", "x" * 5_000, "")


def test_an_app_with_any_name_is_read_back(spark: "SparkSession", tmp_path: Path) -> None:
    landed(tmp_path, *(outcomes(ran(first=number), app=app) for number, app in enumerate(ANY_APPS)))
    found = {row.app for row in outcome_table(spark, tmp_path).select("app").collect()}
    assert found == {app or None for app in ANY_APPS}


# ------------------------------------------------------------------ commits
def aged(topic: Topic, path: str, hours: int) -> Path:
    file = Path(topic.read().table.folder.url) / path
    when_s = time.time() - hours * 3_600
    os.utime(file, (when_s, when_s))
    return file


def test_files_of_a_batch_that_died_are_in_no_table_and_are_deleted_after_an_hour(tmp_path: Path) -> None:
    topic = Topic(tmp_path, [ONE_SENT])
    killed, under_way, good = (topic.land(1) for _ in range(3))
    assert killed is not None
    assert under_way is not None
    assert good is not None
    topic.commit(good)
    lost = aged(topic, killed.files[OUTCOMES][0].path, 2)
    kept = aged(topic, under_way.files[OUTCOMES][0].path, 0)
    assert compact(topic.tables, 1 << 27, 0.0).deleted == 1
    assert (lost.exists(), kept.exists(), len(rows(topic))) == (False, True, 1)


def test_a_batch_that_runs_twice_at_once_lands_once(tmp_path: Path) -> None:
    topic = Topic(tmp_path, [ONE_SENT])
    one, other = topic.land(1), topic.land(1)
    assert one is not None
    assert other is not None
    base = topic.read()
    topic.commit(one)
    with pytest.raises(Conflict, match="Another job writes to"):
        base.commit(other.files[OUTCOMES], {"0": other.cursor})
    assert len(rows(topic)) == 1


def test_a_batch_lands_beside_a_compaction(tmp_path: Path) -> None:
    topic = landed(tmp_path, ONE_SENT, outcomes(ran(first=1)), outcomes(ran(first=2)), at_once=1)
    topic.records += stored([outcomes(ran(first=3))], len(topic.records))
    base, one = topic.read(), topic.land(1)
    assert one is not None
    assert compact(topic.tables, 1 << 27, 3_600.0).merged > 0
    base.commit(one.files[OUTCOMES], {"0": one.cursor})
    assert [row["sequence"] for row in rows(topic)] == [0, 1, 2, 3]
    assert (topic.read().cursor("0"), len(topic.read().files)) == (position(3), 2)


def test_a_commit_whose_receipt_was_lost_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic(tmp_path, [ONE_SENT])
    one, base = topic.land(1), topic.read()
    assert one is not None
    base.commit(one.files[OUTCOMES], {"0": one.cursor})
    base.commit(one.files[OUTCOMES], {"0": one.cursor})  # as the store's client does that got no answer
    assert len(rows(topic)) == 1


def test_positions_outlive_the_metadata_of_commits(tmp_path: Path) -> None:
    records = [outcomes(ran(first=number)) for number in range(25)]
    topic = landed(tmp_path, *records, at_once=1)
    log = Path(topic.read().table.folder.url) / "_delta_log"
    last = max(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet"))
    for path in log.glob("*.json"):
        if int(path.stem) <= last:
            path.unlink()
    assert topic.read().cursor("0") == position(24)
    assert len(rows(topic)) == 25


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
        super().__init__(None, JournalOptions(tables, PulsarSettings(), 100))
        self.stop = threading.Event()
        self._results = list(batches)

    def step(self, until: dict[str, str]) -> LandedBatch:
        batch = self._results.pop(0)
        if not self._results:
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
    steps = Steps(tmp_path, LandedBatch(records=1))
    for table, cursors in ((STATES, {"0": position(4), "1": position(7)}), (TASKS, {CONTROL: position(5)})):
        journal_table(tmp_path, table).read().commit([], cursors)
    assert steps.run_once(threading.Event()).records == 1
    assert Steps(tmp_path, LandedBatch(records=1)).run_once(threading.Event()).records == 1
    ends = {"0": position(outcomes_end), "1": ""}, {CONTROL: position(control_end)}
    with pytest.raises(Refused, match="the journal of another Pulsar, or of data that was deleted"):
        Steps(tmp_path, LandedBatch(records=1)).run_once(threading.Event())
