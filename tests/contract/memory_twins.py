"""Contents of a server, to compare a real one with one in memory."""

from typing import Any


def contents_of(client: Any, match: str = "*") -> dict[bytes, Any]:
    """Return every key with its type, its value and whether it expires."""
    found = sorted(client.scan_iter(match, count=1_000))
    pipeline = client.pipeline(transaction=False)
    for key in found:
        pipeline.type(key)
        pipeline.pttl(key)
    kinds = pipeline.execute()
    for key, kind in zip(found, kinds[::2], strict=True):
        READERS[bytes(kind)](pipeline, key)
    values = pipeline.execute()
    return {
        key: (kind, value, left_ms >= 0)
        for key, kind, left_ms, value in zip(found, kinds[::2], kinds[1::2], values, strict=True)
    }


READERS: dict[bytes, Any] = {
    b"string": lambda pipeline, key: pipeline.get(key),
    b"hash": lambda pipeline, key: pipeline.hgetall(key),
    b"set": lambda pipeline, key: pipeline.smembers(key),
    b"zset": lambda pipeline, key: pipeline.zrange(key, 0, -1, withscores=True),
    b"stream": lambda pipeline, key: pipeline.xlen(key),
}
