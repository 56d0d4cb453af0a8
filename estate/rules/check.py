"""Applies all rules to one look at an estate."""

from collections.abc import Iterator

from dispatcher.analysis.finding import Finding, Level
from estate.cluster import Estate
from estate.rules import copies, nodes, settings
from estate.rules.expectations import Expectations


def check_estate(estate: Estate, wanted: Expectations = Expectations()) -> list[Finding]:
    """Return all findings; one that nothing is wrong with what was asked comes first."""
    return [*_asked(estate), *_findings(estate, wanted)]


def _asked(estate: Estate) -> Iterator[Finding]:
    brokers = [one for one in estate.brokers if one.answered]
    bookies = [one for one in estate.bookies if one.answered]
    if brokers:
        figure = f"{len(brokers)} of {len(estate.brokers)} brokers, {len(bookies)} of {len(estate.bookies)} bookies"
        yield Finding(Level.OK, "the nodes that answered", figure=figure)


def _findings(estate: Estate, wanted: Expectations) -> Iterator[Finding]:
    for rule in (
        nodes.answers,
        nodes.spare_bookie,
        nodes.bookie_states,
        nodes.copies_missing,
        copies.bundles,
        nodes.metadata,
        nodes.strays,
        settings.load_manager,
        settings.wrong_settings,
        settings.quarantine,
        settings.eviction,
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
