"""The line "what is wrong" of `estate show`: what stops or slows down lanes now, or would with one node less."""

from collections.abc import Iterator

from dispatcher.analysis.finding import Level
from estate.cluster import Estate
from estate.node_life import NodeKind
from estate.rules import nodes
from estate.verdicts import JudgeSettings, NodeLook, is_slow

_RULES = (nodes.answers, nodes.spare_bookie, nodes.bookie_states, nodes.copies_missing, nodes.metadata)


def what_is_wrong(estate: Estate, settings: JudgeSettings = JudgeSettings()) -> list[str]:
    """Return one phrase for each thing that is wrong; none if all that was asked is well."""
    found = [one for rule in _RULES for one in rule(estate) if one.level in (Level.WARN, Level.FAIL)]
    found.sort(key=lambda one: one.level is Level.WARN)
    return [*_slow_bookies(estate, settings), *(one.phrase for one in found), *_throttled(estate)]


def slow_bookies(estate: Estate, settings: JudgeSettings) -> list[str]:
    """Return the bookies whose writes take much longer than their peers', as brokers see them."""
    looks = [
        NodeLook(kind=NodeKind.BOOKIE, name=one.name, p99_ms=one.broker_p99_ms, in_service=one.writable)
        for one in estate.bookies
    ]
    return [one.name for one in looks if is_slow(one, looks, settings)]


def _slow_bookies(estate: Estate, settings: JudgeSettings) -> Iterator[str]:
    times = {one.name: one.broker_p99_ms for one in estate.bookies}
    for name in slow_bookies(estate, settings):
        yield f"bookie {name} is slow ({times[name]:.0f} ms p99, as brokers see it)"


def _throttled(estate: Estate) -> Iterator[str]:
    for one in estate.brokers:
        if one.throttled_connections:
            yield f"broker {one.name} throttles {one.throttled_connections} connections"
