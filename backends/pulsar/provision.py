"""Prepares a Pulsar cluster for Fairlane, and checks one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from typing import Any, TypeVar

from backends.pulsar.admin import PROVISION, PulsarAdmin
from backends.pulsar.client import check_accepts, topics
from backends.pulsar.policies import (
    LANE_POLICIES,
    RETENTION,
    RETENTION_DAYS,
    SYSTEM_POLICIES,
    Policy,
    at_creation,
    differing,
)
from backends.settings import PulsarSettings
from dispatcher.analysis.finding import Finding, SettingRule, at_least, is_word
from dispatcher.model.errors import FairlaneError, NotFound, Refused
from dispatcher.model.task import DAY_MS, TOMBSTONE_MS
from dispatcher.model.values import listed
from dispatcher.wire.envelope import MAX_ENVELOPE_BYTES
from dispatcher.wire.topics import SUBSCRIPTION, Topics

_PARALLEL = 8
"""Number of parallel calls; more would only queue at the broker's metadata store."""
_SHOWN = 3
"""Maximum number of names listed in one finding."""

T = TypeVar("T")
R = TypeVar("R")


def provision(settings: PulsarSettings) -> list[str]:
    """Create what is missing and correct what differs; return one line for each change.

    Bundles are set at creation and never changed: a split closes every lane of the bundle in the middle of a run. The
    default of 4 per namespace gives 72 over the 18 namespaces, enough to spread lanes evenly over some ten brokers.
    Raises Unreachable, Refused.
    """
    names = topics(settings)
    with closing(PulsarAdmin(settings)) as admin:
        changes: list[str] = []
        if not admin.tenant_exists(settings.tenant) and admin.create_tenant(settings.tenant, admin.clusters()):
            changes.append(f"created tenant {settings.tenant}")
        changes += _each(
            lambda namespace: _provision_namespace(admin, *namespace, settings.bundles), _namespaces(names)
        )
        changes += _each(lambda lane: _provision_lane(admin, lane), names.standing_lanes())
        created = _each(lambda topic: [topic] if admin.create_topic(topic) else [], names.system_topics())
        return changes + [f"created topic {topic}" for topic in created]


def deprovision(settings: PulsarSettings) -> None:
    """Delete the tenant and everything in it, even while clients are attached. Does nothing if it does not exist."""
    with closing(PulsarAdmin(settings)) as admin:
        namespaces = admin.namespaces(settings.tenant)
        _each(lambda topic: [admin.delete_topic(topic, force=True)], _each(admin.list_topics, namespaces))
        for namespace in namespaces:
            admin.delete(f"namespaces/{namespace}")
        admin.delete(f"tenants/{settings.tenant}")


def _namespaces(names: Topics) -> list[tuple[str, tuple[Policy, ...]]]:
    lanes = [*names.task_namespaces(), names.shared_namespace]
    return [*((namespace, LANE_POLICIES) for namespace in lanes), (names.system_namespace, SYSTEM_POLICIES)]


def _provision_namespace(admin: PulsarAdmin, namespace: str, policies: tuple[Policy, ...], bundles: int) -> list[str]:
    try:
        stored = admin.policies(namespace)
    except NotFound:
        if admin.create_namespace(namespace, at_creation(policies, bundles)):
            return [f"created namespace {namespace} with {bundles} bundles"]
        stored = admin.policies(namespace)  # another provisioning was quicker
    changes = []
    for policy in differing(policies, stored):
        admin.set_policy(namespace, policy.path, policy.posted)
        changes.append(f"namespace {namespace}: {policy.what}")
    return changes


def _provision_lane(admin: PulsarAdmin, lane: str) -> list[str]:
    made = admin.create_topic(lane)
    subscribed = admin.create_subscription(lane, SUBSCRIPTION)
    return [f"created lane {lane}"] if made or subscribed else []


def _each(act: Callable[[T], Iterable[R]], things: Iterable[T]) -> list[R]:
    """Apply `act` to all things, several in parallel, and return the results in order."""
    with ThreadPoolExecutor(_PARALLEL, "provision") as pool:
        return list(chain.from_iterable(pool.map(act, things)))


# ---------------------------------------------------------------- check
BROKER_SETTINGS: tuple[SettingRule, ...] = (
    SettingRule(
        "preciseDispatcherFlowControl", "true", is_word("true"), "fail",
        "prefetch is counted in messages; without it a busy lane's batches flood the workers",
    ),
    SettingRule(
        "acknowledgmentAtBatchIndexLevelEnabled", "true", is_word("true"), "fail",
        "envelopes of one batch are settled one by one; without it acknowledged ones come again and again",
    ),
    SettingRule(
        "managedLedgerMaxUnackedRangesToPersist", "at least 50000", at_least(50_000), "warn",
        "acknowledgements behind a waiting envelope are forgotten beyond this many when a broker restarts",
    ),
    SettingRule(
        "maxMessageSize", "at least 5242880", at_least(5 * 1024 * 1024), "fail",
        f"envelopes are up to {MAX_ENVELOPE_BYTES} bytes",
    ),
    SettingRule(
        "loadBalancerAutoBundleSplitEnabled", "false", is_word("false"), "warn",
        "a split closes all lanes of a bundle in the middle of a run",
    ),
    SettingRule(
        "allowAutoTopicCreation", "false", is_word("false"), "warn",
        "Fairlane's namespaces overrule it, but other namespaces grow topics by accident",
    ),
    SettingRule(
        "brokerDeduplicationEnabled", "false", is_word("false"), "warn",
        "Fairlane's namespaces overrule it, yet the broker goes on taking snapshots",
    ),
)  # fmt: skip


