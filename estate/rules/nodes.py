"""Findings about nodes: which answer, which are lost, full or read-only, and whether another one may be lost."""

import re
from collections.abc import Iterator

from dispatcher.analysis.finding import Finding, Level, warn
from estate.rules.cluster import BookieMode, Estate, Expectations, LoadManager

DISK_FULL = 0.90
"""A bookie with a disk that is used up to here is reported, and not well enough to be released by a guard."""
METADATA_SLOW_MS = 300.0
STANDALONE = "isRunningStandalone"


def is_standalone(estate: Estate) -> bool:
    """Return whether this is Pulsar's standalone server: one process for development."""
    named = {broker.settings[STANDALONE] for broker in estate.brokers if STANDALONE in broker.settings}
    if named:
        return named == {"true"}
    alone = len(estate.brokers) == 1 and len(estate.bookies) <= 1
    return alone and estate.brokers[0].manager is LoadManager.NONE


def answers(estate: Estate) -> Iterator[Finding]:
    """Report nodes that did not answer. A node that was not asked is never well."""
    for broker in estate.brokers:
        if broker.failure:
            yield Finding(
                Level.FAIL,
                f"broker {broker.name} {'is gone' if broker.gone else 'does not answer'}",
                figure=broker.failure,
                reason="the others serve its lanes" if broker.gone else "its lanes stop until another broker has them",
                fix="Look at its process and its log.",
            )
    for bookie in estate.bookies:
        if estate.bookies_asked and bookie.failure and bookie.mode is not BookieMode.GONE:
            yield warn(
                f"bookie {bookie.name} was not looked at",
                figure=bookie.failure,
                reason="whether it is slow or full is unknown",
                fix="Set httpServerEnabled=true in its configuration, and estate.bookie_http to its address.",
            )
    if not estate.bookies_asked and "bookies" not in estate.unread:
        yield _bookies_unasked(estate)
    yield from _unread(estate)


def _bookies_unasked(estate: Estate) -> Finding:
    if is_standalone(estate):
        what = "the bookie inside of the standalone Pulsar was not looked at"
        return Finding(Level.NOTE, what, reason="it has no HTTP interface")
    return warn(
        "the bookies were not looked at",
        figure=f"{len(estate.bookies)} bookies",
        reason="whether one may be lost, or is slow or full, is unknown",
        fix="Set estate.bookie_http, as in http://{host}:8000, and httpServerEnabled=true in their configuration.",
    )


def _unread(estate: Estate) -> Iterator[Finding]:
    for what in ("brokers", "bookies"):
        if what in estate.unread:
            yield Finding(
                Level.FAIL,
                f"the list of {what} could not be read",
                figure=estate.unread[what],
                reason="none of them was looked at" if what == "bookies" else "only the configured address was asked",
                fix="Check pulsar.admin_url, and the token's rights.",
            )
    if "brokers" in estate.unread:
        return
    policies = [what for what in estate.unread if what.startswith("policies/") and "404" not in estate.unread[what]]
    if policies:
        yield warn(
            "the policies of some namespaces could not be read",
            figure=f"{len(policies)}, the first: {estate.unread[policies[0]]}",
            reason="the copies of their entries are unknown",
            fix="Try again; check the token's rights.",
        )
    unread_settings = [broker.name for broker in estate.brokers if broker.answered and not broker.settings]
    if unread_settings:
        yield warn(
            f"the settings of broker {', '.join(unread_settings)} could not be read",
            reason="the checks of broker settings were left out for it",
            fix="Give the token an administrator's rights.",
        )


def lost_brokers(estate: Estate) -> Iterator[Finding]:
    """Report lost brokers by their number: Pulsar forgets a broker as soon as its session has ended."""
    answering, number = _answering_brokers(estate), estate.broker_number
    if answering is not None and number is not None and answering < number:
        yield Finding(
            Level.FAIL,
            "brokers are lost",
            figure=f"{answering} of {number} answer",
            reason="the others carry their load",
            fix="Start them again. If they are gone for good, set estate.brokers to the number that is left.",
        )
    if answering == 1:
        yield warn(
            "no broker to spare",
            figure="1 answers",
            reason="if it is lost, every lane stops until it is back",
            fix="Start or add another broker.",
        )


def broker_number(estate: Estate) -> Iterator[Finding]:
    """Report a number of brokers by which a lost one would not be noticed."""
    answering, number = _answering_brokers(estate), estate.broker_number
    if answering is not None and number is None:
        yield warn(
            "the number of brokers is not known",
            reason="a lost broker is forgotten when its session ends",
            fix="Run `fairlane provision`, or set estate.brokers.",
        )
    elif answering is not None and number is not None and answering > number:
        yield warn(
            "there are more brokers than expected",
            figure=f"{answering} answer, {number} expected",
            reason="the loss of one would not be reported",
            fix=f"Set estate.brokers to {answering}, or remove it, then run `fairlane provision`.",
        )


def _answering_brokers(estate: Estate) -> int | None:
    """Return the number of brokers that answer; None if it says nothing."""
    unknown = "brokers" in estate.unread or is_standalone(estate)
    return None if unknown else sum(broker.answered for broker in estate.brokers)


