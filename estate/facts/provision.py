"""Sets what REST can set of an estate: copies, racks, isolation of the system namespace, offload."""

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import topics
from backends.pulsar.policies import includes
from backends.settings import Copies, EstateSettings, OffloadSettings, PulsarSettings
from dispatcher.model.errors import InvalidInput, NotFound, Refused
from dispatcher.model.values import counted
from estate.facts.answers import BROKERS_PROPERTY, NAMES_PROPERTY

SYSTEM_GROUP = "fairlane-system"
"""Name of the group of bookies, and of the isolation policy of brokers, for the system namespace."""
USUAL_GROUP = "default"
_USUAL_MARK_DELETE_RATE = 1.0
"""Pulsar's default; a policy of copies has it as well, and 0 would store the cursor at every acknowledgement."""


def provision_estate(settings: PulsarSettings, estate: EstateSettings) -> list[str]:
    """Set what is configured and differs; return one line for each change.

    What is not configured stays as it is. Raises Unreachable, Refused, InvalidInput.
    """
    with closing(PulsarAdmin(settings)) as admin:
        names = topics(settings)
        system = names.system_namespace
        bookies = _bookies(admin) if estate.racks or estate.system_bookies or estate.copies else []
        changes = [*_racks(admin, estate, bookies)]
        if estate.copies is not None:
            for namespace in names.all_namespaces():
                changes += _copies(admin, namespace, estate.copies, len(bookies))
        if estate.system_brokers:
            changes += _isolation(admin, system, estate.system_brokers)
        if estate.system_bookies:
            changes += _affinity(admin, system)
        if estate.offload is not None:
            changes += _offload(admin, system, estate.offload)
        return [*changes, *_number_of_brokers(admin, system, estate.brokers)]


def _bookies(admin: PulsarAdmin) -> list[str]:
    listed = admin.document("bookies/all")["bookies"]
    return sorted(str(each["bookieId"]) for each in listed)


# ---------------------------------------------------------------- copies
def _copies(admin: PulsarAdmin, namespace: str, copies: Copies, bookies: int) -> Iterator[str]:
    ensemble, write, ack = copies
    if ensemble > bookies:
        raise Refused(
            f"estate.ensemble is {ensemble}, and there are {bookies} bookies: no lane could be written.",
            "Set it to less than the number of bookies.",
        )
    stored = admin.policies(namespace).get("persistence") or {}
    wanted = {"bookkeeperEnsemble": ensemble, "bookkeeperWriteQuorum": write, "bookkeeperAckQuorum": ack}
    if not includes(stored, wanted):
        rate = stored.get("managedLedgerMaxMarkDeleteRate", _USUAL_MARK_DELETE_RATE)
        admin.set_policy(namespace, "persistence", {**wanted, "managedLedgerMaxMarkDeleteRate": rate})
        yield f"namespace {namespace}: ensembles of {ensemble}, {write} copies, {ack} acknowledged"


# ---------------------------------------------------------------- bookies
def _racks(admin: PulsarAdmin, estate: EstateSettings, bookies: list[str]) -> Iterator[str]:
    if not estate.racks and not estate.system_bookies:
        return
    _refuse_unknown({*estate.racks, *estate.system_bookies}, bookies)
    stored = admin.document("bookies/racks-info") or {}
    for bookie in bookies:
        group = SYSTEM_GROUP if _named(bookie, estate.system_bookies) else USUAL_GROUP
        rack = next((rack for name, rack in estate.racks.items() if _named(bookie, (name,))), None)
        before = {name: each[bookie] for name, each in stored.items() if bookie in each}
        if rack is None:
            rack = next((each.get("rack") for each in before.values()), None)
        if rack is None and group == USUAL_GROUP:
            continue
        place = {"rack": rack or "/default-rack", "hostname": bookie.rpartition(":")[0]}
        if list(before) != [group] or not includes(before[group], place):
            admin.post(f"bookies/racks-info/{bookie}?group={group}", place)
            yield f"bookie {bookie}: rack {place['rack']}, group {group}"


