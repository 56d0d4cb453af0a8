"""Publish with Fairlane's own producers, one for each topic, tuned as for a submission of messages of this size."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from backends.pulsar.client import connect
from backends.pulsar.publisher import LaneProducer
from backends.settings import PulsarSettings
from benchmarks.kafka.load import MESSAGE_BYTES, Load, Window, main
from benchmarks.kafka.publish_pulsar import NAMESPACE, OPENED_AT_ONCE
from producers.publish.lanes import lane_settings
from producers.publish.tuning import ProducerNeeds, tune


class FairlanePublisher:
    """Each call's messages have one receipt."""

    def __init__(self, load: Load) -> None:
        client = connect(PulsarSettings(url=load.address, operation_timeout_s=120))
        settings = lane_settings(tune(ProducerNeeds(message_bytes=MESSAGE_BYTES)).settings, "none")
        with ThreadPoolExecutor(OPENED_AT_ONCE) as pool:
            names = (f"{NAMESPACE}/{name}" for name in load.names())
            self._producers = list(pool.map(lambda name: LaneProducer(client, name, settings), names))
        self._window = Window()

    def send(self, topic: int, bodies: Sequence[bytes]) -> None:
        self._window.add(len(bodies))
        self._producers[topic].send(bodies, partial(self._window.confirm, len(bodies)))

    def confirmed(self) -> int:
        return self._window.confirmed()

    def settle(self, timeout_s: float) -> None:
        self._window.settle(0, timeout_s)


if __name__ == "__main__":
    main(FairlanePublisher)
