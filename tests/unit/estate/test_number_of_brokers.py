"""The number of brokers that provisioning stores: a lost broker never lowers it, the setting does."""

from typing import Any

import pytest

from backends.settings import EstateSettings, PulsarSettings
from estate.facts.answers import BROKERS_PROPERTY, NAMES_PROPERTY
from estate.facts.provision import provision_estate
from tests.unit.dispatch.backends.estate_site import POLICIES, serving

A, B, C = "a:1", "b:1", "c:1"
TWO = {BROKERS_PROPERTY: "2", NAMES_PROPERTY: "a:1,b:1"}
CASES: list[tuple[str, dict[str, str], int | None, Any, dict[str, str]]] = [
    ("the first time", {}, None, [B, A], TWO),
    ("again", TWO, None, [A, B], {}),
    ("one is lost", TWO, None, [A], {}),
    ("one is added", TWO, None, [A, B, C], {BROKERS_PROPERTY: "3", NAMES_PROPERTY: "a:1,b:1,c:1"}),
    ("one has another name", TWO, None, [A, C], {BROKERS_PROPERTY: "2", NAMES_PROPERTY: "a:1,c:1"}),
    ("one is removed for good", {BROKERS_PROPERTY: "3", NAMES_PROPERTY: "a:1,b:1,c:1"}, 2, [A, B], TWO),
    ("the setting is more than there are", {}, 3, [A], {BROKERS_PROPERTY: "3"}),
    ("the setting as stored", {BROKERS_PROPERTY: "3"}, 3, [A], {}),
    ("nonsense is stored", {BROKERS_PROPERTY: "many"}, None, [A], {BROKERS_PROPERTY: "1", NAMES_PROPERTY: A}),
    ("the role may not list brokers", {}, None, 403, {}),
    ("the role may not list brokers, and the number is set", {}, 2, 403, {BROKERS_PROPERTY: "2"}),
]


@pytest.mark.parametrize(
    ("stored", "configured", "brokers", "put"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_provisioning_stores_the_number_and_the_names_of_brokers(
    stored: dict[str, str], configured: int | None, brokers: Any, put: dict[str, str]
) -> None:
    given: list[Any] = []

    def store(body: Any) -> str:
        given.append(body)
        return ""

    answers = {
        "brokers": brokers,
        "brokers/configuration/runtime": {"isRunningStandalone": "false"},
        "namespaces/fairlane/system": {**POLICIES, "properties": {"theirs": "1", **stored}},
        "PUT namespaces/fairlane/system/properties": store,
    }
    with serving(answers) as address:
        pulsar = PulsarSettings(url="pulsar://b:1", admin_url=f"http://{address}")
        changes = provision_estate(pulsar, EstateSettings(brokers=configured))
    number, calls = put.get(BROKERS_PROPERTY, ""), int(bool(put))
    assert given == [put] * calls
    assert [change.partition(" ")[0] for change in changes] == [number] * calls
    suggested = [f"estate.brokers = {number}" in change for change in changes]
    assert suggested == [configured is None and number != "1"] * calls


def test_the_only_broker_of_a_standalone_pulsar_is_not_counted() -> None:
    answers = {
        "brokers": [A],
        "brokers/configuration/runtime": {"isRunningStandalone": "true"},
        "namespaces/fairlane/system": POLICIES,
    }
    with serving(answers) as address:
        pulsar = PulsarSettings(url="pulsar://b:1", admin_url=f"http://{address}")
        assert provision_estate(pulsar, EstateSettings()) == []
