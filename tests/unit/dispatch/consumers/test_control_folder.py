"""The control topic reaches the registry whole, whatever happens to the view on the way."""

import threading
from collections.abc import Callable, Sequence

import pytest
from msgspec import Raw

from backends.redis.epochs import Epochs
from backends.redis.registry.registry import ControlView
from backends.redis.skipped_records import SkippedRecords
from consumers.upkeep.folder import ControlFolder, FoldSettings, OutcomeFolder
from dispatcher.model.errors import FairlaneError, NotFound
from dispatcher.ports import FoldResult
from dispatcher.wire.control import ControlChange, ControlRecord, Restated, Sealed, encode_control
from dispatcher.wire.outcome import EpochMark, encode_record
from lab.simulator.redis.server import MemoryRedis
from lab.simulator.world import World
from quotas.fold import RedisFold
from tests.actors import running
from tests.contract.ledger_worlds import outcomes, run
from tests.contract.registry_records import position, sealed, task_record
from tests.unit.dispatch.consumers.fakes import ControlTopic, Reader, Topic, eventually
from tests.unit.views import LostRedis, view_of
from tests.virtual_clock import VirtualClock

OLD = f"{6:020d}:{0:020d}:{0:06d}"
QUICK = FoldSettings(batch=3, poll_s=0.001, idle_check_s=0.002, pause_s=0.01)


class View(ControlView):
    """A registry in memory. flush_at: the number of changes after which it is emptied, once."""

    def __init__(self) -> None:
        clock = VirtualClock()
        self.redis = MemoryRedis(clock.wall_ms)
        self.view = view_of(self.redis)
        super().__init__(self.view)
        self.epochs, self.passed = Epochs(self.view), SkippedRecords(self.view, "2")
        self.epochs.begin_epoch("e1", 0, 1)
        self.applied = 0
        self.flush_at = -1
        self.positions: list[str] = []
        self.complete_at: dict[str, str] = {}
        """By task: the cursor from which on it is complete."""

    @property
    def epoch(self) -> str | None:
        found = self.epochs.epoch()
        return None if found is None else found.id

    @property
    def marked(self) -> bool:
        found = self.epochs.epoch()
        return found is not None and "control" in found.read

    @property
    def weights(self) -> dict[str, str]:
        """Return the stored weights of the tasks of topic_of, in thousandths."""
        keys = {f"t{number}": self.view.keys.task(f"t{number}") for number in range(10)}
        stored = {task: self.view.command("HGET", key, "weight") for task, key in keys.items()}
        return {task: weight.decode() for task, weight in stored.items() if weight}

    def start_at(self, cursor: str, *passed: str) -> None:
        """Begin with a cursor, and records that another version passed over."""
        self.view.command("HSET", self.view.keys.control, "cursor", cursor)
        SkippedRecords(self.view, "1").keep("control", dict.fromkeys(passed, "unknown"))

    def kept(self) -> dict[str, str]:
        """Return the versions by the positions that they passed over."""
        return {one.position: one.reader for one in self.passed.kept("control")}

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None:
        for at, record in records:
            super().apply_all([(at, record)])
            self.positions.append(at)
            self.applied += isinstance(record, ControlChange)
            if self.applied == self.flush_at:
                self.flush_at = -1
                self.flush()

    def complete_among(self, tasks: Sequence[str]) -> list[str]:
        return [task for task in tasks if (self.cursor() or "") >= self.complete_at.get(task, "~")]

    def flush(self) -> None:
        self.redis.store.clear()
        self.epochs.begin_epoch("e2", 0, 1)


def topic_of(count: int) -> ControlTopic:
    topic = ControlTopic()
    for number in range(count):
        topic.append(ControlChange(1, f"t{number}", "weight", "1", 0))
    return topic


def folder(view: View, topic: ControlTopic, reported: list[str] | None = None) -> ControlFolder:
    finished = [] if reported is None else reported
    return ControlFolder(topic.open, lambda: True, finished.extend, QUICK, view.passed, lambda: view.epoch, view)


