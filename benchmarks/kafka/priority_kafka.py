"""The scheme of three topics on Kafka: high, medium and low are polled 6:3:1, each in its order; see priority.py.

Run in the Kafka client's environment with [address, run]. Prints the figures of one run as JSON.
"""

import json
import os
import sys
import time
from collections.abc import Callable

from confluent_kafka import Consumer, Message, Producer

from benchmarks.kafka.late_task import WEIGHTS, TestBed, figures
from benchmarks.kafka.publish_kafka import create_topics

LATE = b"late"
TIMEOUT_S = 180.0


class ThreeTopics:
    """Producer and consumers of one run, whose topics are its own."""

    def __init__(self, address: str, run: int, scene: TestBed) -> None:
        self._scene = scene
        self._names = {tier: f"{tier}-{run}" for tier in WEIGHTS}
        create_topics(address, list(self._names.values()))
        self._producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 5})
        self._consumers = {}
        for tier, name in self._names.items():
            settings = {"bootstrap.servers": address, "group.id": name, "auto.offset.reset": "earliest"}
            self._consumers[tier] = Consumer({**settings, "enable.auto.commit": True})
            self._consumers[tier].subscribe([name])

    def submit(self, tier: str, task: bytes, targets: int) -> None:
        """Append a task's messages to the topic of its tier; return when all are stored."""
        for _ in range(targets // self._scene.chunk):
            self._producer.produce(self._names[tier], os.urandom(64 * self._scene.chunk), key=task)
            self._producer.poll(0)
        if self._producer.flush(TIMEOUT_S):
            raise RuntimeError("Kafka did not store all messages")

    def attach(self) -> None:
        """Wait until each consumer has its partition: joining a group takes seconds, which no task waits for here."""
        end_s = time.monotonic() + TIMEOUT_S
        for consumer in self._consumers.values():
            while not consumer.assignment():
                consumer.poll(0.05)
                if time.monotonic() > end_s:
                    raise RuntimeError("a consumer got no partition")

    def work(self, handle: Callable[[Message], bool]) -> None:
        """Poll the topics by their weights, as fast as the capacity allows, until `handle` returns true."""
        due_s = time.monotonic()
        while True:
            for tier, weight in WEIGHTS.items():
                for message in self._consumers[tier].consume(weight, timeout=0.0):
                    due_s = max(due_s, time.monotonic() - 0.1) + self._scene.chunk / self._scene.capacity
                    time.sleep(max(0.0, due_s - time.monotonic()))
                    if handle(message):
                        return


def run(topics: ThreeTopics, scene: TestBed) -> dict[str, float]:
    """Do one run."""
    for number in range(scene.earlier):
        topics.submit("high", f"task-{number}".encode(), scene.earlier_targets)
    for tier in ("medium", "low"):
        topics.submit(tier, tier.encode(), scene.backlog(tier))
    topics.attach()
    began_s = time.monotonic()
    submitted_s = 0.0
    earlier_left = scene.earlier * scene.earlier_targets
    late_left = scene.late_targets

    def handle(message: Message) -> bool:
        nonlocal submitted_s, earlier_left, late_left
        task = message.key() or b""
        if task == LATE:
            late_left -= scene.chunk
        elif task.startswith(b"task-"):
            earlier_left -= scene.chunk
        if not submitted_s and time.monotonic() - began_s >= scene.after_s:
            submitted_s = time.monotonic()
            topics.submit("high", LATE, scene.late_targets)
        return late_left <= 0 or time.monotonic() - began_s > TIMEOUT_S

    topics.work(handle)
    if late_left > 0:
        raise RuntimeError(f"the late task was not done after {TIMEOUT_S:.0f} s")
    return figures(scene, took_s=time.monotonic() - submitted_s, earlier_left=earlier_left)


def main() -> None:
    address, number = json.loads(sys.argv[1])
    scene = TestBed()
    print(json.dumps(run(ThreeTopics(address, number, scene), scene)), flush=True)
    os._exit(0)  # leaving three groups takes seconds


if __name__ == "__main__":
    main()
