"""Readers of a topic, however many are opened at once."""

from types import SimpleNamespace
from typing import Any

from backends.pulsar.topic_reader import TopicReader


class SameNames:
    """A client of Pulsar's whose random names are all the same: of two readers with one subscription the broker refuses
    the second."""

    def __init__(self) -> None:
        self.subscriptions: list[str] = []

    def create_reader(self, _topic: str, _after: Any, *, subscription_role_prefix: str = "", **_: Any) -> Any:
        self.subscriptions.append(f"{subscription_role_prefix}-reader-eb9984d35a")
        return SimpleNamespace(_reader=None)


def test_readers_of_one_topic_have_subscriptions_of_their_own() -> None:
    client: Any = SameNames()
    for _ in range(3):
        TopicReader(client, "persistent://fairlane/system/control")
    assert len(set(client.subscriptions)) == 3
