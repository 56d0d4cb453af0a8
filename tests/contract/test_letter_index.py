"""Where a task's dead letters are, as Redis keeps it."""

from backends.redis.letter_index import BLOCK_ENTRIES, LetterIndex, LetterSpan, block_of
from backends.redis.view import RedisView
from dispatcher.wire.retention import TOMBSTONE_MS


def position(ledger: int, entry: int) -> str:
    return f"{ledger:020d}:{entry:020d}:000000"


def test_blocks_become_the_parts_of_the_topic_that_are_to_be_read(view: RedisView) -> None:
    index = LetterIndex(view)
    entries = [(12, 0), (12, BLOCK_ENTRIES - 1), (12, BLOCK_ENTRIES), (12, 5 * BLOCK_ENTRIES), (9, 1)]
    index.add({"t": {block_of(position(*entry)) for entry in entries}, "other": {block_of(position(12, 1))}})
    assert index.spans("t") == [
        LetterSpan(position(9, -1), position(9, BLOCK_ENTRIES)),
        LetterSpan(position(12, -1), position(12, 2 * BLOCK_ENTRIES)),
        LetterSpan(position(12, 5 * BLOCK_ENTRIES - 1), position(12, 6 * BLOCK_ENTRIES)),
    ]
    assert len(index.spans("other")) == 1
    assert index.spans("nobody") == []


def test_it_is_kept_as_long_as_an_ended_task(view: RedisView) -> None:
    LetterIndex(view).add({"t": {"1:1"}})
    assert 0 < view.command("PTTL", view.keys.letters("t")) <= TOMBSTONE_MS
