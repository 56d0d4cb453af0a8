"""Findings about copies: how many there are, when a receipt is given, and whether they are in several racks."""

from collections.abc import Iterator

from dispatcher.analysis.finding import Finding, Level, warn
from estate.plans.placement import SPREADING_BUNDLES
from estate.rules.cluster import BookieMode, Estate, Expectations, NamespaceState
from estate.rules.nodes import is_standalone

FEW_BROKERS = 4
_OFFLOAD = "managedLedgerOffloadDriver"


def quorums(estate: Estate, wanted: Expectations) -> Iterator[Finding]:
    """Report copies of entries, one finding for all namespaces with the same numbers."""
    seen: dict[tuple[int, int, int], list[NamespaceState]] = {}
    for namespace in estate.namespaces:
        if namespace.ensemble:
            numbers = (namespace.ensemble, namespace.write_quorum, namespace.ack_quorum)
            seen.setdefault(numbers, []).append(namespace)
    for (ensemble, write, ack), namespaces in seen.items():
        figure = f"{ensemble}/{write}/{ack} (ensemble/copies/acknowledged) in {len(namespaces)} namespaces"
        if write < 2 and not is_standalone(estate):
            yield Finding(
                Level.FAIL,
                "entries have one copy only",
                figure=figure,
                reason="a lost disk loses targets that were submitted",
                fix="Set estate.write_quorum to 2 or more, then run `fairlane provision`.",
            )
        if ack < write and not wanted.guarded:
            yield warn(
                "receipts are given before all copies are stored",
                figure=figure,
                reason="entries wait in the broker's memory for a slow bookie until it is out of memory",
                fix="Set estate.ack_quorum to the number of copies, then run `fairlane provision`; or set "
                "bookkeeper_waitTimeoutOnBackpressureMs=1000 in broker.conf, which no broker reports.",
            )
        if ensemble > write:
            yield warn(
                "ensembles are larger than the number of copies",
                figure=figure,
                reason=f"lanes stop when fewer than {ensemble} bookies are writable, though {write} would do",
                fix="Set estate.ensemble to the number of copies, then run `fairlane provision`; or set "
                "bookkeeper_opportunisticStriping=true in broker.conf, which no broker reports.",
            )


def racks(estate: Estate, wanted: Expectations) -> Iterator[Finding]:
    """Report bookies without a rack where others have one, and entries whose copies are all in one rack."""
    rack_of = {bookie.name: bookie.rack for bookie in estate.bookies}
    without = [name for name, rack in rack_of.items() if rack is None]
    if without and (len(without) < len(rack_of) or wanted.racks):
        yield warn(
            f"bookies without a rack: {', '.join(without)}",
            figure=f"{len(without)} of {len(rack_of)}",
            reason="copies are placed without regard to racks, silently",
            fix="Name the rack of each in estate.racks, then run `fairlane provision`.",
        )
    if len({rack for rack in rack_of.values() if rack}) < 2:
        return
    together = [
        ledger
        for ledger in estate.ledgers
        if len(ledger.bookies) > 1 and len({rack_of.get(name) for name in ledger.bookies}) == 1
    ]
    if together:
        yield Finding(
            Level.FAIL,
            f"all copies of the newest entries are in one rack, as of {together[0].topic}",
            figure=f"{len(together)} of {len(estate.ledgers)} topics looked at",
            reason="when the rack is lost, so are they",
            fix="Set bookkeeperClientRackawarePolicyEnabled=true and bookkeeperClientMinNumRacksPerWriteQuorum=2, "
            "then unload the topics: new ledgers are placed well.",
        )


def bundles(estate: Estate) -> Iterator[Finding]:
    few = [namespace for namespace in estate.namespaces if 0 < namespace.bundles < SPREADING_BUNDLES]
    if len(estate.brokers) > FEW_BROKERS and few:
        yield warn(
            f"namespaces have fewer than {SPREADING_BUNDLES} bundles",
            figure=f"{min(each.bundles for each in few)} bundles, {len(estate.brokers)} brokers",
            reason="the partitions of a large lane fall into 4 bundles, so it uses 4 brokers at most",
            fix=f"Set pulsar.bundles to {SPREADING_BUNDLES} before namespaces are created.",
        )


def offload(estate: Estate, wanted: Expectations) -> Iterator[Finding]:
    if not wanted.offload:
        return
    system = next((namespace for namespace in estate.namespaces if namespace.name == wanted.system_namespace), None)
    if system is not None and not system.offload.get(_OFFLOAD):
        yield warn(
            f"namespace {system.name} has no offload policy",
            reason="old records stay on the bookies",
            fix="Run `fairlane provision`.",
        )
    for topic, error in estate.offload_errors.items():
        yield warn(
            f"the last offload of {topic} failed",
            figure=error[:200],
            reason="its old records stay on the bookies",
            fix="Check that the brokers have the offloaders (NAR files), and the storage's address and rights.",
        )


def system_copies(estate: Estate, wanted: Expectations) -> Iterator[Finding]:
    """Report entries of system topics on bookies that are not for them."""
    if not wanted.system_bookies:
        return
    own = {*wanted.system_bookies}
    astray = {
        bookie
        for ledger in estate.ledgers
        for bookie in ledger.bookies
        if bookie not in own and bookie.rpartition(":")[0] not in own
    }
    if astray:
        yield warn(
            f"the newest records of {wanted.system_namespace} are on {', '.join(sorted(astray))}",
            figure=f"wanted: {', '.join(wanted.system_bookies)}",
            reason="load of lanes slows down control and outcome records there",
            fix="Run `fairlane provision`, then unload that namespace: new ledgers are placed there. "
            "There must be as many such bookies as an ensemble has.",
        )


def read_ahead(estate: Estate, wanted: Expectations) -> Iterator[Finding]:
    """Report bookies that read ahead more than their cache can hold for two lanes."""
    for bookie in estate.bookies:
        entries = bookie.settings.get("dbStorage_readAheadCacheBatchSize", "")
        limit = bookie.settings.get("dbStorage_readAheadCacheBatchBytesSize", "")
        cache = bookie.settings.get("dbStorage_readAheadCacheMaxSizeMb", "")
        if not (entries.isdigit() and cache.isdigit() and bookie.mode is not BookieMode.GONE):
            continue
        ahead = int(entries) * wanted.envelope_bytes
        ahead = min(ahead, int(limit)) if limit.isdigit() and int(limit) > 0 else ahead
        if ahead > int(cache) * 2**20 / 2:
            yield warn(
                f"bookie {bookie.name} reads ahead more than half of its read cache",
                figure=f"{ahead / 2**20:.0f} MB of {cache} MB, at {wanted.envelope_bytes:,} bytes an envelope",
                reason="lanes that catch up read everything again, up to ten times slower",
                fix="Set dbStorage_readAheadCacheBatchSize=100 and dbStorage_readAheadCacheBatchBytesSize=2097152.",
            )
