"""The number of brokers that provisioning stores: a lost broker never lowers it, the setting does."""

from typing import Any

import pytest

from backends.pulsar.estate.answers import BROKERS_PROPERTY
from backends.pulsar.estate.provision import provision_estate
from backends.settings import EstateSettings, PulsarSettings
from tests.unit.backends.estate_site import POLICIES, serving

CASES: list[tuple[str, str | None, int | None, Any, list[str]]] = [
    ("the first time", None, None, ["a:1", "b:1"], ["2"]),
    ("again", "2", None, ["a:1", "b:1"], []),
    ("one is lost", "2", None, ["a:1"], []),
    ("one is added", "2", None, ["a:1", "b:1", "c:1"], ["3"]),
    ("one is removed for good", "3", 2, ["a:1", "b:1"], ["2"]),
    ("the setting is more than there are", None, 3, ["a:1"], ["3"]),
    ("the setting as stored", "3", 3, ["a:1"], []),
    ("nonsense is stored", "many", None, ["a:1"], ["1"]),
    ("the role may not list brokers", None, None, 403, []),
    ("the role may not list brokers, and the number is set", None, 2, 403, ["2"]),
]


@pytest.mark.parametrize(
    ("stored", "configured", "brokers", "puts"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_provisioning_stores_the_number_of_brokers(
    stored: str | None, configured: int | None, brokers: Any, puts: list[str]
) -> None:
    given: list[Any] = []
    properties = {} if stored is None else {BROKERS_PROPERTY: stored}

    def put(body: Any) -> str:
        given.append(body)
        return ""

    answers = {
        "brokers": brokers,
        "namespaces/fairlane/system": {**POLICIES, "properties": properties},
        "PUT namespaces/fairlane/system/properties": put,
    }
    with serving(answers) as address:
        pulsar = PulsarSettings(url="pulsar://b:1", admin_url=f"http://{address}")
        changes = provision_estate(pulsar, EstateSettings(brokers=configured))
    assert given == [{BROKERS_PROPERTY: number} for number in puts]
    assert [change.partition(" ")[0] for change in changes] == puts
    suggested = [] if configured else [f"estate.brokers = {number}" for number in puts if number != "1"]
    assert [change.rpartition(": ")[2] for change in changes if "your settings" in change] == suggested
