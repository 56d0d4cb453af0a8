"""Commands on sorted sets."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from redis.exceptions import ResponseError

from simulator.redis.commands import SYNTAX, Answer, Commands, number, paged, parse_int, shown
from simulator.redis.store import SortedSet, Store

SORTED_SETS = Commands()
command = SORTED_SETS.command
_NOT_A_SCORE = "ERR value is not a valid float"
_NOT_A_BOUND = "ERR min or max is not a float"


@command("ZADD", 3)
def zadd(store: Store, words: Sequence[bytes]) -> Answer:
    if len(words) % 2 == 0:
        raise ResponseError(SYNTAX)
    scores = [number(text, _NOT_A_SCORE) for text in words[1::2]]
    members = store.make(words[0], SortedSet)
    return sum(members.put(member, score) for member, score in zip(words[2::2], scores, strict=True))


@command("ZREM", 2)
def zrem(store: Store, words: Sequence[bytes]) -> Answer:
    members = store.get(words[0], SortedSet)
    if members is None:
        return 0
    gone = sum(members.remove(member) for member in words[1:])
    store.tidy(words[0], members)
    return gone


@command("ZCARD", 1, 1)
def zcard(store: Store, words: Sequence[bytes]) -> Answer:
    return len(store.get(words[0], SortedSet) or ())


@command("ZSCORE", 2, 2)
def zscore(store: Store, words: Sequence[bytes]) -> Answer:
    return _score(store.get(words[0], SortedSet), words[1])


@command("ZMSCORE", 2)
def zmscore(store: Store, words: Sequence[bytes]) -> Answer:
    members = store.get(words[0], SortedSet)
    return [_score(members, member) for member in words[1:]]


@command("ZREVRANK", 2, 2)
def zrevrank(store: Store, words: Sequence[bytes]) -> Answer:
    members = store.get(words[0], SortedSet)
    rank = None if members is None else members.rank(words[1])
    return None if members is None or rank is None else len(members) - 1 - rank


@command("ZRANGE", 3, 4)
def zrange(store: Store, words: Sequence[bytes]) -> Answer:
    return _by_rank(store, words, backwards=False)


@command("ZREVRANGE", 3, 4)
def zrevrange(store: Store, words: Sequence[bytes]) -> Answer:
    return _by_rank(store, words, backwards=True)


@command("ZCOUNT", 3, 3)
def zcount(store: Store, words: Sequence[bytes]) -> Answer:
    members = store.get(words[0], SortedSet)
    first, end = _index_range(members, words[1], words[2])
    return max(0, end - first)


@command("ZRANGEBYSCORE", 3)
def zrangebyscore(store: Store, words: Sequence[bytes]) -> Answer:
    options = [word.upper() for word in words[3:]]
    skip, limit = 0, -1
    if b"LIMIT" in options:
        at = options.index(b"LIMIT")
        if at + 2 >= len(options):
            raise ResponseError(SYNTAX)
        skip, limit = parse_int(words[3 + at + 1]), parse_int(words[3 + at + 2])
        del options[at : at + 3]
    if options not in ([], [b"WITHSCORES"]):
        raise ResponseError(SYNTAX)
    members = store.get(words[0], SortedSet)
    first, end = _index_range(members, words[1], words[2])
    chosen = [] if members is None or skip < 0 else members.order[first:end][skip:]
    return _listed(chosen if limit < 0 else chosen[:limit], with_scores=bool(options))


@command("ZSCAN", 2)
def zscan(store: Store, words: Sequence[bytes]) -> Answer:
    part, _ = paged(words[1], words[2:])
    members = store.get(words[0], SortedSet)
    order = [] if members is None else members.order
    return [b"%d" % (part.stop if part.stop < len(order) else 0), _listed(order[part], with_scores=True)]


def _score(members: SortedSet | None, member: bytes) -> bytes | None:
    score = None if members is None else members.scores.get(member)
    return None if score is None else shown(score)


def _by_rank(store: Store, words: Sequence[bytes], *, backwards: bool) -> Answer:
    key, *ends = words[:3]
    if [word.upper() for word in words[3:]] not in ([], [b"WITHSCORES"]):
        raise ResponseError(SYNTAX)
    first, last = map(parse_int, ends)
    members = store.get(key, SortedSet)
    order = [] if members is None else members.order[::-1] if backwards else members.order
    first, last = (max(0, len(order) + end) if end < 0 else end for end in (first, last))
    if last < 0 or (parse_int(ends[1]) < 0 and len(order) + parse_int(ends[1]) < 0):
        return []
    return _listed(order[first : last + 1], with_scores=len(words) > 3)


def _index_range(members: SortedSet | None, low: bytes, high: bytes) -> tuple[int, int]:
    """Return the index of the first member in a range of scores, and the index after the last."""
    (first, first_open), (last, last_open) = _bound(low), _bound(high)
    if members is None:
        return 0, 0
    order = members.order
    begin = _behind(order, first) if first_open else bisect_left(order, (first, b""))
    end = bisect_left(order, (last, b"")) if last_open else _behind(order, last)
    return begin, end


def _behind(order: Sequence[tuple[float, bytes]], score: float) -> int:
    return bisect_right(order, score, key=lambda entry: entry[0])


def _bound(text: bytes) -> tuple[float, bool]:
    """Return a bound, and whether it is exclusive."""
    is_open = text[:1] == b"("
    return number(text[is_open:] or b"0", _NOT_A_BOUND), is_open


def _listed(chosen: Sequence[tuple[float, bytes]], *, with_scores: bool) -> Answer:
    if not with_scores:
        return [member for _, member in chosen]
    return [text for score, member in chosen for text in (member, shown(score))]
