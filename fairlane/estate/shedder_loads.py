"""The load of an estate as Pulsar's shedders see it."""

from estate.balance import Goal, pieces_of
from estate.cluster import BrokerLoad
from estate.shedders import Bundle, Loads
from fairlane.estate.move_facts import MoveFacts


def loads_of_facts(facts: MoveFacts) -> Loads:
    """Return the brokers that answered with their bundles. A broker's usage is its CPU, divided by messages.

    Without messages, the CPU is the broker's own, which no move changes.
    """
    cpu = {piece.bundle: piece.weight for piece in pieces_of(facts.estate, Goal.CPU)}
    brokers = [broker for broker in facts.estate.brokers if broker.answered]
    limits = {broker.name: broker.cpu.limit if broker.cpu else 100.0 for broker in brokers}
    bundles = {
        broker.name: [
            Bundle(
                name=bundle.name,
                bytes=bundle.bytes_in + bundle.bytes_out,
                messages=bundle.messages_in + bundle.messages_out,
                usage=100 * cpu[bundle.name] / limits[broker.name],
            )
            for bundle in broker.bundles
        ]
        for broker in brokers
    }
    return Loads(bundles, {broker.name: _own(broker) for broker in brokers})


def _own(broker: BrokerLoad) -> float:
    """Return the usage in per cent that no bundle causes."""
    has_messages = any(bundle.messages_in + bundle.messages_out for bundle in broker.bundles)
    share = broker.cpu.share if broker.cpu else None
    return 0.0 if has_messages or share is None else 100 * share
