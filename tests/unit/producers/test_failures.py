"""Failed targets of a task: given up ones from letters, invalid ones from outcome records."""

from collections.abc import Iterator

from dispatcher.ports import DeadLetter
from dispatcher.wire.invalid import Reported, TargetKey
from producers.failures import by_reason, failures
from tests.records import dead_letter, invalid_target


def letter(sequence: int, outcomes: list[int]) -> DeadLetter:
    targets = [f"{sequence}:{position}" for position in range(len(outcomes))]
    return dead_letter("t", targets, sequence=sequence, at_ms=5 + sequence, outcomes=outcomes)


def reported(sequence: int, position: int, task: str = "t") -> Reported:
    target = invalid_target(f"{sequence}:{position}", task=task)
    return Reported(TargetKey("0", sequence, position), 1, target)


def test_each_target_comes_once_also_where_letters_of_an_older_worker_have_the_invalid_ones() -> None:
    letters = [letter(0, [2, 1])]
    reports = [reported(0, 1), reported(1, 0), reported(1, 0), reported(2, 0, task="other"), reported(3, 0)]
    found = list(failures(letters, reports, "t"))
    assert [(one.target, one.outcome, one.attempt) for one in found] == [
        ("0:0", "failed", 1),
        ("0:1", "invalid", 1),
        ("1:0", "invalid", 2),
        ("3:0", "invalid", 2),
    ]
    assert (found[2].reason, found[2].at_ms, found[2].channel) == ("gone", 9, "fcm")


def test_reports_are_read_until_all_are_found() -> None:
    def reports() -> Iterator[Reported]:
        yield reported(1, 0)
        yield reported(1, 1)
        raise AssertionError("the task has only two")

    assert len(list(failures([letter(0, [2])], reports(), "t", invalid=2))) == 3
    assert len(list(failures([letter(0, [1])], iter(()), "t", invalid=1))) == 1


def test_groups_say_how_many_failed_for_a_reason_and_when() -> None:
    groups = by_reason(failures([letter(0, [2, 2]), letter(3, [2])], [reported(1, 0)], "t"))
    assert [(one.outcome, one.reason, one.count, one.example) for one in groups] == [
        ("failed", "no", 3, "0:0"),
        ("invalid", "gone", 1, "1:0"),
    ]
    assert (groups[0].first_ms, groups[0].last_ms) == (5, 8)
