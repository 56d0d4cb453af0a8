"""Who submits a task, and how far it is written ahead, as the control topic says it."""

from dispatcher.wire.control import Announced, TakenOver
from dispatcher.wire.submission import Entries, WindowEnd, submitter_at, written_ahead
from tests.contract.registry_records import announced, position, task_record

RECORD = task_record(submitter="a", announced=10, announced_digest="d10")


def at(*entries: Announced | TakenOver) -> Entries:
    return {position(number): entry for number, entry in enumerate(entries, 1)}


def ends(entries: Entries) -> list[int]:
    return [end.targets for end in written_ahead(RECORD, entries).ends]


def test_the_record_announces_the_first_window() -> None:
    assert written_ahead(RECORD, {}) == ("a", "a", 0, (WindowEnd(10, "d10"),))
    assert written_ahead(task_record(), {}) == ("", "", 0, ())


def test_only_the_current_submitter_announces() -> None:
    entries = at(announced("a", 10, 20), announced("b", 20, 30), TakenOver(1, "t1", "b", 5), announced("a", 20, 40))
    assert ends(entries) == [10, 20]
    assert ends({**entries, position(9): announced("b", 20, 25)}) == [10, 20, 25]


def test_of_two_announcements_of_one_window_the_first_in_the_topic_counts() -> None:
    assert ends(at(announced("a", 10, 20), announced("a", 10, 30), announced("a", 20, 40))) == [10, 20, 40]


def test_a_takeover_that_is_stored_after_a_later_one_does_not_count() -> None:
    entries = at(TakenOver(1, "t1", "c", 7), TakenOver(1, "t1", "b", 5))
    assert written_ahead(RECORD, entries)[:3] == ("c", "a", 7)
    assert submitter_at(RECORD, entries, position(1)) == "a"
    assert submitter_at(RECORD, entries, position(2)) == "c"
