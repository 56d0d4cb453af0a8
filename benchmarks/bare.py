"""One process of the bare loop: only the Pulsar client's public receive and acknowledge on given topics.

Run as `python -m benchmarks.bare plain|decode TOPIC...`. It prints one JSON object: received (messages) and busy_s, the
seconds from a topic's first message to its last, summed. Topics are read one after the other, so that nothing is
prefetched while the time is not counted.
"""

import json
import sys
import time
from typing import Any, NamedTuple

from backends.pulsar.client import connect
from dispatcher.wire.envelope import decode_envelope
from fairlane.settings import Settings

NAME = "bare"
EMPTY_AFTER_MS = 2_000


class Received(NamedTuple):
    """The messages of one topic, with the wall times of the first and the last."""

    messages: int
    began: float
    ended: float


def loop(consumer: Any, *, decode: bool) -> Received:
    """Receive until no more messages come."""
    import pulsar

    count, began, ended = 0, 0.0, 0.0
    while True:
        try:
            message = consumer.receive(EMPTY_AFTER_MS)
        except pulsar.Timeout:
            return Received(count, began, ended)
        if not count:
            began = time.time()
        if decode:
            decode_envelope(message.data())
        consumer.acknowledge(message)
        count += 1
        ended = time.time()


def subscribed(client: Any, topic: str) -> Any:
    """Return a consumer as in the client's documentation, with its default queue."""
    import pulsar

    return client.subscribe(topic, NAME, consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=1000)


def main(mode: str, topics: list[str]) -> None:
    client = connect(Settings().pulsar)
    runs = [loop(subscribed(client, topic), decode=mode == "decode") for topic in topics]
    busy_s = sum(run.ended - run.began for run in runs)
    sys.stdout.write(json.dumps({"received": sum(run.messages for run in runs), "busy_s": busy_s}) + "\n")
    client.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
