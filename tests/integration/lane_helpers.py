"""Envelopes put into a lane by a plain producer."""

from collections.abc import Sequence

import pulsar

from dispatcher.envelope import FORMAT, Envelope, encode_envelope, encode_message

MESSAGE = encode_message({"title": "Hello"})


def envelope(sequence: int, targets: int = 1) -> Envelope:
    names = [f"target-{sequence}-{number}" for number in range(targets)]
    return Envelope(FORMAT, "a-task", "0", sequence, 0, "shop", "null", 0, 0, 0, targets, 5, MESSAGE, names)


def publish(client: pulsar.Client, lane: str, bodies: Sequence[bytes]) -> None:
    """In batches of 20."""
    producer = client.create_producer(
        lane, batching_enabled=True, batching_max_messages=20, compression_type=pulsar.CompressionType.LZ4
    )
    for body in bodies:
        producer.send_async(body, lambda _result, _position: None)
    producer.flush()
    producer.close()


def publish_envelopes(client: pulsar.Client, lane: str, sequences: Sequence[int], targets: int = 1) -> None:
    publish(client, lane, [encode_envelope(envelope(number, targets)) for number in sequences])
