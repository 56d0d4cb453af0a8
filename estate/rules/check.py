"""Applies rules to one look at an estate: all of them, or those of the line "what is wrong" of `estate show`."""

from collections.abc import Iterator

from dispatcher.analysis.finding import Finding, Level
from estate.rules import copies, nodes, settings
from estate.rules.cluster import Estate, Expectations
from estate.rules.node_life import NodeKind
from estate.rules.slow_nodes import JudgeSettings, NodeLook, is_slow

_WRONG = (
    nodes.answers,
    nodes.lost_brokers,
    nodes.spare_bookie,
    nodes.bookie_states,
    nodes.copies_missing,
    nodes.metadata,
)
"""Rules of what stops or slows down lanes now, or would with one node less."""


def check_estate(estate: Estate, wanted: Expectations = Expectations()) -> list[Finding]:
    """Return all findings; one that nothing is wrong with what was asked comes first."""
    return [*_asked(estate), *_findings(estate, wanted)]


def _asked(estate: Estate) -> Iterator[Finding]:
    brokers = [broker for broker in estate.brokers if broker.answered]
    bookies = [bookie for bookie in estate.bookies if bookie.answered]
    if brokers:
        known = max(len(estate.brokers), estate.broker_number or 0)
        figure = f"{len(brokers)} of {known} brokers, {len(bookies)} of {len(estate.bookies)} bookies"
        yield Finding(Level.OK, "the nodes that answered", figure=figure)


def _findings(estate: Estate, wanted: Expectations) -> Iterator[Finding]:
    for rule in (
        nodes.answers,
        nodes.lost_brokers,
        nodes.broker_number,
        nodes.spare_bookie,
        nodes.bookie_states,
        nodes.copies_missing,
        copies.bundles,
        nodes.metadata,
        nodes.strays,
        settings.load_manager,
        settings.wrong_settings,
        settings.network_speed,
        settings.differing,
        nodes.recovery_daemon,
    ):
        yield from rule(estate)
    for checked in (
        copies.quorums,
        copies.racks,
        copies.offload,
        copies.read_ahead,
        copies.system_copies,
        nodes.system_placement,
    ):
        yield from checked(estate, wanted)


def what_is_wrong(estate: Estate, bounds: JudgeSettings = JudgeSettings()) -> list[str]:
    """Return one phrase for each thing that is wrong; none if all that was asked is well."""
    found = [each for rule in _WRONG for each in rule(estate) if each.level in (Level.WARN, Level.FAIL)]
    found.sort(key=lambda each: each.level is Level.WARN)
    return [*_slow_bookies(estate, bounds), *(each.phrase for each in found), *_throttled(estate)]


def slow_bookies(estate: Estate, bounds: JudgeSettings) -> list[str]:
    """Return the bookies whose writes take much longer than their peers', as brokers see them."""
    looks = [
        NodeLook(kind=NodeKind.BOOKIE, name=bookie.name, p99_ms=bookie.broker_p99_ms, in_service=bookie.writable)
        for bookie in estate.bookies
    ]
    return [look.name for look in looks if is_slow(look, looks, bounds)]


def _slow_bookies(estate: Estate, bounds: JudgeSettings) -> Iterator[str]:
    times = {bookie.name: bookie.broker_p99_ms for bookie in estate.bookies}
    for name in slow_bookies(estate, bounds):
        yield f"bookie {name} is slow ({times[name]:.0f} ms p99, as brokers see it)"


def _throttled(estate: Estate) -> Iterator[str]:
    for broker in estate.brokers:
        if broker.throttled_connections:
            yield f"broker {broker.name} throttles {broker.throttled_connections} connections"
