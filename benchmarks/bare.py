"""One process of the bare loop: only the Pulsar client's public receive and acknowledge on given topics.

Run as `python -m benchmarks.bare plain|decode|COUNT TOPIC...`; COUNT is the number of messages to receive from each. It
prints one JSON object: received (messages), busy_s, the seconds from a topic's first message to its last, summed, and
spans, the wall times of the two by topic. Topics are read one after the other, so that nothing is prefetched while the
time is not counted.
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
PATIENT_MS = 30_000
"""The same if the number of messages is known: a loaded machine may take seconds."""


class Received(NamedTuple):
    """The messages of one topic, with the wall times of the first and the last."""

    messages: int
    began: float
    ended: float


def loop(consumer: Any, *, decode: bool, expected: int | None = None) -> Received:
    """Receive until no more messages come, or those that are expected have come."""
    import pulsar

    count, began, ended = 0, 0.0, 0.0
    wait_ms = EMPTY_AFTER_MS if expected is None else PATIENT_MS
    while expected is None or count < expected:
        try:
            message = consumer.receive(wait_ms)
        except pulsar.Timeout:
            break
        if not count:
            began = time.time()
        if decode:
            decode_envelope(message.data())
        consumer.acknowledge(message)
        count += 1
        ended = time.time()
    return Received(count, began, ended)


def subscribed(client: Any, topic: str) -> Any:
    """Return a consumer as in the client's documentation, with its default queue."""
    import pulsar

    return client.subscribe(topic, NAME, consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=1000)


def main(mode: str, topics: list[str]) -> None:
    client = connect(Settings().pulsar)
    expected = int(mode) if mode.isdecimal() else None
    runs = [loop(subscribed(client, topic), decode=mode == "decode", expected=expected) for topic in topics]
    busy_s = sum(run.ended - run.began for run in runs)
    spans = [(run.began, run.ended) for run in runs]
    result = {"received": sum(run.messages for run in runs), "busy_s": busy_s, "spans": spans}
    sys.stdout.write(json.dumps(result) + "\n")
    client.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
