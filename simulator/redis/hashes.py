"""Commands on hashes and sets."""

from collections.abc import Sequence

from redis.exceptions import ResponseError

from simulator.redis.commands import Answer, Commands, paged, parse_int, summed
from simulator.redis.store import Hash, Set, Store

HASHES = Commands()
command = HASHES.command


@command("HGET", 2, 2)
def hget(store: Store, words: Sequence[bytes]) -> Answer:
    fields = store.get(words[0], Hash)
    return None if fields is None else fields.get(words[1])


@command("HMGET", 2)
def hmget(store: Store, words: Sequence[bytes]) -> Answer:
    fields = store.get(words[0], Hash)
    return [None] * (len(words) - 1) if fields is None else [fields.get(name) for name in words[1:]]


@command("HGETALL", 1, 1)
def hgetall(store: Store, words: Sequence[bytes]) -> Answer:
    return [text for pair in (store.get(words[0], Hash) or {}).items() for text in pair]


@command("HKEYS", 1, 1)
def hkeys(store: Store, words: Sequence[bytes]) -> Answer:
    return [*(store.get(words[0], Hash) or ())]


@command("HLEN", 1, 1)
def hlen(store: Store, words: Sequence[bytes]) -> Answer:
    return len(store.get(words[0], Hash) or ())


@command("HEXISTS", 2, 2)
def hexists(store: Store, words: Sequence[bytes]) -> Answer:
    return int(words[1] in (store.get(words[0], Hash) or ()))


@command("HSET", 3)
def hset(store: Store, words: Sequence[bytes]) -> Answer:
    if len(words) % 2 == 0:
        raise ResponseError("ERR wrong number of arguments for 'hset' command")
    fields = store.make(words[0], Hash)
    before = len(fields)
    fields.update(zip(words[1::2], words[2::2], strict=True))
    return len(fields) - before


@command("HSETNX", 3, 3)
def hsetnx(store: Store, words: Sequence[bytes]) -> Answer:
    fields = store.make(words[0], Hash)
    if words[1] in fields:
        return 0
    fields[words[1]] = words[2]
    return 1


@command("HINCRBY", 3, 3)
def hincrby(store: Store, words: Sequence[bytes]) -> Answer:
    by = parse_int(words[2])
    fields = store.get(words[0], Hash)
    before = None if fields is None else fields.get(words[1])
    try:
        total = summed(before, by)
    except ResponseError as error:
        wrong = "ERR hash value is not an integer" if before is not None and "overflow" not in str(error) else error
        raise ResponseError(str(wrong)) from None
    store.make(words[0], Hash)[words[1]] = b"%d" % total
    return total


@command("HDEL", 2)
def hdel(store: Store, words: Sequence[bytes]) -> Answer:
    fields = store.get(words[0], Hash)
    if fields is None:
        return 0
    gone = sum(fields.pop(name, None) is not None for name in words[1:])
    store.tidy(words[0], fields)
    return gone


@command("HSCAN", 2)
def hscan(store: Store, words: Sequence[bytes]) -> Answer:
    part, _ = paged(words[1], words[2:])
    pairs = [*(store.get(words[0], Hash) or {}).items()]
    page: list[Answer] = [text for pair in pairs[part] for text in pair]
    return [b"%d" % (part.stop if part.stop < len(pairs) else 0), page]


# ---------------------------------------------------------------- sets
@command("SADD", 2)
def sadd(store: Store, words: Sequence[bytes]) -> Answer:
    members = store.make(words[0], Set)
    before = len(members)
    members.update(dict.fromkeys(words[1:]))
    return len(members) - before


@command("SREM", 2)
def srem(store: Store, words: Sequence[bytes]) -> Answer:
    members = store.get(words[0], Set)
    if members is None:
        return 0
    before = len(members)
    for member in words[1:]:
        members.pop(member, None)
    gone = before - len(members)
    store.tidy(words[0], members)
    return gone


@command("SMEMBERS", 1, 1)
def smembers(store: Store, words: Sequence[bytes]) -> Answer:
    return [*(store.get(words[0], Set) or ())]


@command("SISMEMBER", 2, 2)
def sismember(store: Store, words: Sequence[bytes]) -> Answer:
    return int(words[1] in (store.get(words[0], Set) or ()))


@command("SCARD", 1, 1)
def scard(store: Store, words: Sequence[bytes]) -> Answer:
    return len(store.get(words[0], Set) or ())
