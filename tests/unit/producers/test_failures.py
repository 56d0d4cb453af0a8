"""Failed targets of a task: given up ones from letters, invalid ones from outcome records."""

from collections.abc import Iterator

from dispatcher.ports import DeadLetter
from dispatcher.wire.invalid import InvalidTarget, Reported, TargetKey
from producers.failures import by_reason, failures


def letter(sequence: int, outcomes: list[int], attempt: int = 0) -> DeadLetter:
    count = len(outcomes)
    return DeadLetter(
        format=1,
        task="t",
        writer="0",
        sequence=sequence,
        attempt=attempt,
        at_ms=5 + sequence,
        channel="fcm",
        positions=list(range(count)),
        targets=[f"{sequence}:{position}" for position in range(count)],
        outcomes=outcomes,
        reasons=["no route"] * count,
    )


def reported(sequence: int, position: int, task: str = "t") -> Reported:
    target = InvalidTarget(
        app="shop", channel="fcm", target=f"{sequence}:{position}", reason="gone", died_ms=3, seen_ms=9, task=task
    )
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
        ("failed", "no route", 3, "0:0"),
        ("invalid", "gone", 1, "1:0"),
    ]
    assert (groups[0].first_ms, groups[0].last_ms) == (5, 8)