def _refuse_unknown(configured: set[str], bookies: list[str]) -> None:
    unknown = sorted(name for name in configured if not any(_named(bookie, (name,)) for bookie in bookies))
    if unknown:
        raise InvalidInput(
            f"estate.racks or estate.system_bookies names {', '.join(unknown)}, which is no bookie of the cluster.",
            f"Its bookies are {', '.join(bookies) or 'none'}.",
        )


def _named(bookie: str, names: tuple[str, ...]) -> bool:
    """Return whether a bookie is among names, which are hosts or host:port."""
    return bookie in names or bookie.rpartition(":")[0] in names


def _affinity(admin: PulsarAdmin, namespace: str) -> Iterator[str]:
    wanted = {"bookkeeperAffinityGroupPrimary": SYSTEM_GROUP, "bookkeeperAffinityGroupSecondary": USUAL_GROUP}
    path = f"namespaces/{namespace}/persistence/bookieAffinity"
    if not includes(_document_or_none(admin, path), wanted):
        admin.post(path, wanted)
        yield f"namespace {namespace}: on the bookies of group {SYSTEM_GROUP}, others only if these are gone"


# ---------------------------------------------------------------- brokers
def _number_of_brokers(admin: PulsarAdmin, namespace: str, configured: int | None) -> Iterator[str]:
    """Store the number of brokers, and their names, in Pulsar, where nothing but another provisioning changes them.

    A number that was found only grows: a broker may be dead just now, and Pulsar forgets it with its session.
    """
    stored = dict(admin.policies(namespace).get("properties") or {})
    before, listed = stored.get(BROKERS_PROPERTY, ""), list[str]()
    with suppress(Refused):  # only an administrator may list brokers
        if admin.runtime_configuration().get("isRunningStandalone") == "true":
            return  # for development, without another broker to lose
        listed = sorted(admin.brokers())
    number = configured or max(int(before) if before.isdecimal() else 0, len(listed))
    wanted = {BROKERS_PROPERTY: str(number)} if number else {}
    if listed and len(listed) >= number:
        wanted[NAMES_PROPERTY] = ",".join(listed)
    if not includes(stored, wanted):
        admin.set_properties(namespace, wanted)
        advice = "" if configured or number == 1 else f"; to state it in your settings: estate.brokers = {number}"
        yield f"{counted(number, 'broker')}: `fairlane doctor` fails if fewer answer{advice}"


def _isolation(admin: PulsarAdmin, namespace: str, brokers: tuple[str, ...]) -> Iterator[str]:
    path = f"clusters/{admin.runtime_configuration()['clusterName']}/namespaceIsolationPolicies/{SYSTEM_GROUP}"
    wanted = {
        "namespaces": [namespace],
        "primary": list(brokers),
        "secondary": [".*"],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "100"},
        },
    }
    if not includes(_document_or_none(admin, path), wanted):
        admin.post(path, wanted)
        yield f"namespace {namespace}: on brokers {', '.join(brokers)}, others only if these are gone"


# ---------------------------------------------------------------- offload
def _offload(admin: PulsarAdmin, namespace: str, offload: OffloadSettings) -> Iterator[str]:
    wanted = {
        "managedLedgerOffloadDriver": offload.driver,
        "managedLedgerOffloadThresholdInBytes": offload.after_mb << 20,
        "managedLedgerOffloadDeletionLagInMillis": offload.keep_ms,
        **({} if offload.directory is None else {"offloadersDirectory": offload.directory}),
        **offload.options,
    }
    stored = admin.policies(namespace).get("offload_policies")
    if not includes(stored, wanted):
        admin.set_policy(namespace, "offloadPolicies", wanted)
        yield f"namespace {namespace}: records beyond {offload.after_mb:,} MB of a topic go to {offload.driver}"


def _document_or_none(admin: PulsarAdmin, path: str) -> Mapping[str, Any] | None:
    try:
        document = admin.document(path)
    except NotFound:
        return None
    return document if isinstance(document, Mapping) else None