def check(settings: PulsarSettings) -> list[Finding]:
    """Return the findings of `doctor` about a Pulsar cluster. Changes nothing and raises nothing."""
    findings = [finding for part in (_check_connection, _check_cluster) for finding in _findings_of(part, settings)]
    return list(dict.fromkeys(findings))  # a setting missing for both parts is reported once


def _findings_of(part: Callable[[PulsarSettings], Iterable[Finding]], settings: PulsarSettings) -> Iterator[Finding]:
    try:
        yield from part(settings)
    except FairlaneError as error:
        yield Finding("fail", error.cause, error.next_step)


def _check_connection(settings: PulsarSettings) -> Iterator[Finding]:
    check_accepts(settings)
    yield Finding("ok", f"Pulsar at {settings.address.named()} accepts connections")


def _check_cluster(settings: PulsarSettings) -> Iterator[Finding]:
    with closing(PulsarAdmin(settings)) as admin:
        yield from _check_health(admin)
        yield from _check_broker(admin)
        yield from _check_names(admin, settings)


def _check_health(admin: PulsarAdmin) -> Iterator[Finding]:
    try:
        admin.health()
    except Refused as error:
        yield Finding("warn", f"Pulsar's health cannot be read. {error.cause}", error.next_step)
    else:
        yield Finding("ok", f"Pulsar {admin.version()} at {admin.address.named()} is healthy")


def _check_broker(admin: PulsarAdmin) -> Iterator[Finding]:
    try:
        configuration = admin.runtime_configuration()
    except Refused as error:
        yield Finding(
            "warn", f"The broker's settings cannot be read. {error.cause}", "Ask its administrator to check them."
        )
        return
    for setting in BROKER_SETTINGS:
        value = configuration.get(setting.name, "not known to this broker")
        what = f"broker setting {setting.name} is {value}"
        if setting.good(value):
            yield Finding("ok", what)
        else:
            yield Finding(
                setting.level, f"{what}: {setting.reason}", f"Set it to {setting.wanted} in broker.conf and restart."
            )


def _check_names(admin: PulsarAdmin, settings: PulsarSettings) -> list[Finding]:
    names = topics(settings)
    namespaces = _namespaces(names)
    stored = _each(lambda item: [_stored_policies(admin, item[0])], namespaces)
    findings = _are_missing(
        "namespace", [name for (name, _), policies_there in zip(namespaces, stored, strict=True) if not policies_there]
    )
    for (namespace, policies), policies_there in zip(namespaces, stored, strict=True):
        if policies_there:
            findings += [
                _differs(namespace, policy, policies_there.get(policy.field))
                for policy in differing(policies, policies_there)
            ]
    findings += _check_topics(admin, names)
    return findings or [Finding("ok", f"tenant {names.tenant}: namespaces, policies and topics are in place")]


def _are_missing(kind: str, names: Sequence[str]) -> list[Finding]:
    if not names:
        return []
    shown = listed(names, _SHOWN)
    what = f"{kind} {shown} is missing" if len(names) == 1 else f"{len(names)} {kind}s are missing: {shown}"
    return [Finding("fail", what, PROVISION)]


def _stored_policies(admin: PulsarAdmin, namespace: str) -> Mapping[str, Any] | None:
    try:
        return admin.policies(namespace)
    except NotFound:
        return None


def _differs(namespace: str, policy: Policy, stored: Any) -> Finding:
    if policy in SYSTEM_POLICIES and policy.field == RETENTION:
        return _retention_differs(namespace, stored or {})
    return Finding("fail", f"namespace {namespace}: policy {policy.field} is {stored!r}", PROVISION)


def _retention_differs(namespace: str, stored: Mapping[str, int]) -> Finding:
    """Return the finding. A rebuild misses records deleted too early, and reads ended tasks from records kept too
    long."""
    minutes, megabytes = stored.get("retentionTimeInMinutes", 0), stored.get("retentionSizeInMB", 0)
    long = minutes < 0 or minutes >= RETENTION_DAYS * 24 * 60
    kept = "for ever" if minutes < 0 else f"for {minutes / (24 * 60):.3g} days"
    what = f"namespace {namespace} keeps records {kept}" + (f", at most {megabytes} MB" if megabytes >= 0 else "")
    if not long or megabytes >= 0:
        return Finding("fail", f"{what}: an emptied Redis could not be rebuilt from them", PROVISION)
    tombstones = TOMBSTONE_MS // DAY_MS
    return Finding(
        "warn", f"{what}: a rebuild could lose a task whose id is used again after {tombstones} days", PROVISION
    )


def _check_topics(admin: PulsarAdmin, names: Topics) -> list[Finding]:
    there = set(admin.list_topics(names.system_namespace))
    missing = [topic for topic in names.system_topics() if topic not in there]
    missing += _each(lambda lane: _missing_lane(admin, lane), names.standing_lanes())
    return _are_missing("topic", missing)


def _missing_lane(admin: PulsarAdmin, lane: str) -> list[str]:
    """Return the lane, or its subscription, if it is missing. A topic without the subscription discards messages."""
    try:
        return [] if SUBSCRIPTION in admin.subscriptions(lane) else [f"{lane}: its subscription {SUBSCRIPTION}"]
    except NotFound:
        return [lane]
