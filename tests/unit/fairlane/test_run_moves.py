"""A move needs its source and its target, and no other broker."""

from collections.abc import Iterator
from typing import Any

from backends.pulsar.estate.bundles import BundleAdmin
from backends.settings import PulsarSettings
from estate.balance import Move
from fairlane.estate.run_moves import Attempt, BundleMover
from tests.unit.backends.estate_site import serving

NOBODY = "127.0.0.1:1"
TARGET = "127.0.0.9:8080"
BUNDLE = "fairlane/tasks/0x00000000_0x80000000"
TOPIC = "persistent://fairlane/tasks/one"


def a_source(owners: Iterator[str]) -> dict[str, Any]:
    return {
        "lookup/v2/topic/persistent/fairlane/tasks/one": lambda _: {"httpUrl": f"http://{next(owners)}"},
        f"PUT namespaces/{BUNDLE}/unload?destinationBroker={TARGET.replace(':', '%3A')}": "",
    }


def try_to_move(configured: str, source: str, answered: list[str]) -> Attempt:
    settings = PulsarSettings(admin_url=f"http://{configured}")
    with BundleAdmin(settings) as admin:
        move = Move(BUNDLE, source, TARGET)
        return BundleMover(admin, {BUNDLE: [TOPIC]}, answered).attempt(move)


def test_a_move_succeeds_while_the_broker_at_the_configured_address_is_gone() -> None:
    with serving(a_source(iter(["source", TARGET]))) as source:
        assert try_to_move(NOBODY, source, [source]) == Attempt(TARGET)


def test_a_source_that_did_not_answer_is_not_asked() -> None:
    with serving(a_source(iter(["source", TARGET]))) as configured:
        assert try_to_move(configured, NOBODY, []) == Attempt(TARGET)