def spare_bookie(estate: Estate) -> Iterator[Finding]:
    """Report whether every lane goes on when one bookie is lost."""
    largest = estate.largest_ensemble()
    if not largest or not estate.bookies:
        return
    known = all(bookie.mode is not BookieMode.UNKNOWN for bookie in estate.bookies)
    writable = len(estate.writable_bookies()) if known else len(estate.bookies)
    figure = f"{writable} {'writable' if known else 'known'} bookies, ensembles of {largest}"
    if is_standalone(estate):
        yield Finding(
            Level.NOTE,
            "one server holds the only copy of everything",
            figure=figure,
            reason="a standalone Pulsar is for development",
        )
    elif writable <= largest:
        yield Finding(
            Level.FAIL,
            "no bookie to spare",
            figure=figure,
            reason="one lost bookie stops every lane for as long as it is gone, and no new lane can be made "
            "(71 s and more were measured)",
            fix=f"Add a bookie, or set ensembles below {writable}: estate.ensemble, then `fairlane provision`.",
        )
    elif known:
        yield Finding(Level.OK, "a bookie can be lost", figure=figure)


def bookie_states(estate: Estate) -> Iterator[Finding]:
    for bookie in estate.bookies:
        if bookie.mode is BookieMode.GONE:
            yield warn(
                f"bookie {bookie.name} is gone",
                figure=bookie.failure or "not registered in the metadata",
                reason="its copies are missing until they are made again elsewhere",
                fix="Start it again; if it is lost for good, decommission it.",
            )
        elif bookie.mode is BookieMode.READ_ONLY:
            yield warn(
                f"bookie {bookie.name} is read-only",
                reason="it takes no entries: its disk is full, or somebody isolated it",
                fix="Free its disk, or make it writable again.",
            )
        if bookie.disk_used is not None and bookie.disk_used >= DISK_FULL:
            yield warn(
                f"the disk of bookie {bookie.name} is nearly full",
                figure=f"{bookie.disk_used:.0%}",
                reason="at 95 % it becomes read-only",
                fix="Add a bookie or a disk, or shorten what is kept.",
            )


def copies_missing(estate: Estate) -> Iterator[Finding]:
    if estate.under_replicated:
        yield warn(
            "ledgers lack copies",
            figure=f"{estate.under_replicated:,} ledgers",
            reason="losing another bookie may lose their entries",
            fix="If this lasts, check that auto-recovery runs (an auditor is elected, replication is enabled).",
        )
    asked = any(bookie.answered for bookie in estate.bookies)
    if asked and estate.auditor is None:
        yield warn(
            "no auditor is elected",
            reason="nobody notices a lost bookie, and its copies are not made again",
            fix="Run auto-recovery: beside the bookies (autoRecoveryDaemonEnabled=true) or as processes of its own.",
        )


def recovery_daemon(estate: Estate) -> Iterator[Finding]:
    inside = [bookie.name for bookie in estate.bookies if bookie.settings.get("autoRecoveryDaemonEnabled") == "true"]
    if inside:
        yield Finding(
            Level.NOTE,
            "auto-recovery runs inside the bookies",
            figure=f"{len(inside)} of {len(estate.bookies)}",
            reason="a bookie whose metadata session expired then ends itself",
            fix="Have a supervisor start it again (systemd: Restart=always), or run auto-recovery apart.",
        )
    if any(bookie.answered for bookie in estate.bookies):
        yield Finding(
            Level.NOTE,
            "the bookies' HTTP interfaces have no authentication",
            reason="anybody who reaches them can make a bookie read-only",
            fix="Keep their ports in a private network.",
        )


def metadata(estate: Estate) -> Iterator[Finding]:
    times = [
        (broker.metadata_put_p99_ms, broker.name) for broker in estate.brokers if broker.metadata_put_p99_ms is not None
    ]
    if not times:
        return
    slowest_ms, name = max(times)
    slow = slowest_ms > METADATA_SLOW_MS
    yield Finding(
        Level.WARN if slow else Level.OK,
        "writes to the metadata store" + (" are slow" if slow else ""),
        figure=f"p99 up to {slowest_ms:g} ms at broker {name} between two looks",
        reason="lanes are created, moved and taken over slowly" if slow else "",
        fix="Give ZooKeeper's transaction log a disk of its own." if slow else "",
    )


def strays(estate: Estate) -> Iterator[Finding]:
    if estate.strays:
        most = max(estate.strays, key=lambda each: each.backlog)
        yield warn(
            f"subscriptions that are not Fairlane's, one is {most.name} of {most.topic}",
            figure=f"{len(estate.strays)}, backlog up to {most.backlog:,} entries",
            reason="what they do not read is kept on the bookies for ever",
            fix="Find out who made them; delete those that nobody reads.",
        )


def system_placement(estate: Estate, wanted: Expectations) -> Iterator[Finding]:
    """Report bundles of the system namespace on brokers that are not for them."""
    if not wanted.system_brokers:
        return
    allowed = [re.compile(pattern) for pattern in wanted.system_brokers]
    astray = sorted(
        {
            broker.name
            for broker in estate.brokers
            if any(bundle.rpartition("/")[0] == wanted.system_namespace for bundle in broker.bundles)
            and not any(each.fullmatch(broker.name.rpartition(":")[0]) for each in allowed)
        }
    )
    if astray:
        yield warn(
            f"topics of {wanted.system_namespace} are on {', '.join(astray)}",
            figure=f"wanted: {', '.join(wanted.system_brokers)}",
            reason="load of lanes slows down control and outcome records there",
            fix="Run `fairlane provision`, then unload that namespace.",
        )
