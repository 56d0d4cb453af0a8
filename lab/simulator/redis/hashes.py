"""Commands on hashes and sets."""

from collections.abc import Sequence

from redis.exceptions import ResponseError

from lab.simulator.redis.commands import Answer, Commands, paged, parse_int, summed
from lab.simulator.redis.store import Hash, Set, Store

HASHES = Commands()
command = HASHES.command


HASHES.lookup("HGET", 2, 2, Hash, lambda fields, words: fields.get(words[0]))
HASHES.lookup("HMGET", 2, None, Hash, lambda fields, words: [fields.get(name) for name in words])
HASHES.lookup("HGETALL", 1, 1, Hash, lambda fields, _: [text for pair in fields.items() for text in pair])
HASHES.lookup("HKEYS", 1, 1, Hash, lambda fields, _: [*fields])
HASHES.lookup("HLEN", 1, 1, Hash, lambda fields, _: len(fields))
HASHES.lookup("HEXISTS", 2, 2, Hash, lambda fields, words: int(words[0] in fields))
HASHES.removal("HDEL", Hash, lambda fields, name: fields.pop(name, None) is not None)
HASHES.lookup("SMEMBERS", 1, 1, Set, lambda members, _: [*members])
HASHES.lookup("SISMEMBER", 2, 2, Set, lambda members, words: int(words[0] in members))
HASHES.lookup("SCARD", 1, 1, Set, lambda members, _: len(members))
HASHES.removal("SREM", Set, lambda members, member: members.pop(member, ...) is None)


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
