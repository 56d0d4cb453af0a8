"""The registry's feed, which announces changes as they happen. Entries may be missed: no reconcile needs them."""

from dataclasses import replace

from backends.redis.client import with_read_timeout
from backends.redis.view import RedisView
from dispatcher.model.view import FeedEntry

_ANSWER_S = 5.0
_START = b"0-0"


class Feed:
    """A reader of the feed with its own connection; for one thread. max_block_s: maximum time a watch may block."""

    def __init__(self, view: RedisView, max_block_s: float = 5.0) -> None:
        self._view = replace(view, client=with_read_timeout(view.client, max_block_s + _ANSWER_S))
        self._max_block_ms = int(max_block_s * 1000)

    def last(self) -> bytes:
        """Return the id of the feed's last entry. Raises Unreachable."""
        entries = self._view.command("XREVRANGE", self._view.keys.feed, "+", "-", "COUNT", 1)
        return bytes(entries[0][0]) if entries else _START

    def watch(self, after: bytes | None, block_ms: int) -> tuple[bytes, list[FeedEntry]]:
        """Return the id to continue from, and the entries after an id (None: from now on). Wait up to block_ms for the
        first. Raises Unreachable."""
        start = self.last() if after is None else after
        block = max(1, min(block_ms, self._max_block_ms))
        words = ("COUNT", 1_000, "BLOCK", block, "STREAMS", self._view.keys.feed, start)
        streams = self._view.command("XREAD", *words)
        entries = streams[0][1] if streams else []
        changes = [FeedEntry(fields[b"kind"].decode(), fields[b"task"].decode()) for _, fields in entries]
        return (bytes(entries[-1][0]) if entries else start), changes

    def close(self) -> None:
        self._view.close()