def test_every_record_is_applied_and_the_cursor_kept() -> None:
    view, topic = View(), topic_of(7)
    with running(folder(view, topic).run):
        eventually(lambda: view.cursor() == position(6))
    assert len(view.weights) == 7
    assert view.applied == 7


def test_a_view_emptied_after_the_first_records_misses_none_of_them() -> None:
    view, topic = View(), topic_of(7)
    view.flush_at = 2  # the cursor was absent before and is absent after: only the epoch tells
    with running(folder(view, topic).run):
        eventually(lambda: view.cursor() == position(6))
    assert sorted(view.weights) == sorted(f"t{number}" for number in range(7))


def test_without_a_view_it_waits() -> None:
    view, topic = View(), topic_of(1)
    view.redis.store.clear()
    with running(folder(view, topic).run):
        assert topic.opened == []
        view.epochs.begin_epoch("e1", 0, 1)
        eventually(lambda: view.cursor() == position(0))


def test_what_cannot_be_read_is_passed_over() -> None:
    view, topic = View(), topic_of(1)
    topic.store(b"not a record")
    topic.append(ControlChange(1, "t1", "weight", "1", 0))
    with running(folder(view, topic).run):
        eventually(lambda: view.cursor() == position(2))
    assert sorted(view.weights) == ["t0", "t1"]
    assert view.kept() == {position(1): "2"}


def test_what_another_version_passed_over_is_applied_by_one_that_can_read_it() -> None:
    view, topic = View(), topic_of(3)
    topic.store(b"\x91\xa7unknown")
    view.start_at(position(3), position(1), position(3), position(9))
    with running(folder(view, topic).run):
        eventually(lambda: view.kept() == {position(3): "2"})
    assert view.positions == [position(1)]


def test_what_is_to_be_looked_at_again_waits_for_pulsar() -> None:
    view, topic = View(), topic_of(3)
    view.start_at(position(2), position(1))
    topic.broken = True
    with running(folder(view, topic).run):
        eventually(lambda: len(topic.opened) > 2)
        assert view.kept() == {position(1): "1"}
        topic.broken = False
        eventually(lambda: view.positions == [position(1)])


def test_what_is_restated_is_applied_as_if_it_stood_where_it_first_did() -> None:
    view, topic = View(), ControlTopic()
    topic.append(Restated(1, OLD, Raw(encode_control(ControlChange(1, "t0", "weight", "7", 0)))))
    topic.append(Restated(1, OLD, Raw(b"\x91\xa7unknown")))
    with running(folder(view, topic).run):
        eventually(lambda: view.cursor() == position(1))
    assert view.weights == {"t0": "7"}
    assert view.positions == [OLD]


def test_the_mark_of_another_epoch_does_not_count() -> None:
    view, topic = View(), topic_of(1)
    topic.append(EpochMark(1, "e0"))
    with running(folder(view, topic).run):
        eventually(lambda: view.cursor() == position(1))
        assert not view.marked
        topic.append(EpochMark(1, "e1"))
        eventually(lambda: view.marked)


def test_a_task_that_a_seal_completes_is_told_once_the_cursor_is_behind_the_seal() -> None:
    view, topic, reported = View(), topic_of(2), list[str]()
    topic.append(Sealed(format=1, task="t9", targets=10, refused=0, digest="", writers=["0"]))
    view.complete_at = {"t9": position(2), "t1": position(1)}
    with running(folder(view, topic, reported).run):
        eventually(lambda: reported == ["t9"])


# ------------------------------- the fold goes on from the view's cursor, whatever happens to the view or to Pulsar


class Fold(RedisFold):
    """The fold of a world of its own. applied: the records, in order."""

    def __init__(self) -> None:
        clock = VirtualClock()
        self.redis = LostRedis(clock.wall_ms)
        self.world = World(clock, view=view_of(self.redis))
        self.applied: list[bytes] = []
        super().__init__(self.world.view)

    def apply(
        self,
        partition: int,
        expected: str | None,
        cursor: str,
        records: Sequence[bytes],
        positions: Sequence[str] | None = None,
    ) -> FoldResult:
        result = super().apply(partition, expected, cursor, records, positions)
        self.applied += records if result.applied else []
        return result


