"""Where a task's dead letters are, as Redis keeps it."""

from backends.redis.letter_index import BLOCK_ENTRIES, LetterIndex, LetterSpan, block_of
from backends.redis.view import SET_APART, WITHOUT_TASK, RedisView
from dispatcher.model.task import TOMBSTONE_MS
from tests.contract.registry_records import position


def test_blocks_become_the_parts_of_the_topic_that_are_to_be_read(view: RedisView) -> None:
    index = LetterIndex(view)
    entries = [(0, 12), (BLOCK_ENTRIES - 1, 12), (BLOCK_ENTRIES, 12), (5 * BLOCK_ENTRIES, 12), (1, 9)]
    index.add({"t": {block_of(position(*entry)) for entry in entries}, "other": {block_of(position(1, 12))}})
    assert index.spans("t") == [
        LetterSpan(position(-1, 9), position(BLOCK_ENTRIES, 9)),
        LetterSpan(position(-1, 12), position(2 * BLOCK_ENTRIES, 12)),
        LetterSpan(position(5 * BLOCK_ENTRIES - 1, 12), position(6 * BLOCK_ENTRIES, 12)),
    ]
    assert len(index.spans("other")) == 1
    assert index.spans("nobody") == []


def test_the_numbers_of_letters_that_doctor_names_are_replaced(view: RedisView) -> None:
    stats = view.keys.stats
    lane, task = f"{WITHOUT_TASK}a", f"{SET_APART}t"
    for field in (lane, task, f"{task}2", "repeats"):
        view.command("HSET", stats, field, 7)

    def stored() -> dict[str, int]:
        return {name.decode(): int(count) for name, count in view.command("HGETALL", stats).items()}

    index = LetterIndex(view)
    index.set_counts({}, task)
    assert stored() == {lane: 7, f"{task}2": 7, "repeats": 7}
    index.set_counts({f"{WITHOUT_TASK}b": 4}, WITHOUT_TASK)
    assert stored() == {f"{WITHOUT_TASK}b": 4, f"{task}2": 7, "repeats": 7}
    index.set_counts({task: 1})
    assert stored() == {task: 1, "repeats": 7}


def test_it_is_kept_as_long_as_an_ended_task(view: RedisView) -> None:
    LetterIndex(view).add({"t": {"1:1"}})
    assert 0 < view.command("PTTL", view.keys.letters("t")) <= TOMBSTONE_MS
