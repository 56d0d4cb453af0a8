"""Provisioning on a real broker: what it creates and repairs, that it is idempotent, and what doctor says of it."""

import pulsar
import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import topics, translated
from backends.pulsar.policies import RETENTION_DAYS
from backends.pulsar.provision import check, deprovision, provision
from dispatcher.model.errors import NotFound
from dispatcher.wire.topics import SUBSCRIPTION, Topics
from fairlane.local_stack import StackAddresses
from fairlane.settings import Settings
from tests.conftest import settings_for
from tests.integration.pulsar_helpers import Tenant


def test_a_second_provisioning_changes_nothing(stack: StackAddresses) -> None:
    settings = settings_for(stack, "t-provision").pulsar
    deprovision(settings)
    try:
        messages = provision(settings)
        names = topics(settings)
        assert messages[0] == "created tenant t-provision"
        for thing in [*names.task_namespaces(), *names.standing_lanes(), *names.system_topics()]:
            assert any(thing in line for line in messages), thing
        assert provision(settings) == []
    finally:
        deprovision(settings)
    admin = PulsarAdmin(settings)
    assert not admin.tenant_exists(settings.tenant)
    assert admin.namespaces(settings.tenant) == []


def test_what_was_changed_by_hand_is_found_mended_and_said(fresh_settings: Settings, tenant: Tenant) -> None:
    namespace = tenant.names.task_namespaces()[0]
    tenant.admin.set_policy(namespace, "deduplication", True)
    tenant.admin.set_policy(tenant.names.system_namespace, "messageTTL", 60)
    tenant.admin.delete_subscription(tenant.names.shared_lane(1), SUBSCRIPTION)
    tenant.admin.delete_topic(tenant.names.retry_lanes()[0][0])
    failed = [finding for finding in check(fresh_settings.pulsar) if finding.level == "fail"]
    assert len(failed) == 3
    assert failed[-1].what.startswith("2 topics are missing: ")
    assert all(finding.fix == "Run `fairlane provision`." for finding in failed)

    messages = provision(fresh_settings.pulsar)
    assert len(messages) == 4
    assert f"namespace {namespace}: Pulsar's deduplication is off" in messages
    assert f"created lane {tenant.names.shared_lane(1)}" in messages
    assert [finding for finding in check(fresh_settings.pulsar) if finding.level == "fail"] == []
    assert provision(fresh_settings.pulsar) == []


def test_what_is_missing_of_an_installation_is_said_in_a_few_lines(fresh_settings: Settings) -> None:
    """Namespaces, lanes and topics of it were a line each: 47 of them."""
    nothing = fresh_settings.pulsar.model_copy(update={"tenant": "never-made", "namespaces": 16})
    messages = [finding.what for finding in check(nothing) if finding.level == "fail"]
    assert [what.split(": ")[0] for what in messages] == ["18 namespaces are missing", "21 topics are missing"]
    assert messages[0].endswith(" and 15 more")


def test_the_broker_of_the_stack_is_set_up_as_doctor_wants_it(fresh_settings: Settings) -> None:
    findings = check(fresh_settings.pulsar)
    assert {finding.level for finding in findings} == {"ok"}
    assert any("preciseDispatcherFlowControl is true" in finding.what for finding in findings)


def test_doctor_says_so_when_nobody_answers(fresh_settings: Settings) -> None:
    nobody = fresh_settings.pulsar.model_copy(update={"admin_url": "http://127.0.0.1:9"})
    *_, finding = check(nobody)
    assert finding.level == "fail"
    assert "http://127.0.0.1:9" in finding.what


def test_records_are_kept_and_lanes_never_evict(admin: PulsarAdmin, names: Topics) -> None:
    system = admin.policies(names.system_namespace)
    assert system["retention_policies"] == {"retentionTimeInMinutes": RETENTION_DAYS * 1440, "retentionSizeInMB": -1}
    for namespace in names.all_namespaces():
        policies = admin.policies(namespace)
        assert policies["backlog_quota_map"]["destination_storage"]["policy"] == "producer_request_hold"
        assert policies["deduplicationEnabled"] is False
        assert policies["inactive_topic_policies"]["deleteWhileInactive"] is False


@pytest.mark.parametrize(
    ("minutes", "megabytes", "level", "message"),
    [
        (7 * 1_440, -1, "fail", "keeps records for 7 days: an emptied Redis could not be rebuilt"),
        (RETENTION_DAYS * 1_440, 2 << 20, "fail", "keeps records for 14 days, at most 2097152 MB: an emptied Redis"),
        (30 * 1_440, -1, "warn", "keeps records for 30 days: a rebuild could lose a task whose id is used again"),
        (-1, -1, "warn", "keeps records for ever: a rebuild could lose a task whose id is used again after 16 days"),
    ],
)
def test_doctor_compares_how_long_records_are_kept_with_what_tombstones_rest_on(
    fresh_settings: Settings, admin: PulsarAdmin, names: Topics, minutes: int, megabytes: int, level: str, message: str
) -> None:
    kept = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
    admin.set_policy(names.system_namespace, "retention", kept)
    (finding,) = [finding for finding in check(fresh_settings.pulsar) if finding.level != "ok"]
    assert (finding.level, finding.fix) == (level, "Run `fairlane provision`.")
    assert message in finding.what
    assert len(provision(fresh_settings.pulsar)) == 1
    assert {finding.level for finding in check(fresh_settings.pulsar)} == {"ok"}


@pytest.mark.parametrize("attach", ["producer", "reader", "consumer"])
def test_a_topic_never_comes_into_being_by_accident(tenant: Tenant, attach: str) -> None:
    lane = tenant.names.own_lane("never-made")
    attempts = {
        "producer": lambda: tenant.client.create_producer(lane),
        "reader": lambda: tenant.client.create_reader(lane, pulsar.MessageId.earliest),
        "consumer": lambda: tenant.client.subscribe(lane, SUBSCRIPTION),
    }
    with pytest.raises(NotFound), translated("attach"):
        attempts[attach]()
    assert not tenant.admin.topic_exists(lane)