def outcome_folder(
    topic: Topic,
    fold: Fold,
    held: Callable[[], bool] = lambda: True,
    finished: Callable[[Sequence[str]], None] = lambda tasks: None,
) -> OutcomeFolder:
    return OutcomeFolder(topic.open, held, finished, QUICK, SkippedRecords(fold.world.view), 0, fold)


def outcome_topic_of(count: int) -> Topic:
    topic = Topic()
    for number in range(count):
        topic.store(b"%d" % number)
    return topic


def test_every_record_is_applied_once_and_in_order() -> None:
    topic, fold = outcome_topic_of(10), Fold()
    with running(outcome_folder(topic, fold).run):
        eventually(lambda: len(fold.applied) == 10)
        topic.store(b"10")
        eventually(lambda: len(fold.applied) == 11)
    assert fold.applied == [b"%d" % number for number in range(11)]
    assert fold.cursor(0) == position(10)


def test_when_another_folder_was_here_it_reads_on_from_there() -> None:
    topic, fold = outcome_topic_of(4), Fold()
    with running(outcome_folder(topic, fold).run):
        eventually(lambda: len(fold.applied) == 4)
        fold.world.fold.apply(0, position(3), position(5), [])  # another has folded two records more
        topic.store(b"theirs")
        topic.store(b"theirs")
        topic.store(b"ours")
        eventually(lambda: fold.cursor(0) == position(6))
    assert fold.applied[4:] == [b"ours"]


def test_an_emptied_view_is_filled_from_the_beginning_without_new_records() -> None:
    topic, fold = outcome_topic_of(4), Fold()
    with running(outcome_folder(topic, fold).run):
        eventually(lambda: len(fold.applied) == 4)
        fold.world.view.wipe()
        eventually(lambda: len(fold.applied) == 8)
    assert topic.opened[-1] is None


def test_it_waits_for_redis_and_goes_on() -> None:
    topic, fold = outcome_topic_of(2), Fold()
    fold.redis.gone = True
    with running(outcome_folder(topic, fold).run):
        eventually(lambda: topic.opened == [])
        fold.redis.gone = False
        eventually(lambda: len(fold.applied) == 2)
        fold.redis.gone = True
        topic.store(b"2")
        fold.redis.gone = False
        eventually(lambda: fold.applied[-1] == b"2")


def test_it_waits_for_pulsar_and_goes_on() -> None:
    topic, fold = outcome_topic_of(2), Fold()
    topic.broken = True
    with running(outcome_folder(topic, fold).run):
        eventually(lambda: len(topic.opened) > 1)
        topic.broken = False
        eventually(lambda: len(fold.applied) == 2)


@pytest.mark.parametrize("error", [NotFound("No such topic.", "Provision."), FairlaneError("A script failed.", "")])
def test_a_refusal_does_not_end_the_folder(error: FairlaneError) -> None:
    """Another worker would take its job, and end by it too."""
    refusals, fold = iter([error, error]), Fold()

    class Refusing(Topic):
        def open(self, after: str | None) -> Reader:
            for refusal in refusals:
                raise refusal
            return super().open(after)

    topic = Refusing([*outcome_topic_of(2).records])
    with running(outcome_folder(topic, fold).run):
        eventually(lambda: len(fold.applied) == 2)


def test_it_folds_only_while_elected() -> None:
    topic, fold, elected = outcome_topic_of(2), Fold(), threading.Event()
    with running(outcome_folder(topic, fold, held=elected.is_set).run):
        assert fold.applied == []
        elected.set()
        eventually(lambda: len(fold.applied) == 2)


def test_finished_tasks_are_told() -> None:
    topic, fold, reported = Topic(), Fold(), list[str]()
    fold.world.write(task_record("t1"))
    fold.world.write(sealed("t1", 2))
    topic.store(encode_record(outcomes("t1", run(0, 2))))
    with running(outcome_folder(topic, fold, finished=reported.extend).run):
        eventually(lambda: reported == ["t1"])
