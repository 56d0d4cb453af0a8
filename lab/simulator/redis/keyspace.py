"""Commands on keys of any type, on streams, and on the server."""

import fnmatch
from collections.abc import Sequence

from redis.exceptions import ResponseError

from lab.simulator.redis.commands import OK, SYNTAX, Answer, Commands, StatusReply, paged, parse_int
from lab.simulator.redis.hashes import HASHES
from lab.simulator.redis.sorted_sets import SORTED_SETS
from lab.simulator.redis.store import Hash, Set, SortedSet, Store, Stream, Text
from lab.simulator.redis.texts import TEXTS

KEYSPACE = Commands()
for group in (TEXTS, HASHES, SORTED_SETS):
    KEYSPACE.include(group)
command = KEYSPACE.command


@command("PING", 0, 1)
def ping(_store: Store, words: Sequence[bytes]) -> Answer:
    return words[0] if words else StatusReply(b"PONG")


@command("TIME", 0, 0)
def time_(store: Store, _words: Sequence[bytes]) -> Answer:
    now_ms = store.now_ms()
    return [b"%d" % (now_ms // 1000), b"%d" % (now_ms % 1000 * 1000)]


@command("DBSIZE", 0, 0)
def dbsize(store: Store, _words: Sequence[bytes]) -> Answer:
    return sum(1 for _ in store.live_keys())


@command("FLUSHDB", 0)
@command("FLUSHALL", 0)
def flush(store: Store, _words: Sequence[bytes]) -> Answer:
    store.clear()
    return OK


@command("DEL", 1)
@command("UNLINK", 1)
def delete(store: Store, words: Sequence[bytes]) -> Answer:
    return sum(map(store.delete, words))


@command("EXISTS", 1)
def exists(store: Store, words: Sequence[bytes]) -> Answer:
    return sum(map(store.holds, words))


@command("RENAME", 2, 2)
def rename(store: Store, words: Sequence[bytes]) -> Answer:
    if not store.holds(words[0]):
        raise ResponseError("ERR no such key")
    if words[0] != words[1]:
        store.copy_key(words[0], words[1], replace=True)
        store.delete(words[0])
    return OK


@command("COPY", 2, 3)
def copy(store: Store, words: Sequence[bytes]) -> Answer:
    if [word.upper() for word in words[2:]] not in ([], [b"REPLACE"]):
        raise ResponseError(SYNTAX)
    if words[0] == words[1]:
        raise ResponseError("ERR source and destination objects are the same")
    return int(store.copy_key(words[0], words[1], replace=len(words) > 2))


@command("SCAN", 1)
def scan(store: Store, words: Sequence[bytes]) -> Answer:
    """Return all matching keys at once, in the order they were added.

    With paging, a key that is deleted in between could hide another.
    """
    _, options = paged(words[0], words[1:])
    pattern = options.get(b"MATCH", b"*").decode("latin-1")
    return [b"0", [key for key in store.live_keys() if fnmatch.fnmatchcase(key.decode("latin-1"), pattern)]]


# ---------------------------------------------------------------- expiry
@command("PEXPIRE", 2, 2)
def pexpire(store: Store, words: Sequence[bytes]) -> Answer:
    return int(store.expire_at(words[0], store.now_ms() + parse_int(words[1])))


@command("PERSIST", 1, 1)
def persist(store: Store, words: Sequence[bytes]) -> Answer:
    return int(store.persist(words[0]))


@command("PTTL", 1, 1)
def pttl(store: Store, words: Sequence[bytes]) -> Answer:
    if not store.holds(words[0]):
        return -2
    at_ms = store.expires_ms(words[0])
    return -1 if at_ms is None else at_ms - store.now_ms()


@command("TYPE", 1, 1)
def type_(store: Store, words: Sequence[bytes]) -> Answer:
    names = {Text: b"string", Hash: b"hash", Set: b"set", SortedSet: b"zset", Stream: b"stream"}
    return StatusReply(names[store.kind(words[0])]) if store.holds(words[0]) else StatusReply(b"none")


# ---------------------------------------------------------------- streams
KEYSPACE.lookup("XLEN", 1, 1, Stream, lambda stream, _: len(stream))


@command("XADD", 4)
def xadd(store: Store, words: Sequence[bytes]) -> Answer:
    """Add an entry with an id that the server makes. The length is always exact, even with `~`."""
    key, *rest = words
    max_length = None
    if rest[0].upper() == b"MAXLEN":
        rest = rest[2:] if rest[1] in (b"~", b"=") else rest[1:]
        max_length, rest = parse_int(rest[0]), rest[1:]
    name, *fields = rest
    if name != b"*" or not fields or len(fields) % 2:
        raise ResponseError("ERR wrong number of arguments for 'xadd' command")
    stream = store.make(key, Stream)
    stream.last = max((store.now_ms(), 0), (stream.last[0], stream.last[1] + 1))
    stream.entries.append((stream.last, fields))
    if max_length is not None:
        del stream.entries[: max(0, len(stream.entries) - max_length)]
    return b"%d-%d" % stream.last
