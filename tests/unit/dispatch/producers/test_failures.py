"""Failed targets of a task: given up ones from letters, invalid ones from outcome records."""

from collections.abc import Iterator

from dispatcher.ports import DeadLetter
from dispatcher.wire.outcome import Named, Outcome, Outcomes, Run
from producers.outcomes.record import group_by_reason
from producers.outcomes.recorded import failures
from tests.records import dead_letter
from tests.records import outcomes as record


def letter(sequence: int, targets: int) -> DeadLetter:
    names = [f"{sequence}:{position}" for position in range(targets)]
    return dead_letter("t", names, sequence=sequence, at_ms=5 + sequence)


def invalid(sequence: int, targets: int = 1, task: str = "t") -> Outcomes:
    """A record of the second attempt of an envelope whose targets are all invalid."""
    names = [f"{sequence}:{position}" for position in range(targets)]
    run = Run(writer="0", attempt=1, first=sequence, count=1, size=targets, code=int(Outcome.INVALID))
    named = Named(writer="0", attempt=1, sequence=sequence, positions=None, targets=names, reasons=["gone"] * targets)
    return record(run, named, task=task, at_ms=9, channel="fcm")


def test_each_target_comes_once() -> None:
    records = [invalid(1), invalid(1), invalid(2, task="other"), invalid(3)]
    found = list(failures([letter(0, 1)], records, "t"))
    assert [(one.target, one.outcome, one.attempt) for one in found] == [
        ("0:0", "failed", 1),
        ("1:0", "invalid", 2),
        ("3:0", "invalid", 2),
    ]
    assert (found[1].reason, found[1].at_ms, found[1].channel) == ("gone", 9, "fcm")


def test_records_are_read_until_all_invalid_targets_are_found() -> None:
    def records() -> Iterator[Outcomes]:
        yield invalid(1, targets=2)
        raise AssertionError("the task has only two")

    assert len(list(failures([letter(0, 1)], records(), "t", invalid=2))) == 3
    assert len(list(failures([letter(0, 1)], records(), "t", invalid=0))) == 1


def test_groups_say_how_many_failed_for_a_reason_and_when() -> None:
    groups = group_by_reason(failures([letter(0, 2), letter(3, 1)], [invalid(1)], "t"))
    assert [(one.outcome, one.reason, one.count, one.example) for one in groups] == [
        ("failed", "no", 3, "0:0"),
        ("invalid", "gone", 1, "1:0"),
    ]
    assert (groups[0].first_ms, groups[0].last_ms) == (5, 8)
