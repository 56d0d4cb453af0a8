"""Where a task's dead letters are, as Redis keeps it."""

from backends.redis.letter_index import BLOCK_ENTRIES, LetterIndex, LetterSpan, block_of
from backends.redis.view import WITHOUT_TASK, RedisView
from dispatcher.wire.retention import TOMBSTONE_MS
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


def test_the_number_of_letters_without_a_task_is_replaced(view: RedisView) -> None:
    stats = view.keys.stats
    for field, count in (("a", 3), ("b", 2)):
        view.command("HSET", stats, f"{WITHOUT_TASK}{field}", count)
    view.command("HSET", stats, "repeats", 7)
    LetterIndex(view).set_without_task({"b": 1, "c": 4})
    assert {name.decode(): int(count) for name, count in view.command("HGETALL", stats).items()} == {
        f"{WITHOUT_TASK}b": 1,
        f"{WITHOUT_TASK}c": 4,
        "repeats": 7,
    }
    LetterIndex(view).set_without_task({})
    assert set(view.command("HKEYS", stats)) == {b"repeats"}


def test_it_is_kept_as_long_as_an_ended_task(view: RedisView) -> None:
    LetterIndex(view).add({"t": {"1:1"}})
    assert 0 < view.command("PTTL", view.keys.letters("t")) <= TOMBSTONE_MS
