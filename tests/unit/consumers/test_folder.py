"""The fold goes on from the view's cursor, whatever happens to the view or to Pulsar."""

import threading
from collections.abc import Callable, Sequence

import pytest

from consumers.upkeep.folder import FoldSettings, OutcomeFolder
from dispatcher.model.errors import FairlaneError, NotFound
from tests.actors import running
from tests.contract.registry_records import position
from tests.unit.consumers.fakes import FakeFold, Reader, Topic, eventually

QUICK = FoldSettings(batch=3, poll_s=0.001, idle_check_s=0.002, pause_s=0.01)


def folder(
    topic: Topic,
    fold: FakeFold,
    held: Callable[[], bool] = lambda: True,
    finished: Callable[[Sequence[str]], None] = lambda tasks: None,
) -> OutcomeFolder:
    return OutcomeFolder(0, fold, topic.open, held, finished, QUICK)


def topic_of(count: int) -> Topic:
    topic = Topic()
    for number in range(count):
        topic.store(b"%d" % number)
    return topic


def test_every_record_is_applied_once_and_in_order() -> None:
    topic, fold = topic_of(10), FakeFold()
    with running(folder(topic, fold).run):
        eventually(lambda: len(fold.applied) == 10)
        topic.store(b"10")
        eventually(lambda: len(fold.applied) == 11)
    assert fold.applied == [b"%d" % number for number in range(11)]
    assert fold.cursors[0] == position(10)


def test_it_goes_on_behind_the_cursor_the_view_holds() -> None:
    topic, fold = topic_of(5), FakeFold(cursors={0: position(2)})
    with running(folder(topic, fold).run):
        eventually(lambda: len(fold.applied) == 2)
    assert fold.applied == [b"3", b"4"]


def test_when_another_folder_was_here_it_reads_on_from_there() -> None:
    topic, fold = topic_of(4), FakeFold()
    with running(folder(topic, fold).run):
        eventually(lambda: len(fold.applied) == 4)
        fold.cursors[0] = position(5)  # as if another had folded two records more
        topic.store(b"theirs")
        topic.store(b"theirs")
        topic.store(b"ours")
        eventually(lambda: fold.cursors[0] == position(6))
    assert fold.applied[4:] == [b"ours"]


def test_an_emptied_view_is_filled_from_the_beginning_without_new_records() -> None:
    topic, fold = topic_of(4), FakeFold()
    with running(folder(topic, fold).run):
        eventually(lambda: len(fold.applied) == 4)
        fold.flush()
        eventually(lambda: len(fold.applied) == 4)
    assert topic.opened[-1] is None


def test_it_waits_for_redis_and_goes_on() -> None:
    topic, fold = topic_of(2), FakeFold(gone=True)
    with running(folder(topic, fold).run):
        eventually(lambda: topic.opened == [])
        fold.gone = False
        eventually(lambda: len(fold.applied) == 2)
        fold.gone = True
        topic.store(b"2")
        fold.gone = False
        eventually(lambda: fold.applied[-1] == b"2")


def test_it_waits_for_pulsar_and_goes_on() -> None:
    topic, fold = topic_of(2), FakeFold()
    topic.broken = True
    with running(folder(topic, fold).run):
        eventually(lambda: len(topic.opened) > 1)
        topic.broken = False
        eventually(lambda: len(fold.applied) == 2)


@pytest.mark.parametrize("error", [NotFound("No such topic.", "Provision."), FairlaneError("A script failed.", "")])
def test_a_refusal_does_not_end_the_folder(error: FairlaneError) -> None:
    """Another worker would take its seat, and end by it too."""
    refusals, fold = iter([error, error]), FakeFold()

    class Refusing(Topic):
        def open(self, after: str | None) -> Reader:
            for refusal in refusals:
                raise refusal
            return super().open(after)

    topic = Refusing([*topic_of(2).records])
    with running(folder(topic, fold).run):
        eventually(lambda: len(fold.applied) == 2)


def test_it_folds_only_while_elected() -> None:
    topic, fold, elected = topic_of(2), FakeFold(), threading.Event()
    with running(folder(topic, fold, held=elected.is_set).run):
        assert fold.applied == []
        elected.set()
        eventually(lambda: len(fold.applied) == 2)


def test_finished_tasks_are_told() -> None:
    reported: list[str] = []
    with running(folder(topic_of(1), FakeFold(finished=["t1"]), finished=reported.extend).run):
        eventually(lambda: reported == ["t1"])
