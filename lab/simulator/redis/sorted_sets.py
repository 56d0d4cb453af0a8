"""Commands on sorted sets."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from redis.exceptions import ResponseError

from lab.simulator.redis.commands import SYNTAX, Answer, Commands, number, paged, parse_int, shown
from lab.simulator.redis.store import SortedSet, Store

SORTED_SETS = Commands()
command = SORTED_SETS.command
Order = Sequence[tuple[float, bytes]]
_NOT_A_SCORE = "ERR value is not a valid float"
_NOT_A_BOUND = "ERR min or max is not a float"


@command("ZADD", 3)
def zadd(store: Store, words: Sequence[bytes]) -> Answer:
    if len(words) % 2 == 0:
        raise ResponseError(SYNTAX)
    scores = [number(text, _NOT_A_SCORE) for text in words[1::2]]
    members = store.make(words[0], SortedSet)
    return sum(members.put(member, score) for member, score in zip(words[2::2], scores, strict=True))


def _rank_from_highest(members: SortedSet, words: Sequence[bytes]) -> Answer:
    rank = members.rank(words[0])
    return None if rank is None else len(members) - 1 - rank


SORTED_SETS.removal("ZREM", SortedSet, SortedSet.remove)
SORTED_SETS.lookup("ZCARD", 1, 1, SortedSet, lambda members, _: len(members))
SORTED_SETS.lookup("ZSCORE", 2, 2, SortedSet, lambda members, words: _score(members, words[0]))
SORTED_SETS.lookup("ZMSCORE", 2, None, SortedSet, lambda members, words: [_score(members, word) for word in words])
SORTED_SETS.lookup("ZREVRANK", 2, 2, SortedSet, _rank_from_highest)
SORTED_SETS.lookup("ZRANGE", 3, 4, SortedSet, lambda members, words: _by_rank(members.order, words))
SORTED_SETS.lookup("ZREVRANGE", 3, 4, SortedSet, lambda members, words: _by_rank(members.order[::-1], words))
SORTED_SETS.lookup("ZCOUNT", 3, 3, SortedSet, lambda members, words: len(_between(members.order, words)))


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
    members = store.get(words[0], SortedSet) or SortedSet()
    found = _between(members.order, words[1:3])
    chosen = [] if skip < 0 else found[skip:]
    return _listed(chosen if limit < 0 else chosen[:limit], with_scores=bool(options))


@command("ZSCAN", 2)
def zscan(store: Store, words: Sequence[bytes]) -> Answer:
    part, _ = paged(words[1], words[2:])
    order = (store.get(words[0], SortedSet) or SortedSet()).order
    return [b"%d" % (part.stop if part.stop < len(order) else 0), _listed(order[part], with_scores=True)]


def _score(members: SortedSet, member: bytes) -> bytes | None:
    score = members.scores.get(member)
    return None if score is None else shown(score)


def _by_rank(order: Order, words: Sequence[bytes]) -> Answer:
    if [word.upper() for word in words[2:]] not in ([], [b"WITHSCORES"]):
        raise ResponseError(SYNTAX)
    first, last = (end if end >= 0 else len(order) + end for end in map(parse_int, words[:2]))
    return _listed(order[max(0, first) : max(0, last + 1)], with_scores=len(words) > 2)


def _between(order: Order, bounds: Sequence[bytes]) -> Order:
    """Return the members in a range of scores."""
    (first, first_open), (last, last_open) = map(_bound, bounds)
    begin = _behind(order, first) if first_open else bisect_left(order, (first, b""))
    return order[begin : bisect_left(order, (last, b"")) if last_open else _behind(order, last)]


def _behind(order: Order, score: float) -> int:
    return bisect_right(order, score, key=lambda entry: entry[0])


def _bound(text: bytes) -> tuple[float, bool]:
    """Return a bound, and whether it is exclusive."""
    is_open = text[:1] == b"("
    return number(text[is_open:] or b"0", _NOT_A_BOUND), is_open


def _listed(chosen: Order, *, with_scores: bool) -> Answer:
    if not with_scores:
        return [member for _, member in chosen]
    return [text for score, member in chosen for text in (member, shown(score))]
