"""Dramatiq over RabbitMQ: `dramatiq_peer.py submit` and `dramatiq_peer.py work`."""

import logging
import os
import signal
import sys
import threading
from typing import Any

PACED = float(os.environ.get("PEER_PACE", "0")) > 0
THREADS = 1 if PACED else 2
if not PACED:
    os.environ["dramatiq_queue_prefetch"] = "100"  # noqa: SIM112  # its name; read when dramatiq is imported

import audience  # noqa: E402
import dramatiq  # noqa: E402
import talking  # noqa: E402
from dramatiq.brokers.rabbitmq import RabbitmqBroker  # noqa: E402
from dramatiq.middleware import Retries, ShutdownNotifications  # noqa: E402
from recording import Recorder  # noqa: E402

PRIORITIES = {"high": 0, "medium": 10, "low": 20}
WORKER_TIMEOUT_MS = 50
"""How often an idle queue is checked; the default is every second."""

broker = RabbitmqBroker(url=os.environ["PEER_URL"], middleware=[Retries(), ShutdownNotifications()])
dramatiq.set_broker(broker)
recorders: list[Recorder] = []
making = threading.Lock()


def push(task: str, sequence: int, targets: list[str], message: dict[str, str]) -> None:  # noqa: ARG001  # the job
    if not recorders:
        with making:
            recorders or recorders.append(Recorder(dict(os.environ)))  # type: ignore[func-returns-value]
    recorders[0].handle(task, sequence, len(targets))


actors = {
    tier: dramatiq.actor(push, actor_name=f"push_{tier}", queue_name=tier, priority=priority)
    for tier, priority in PRIORITIES.items()
}


def submit(request: dict[str, Any], targets: list[str]) -> None:
    actor = actors[request["tier"]]
    for sequence, chunk in enumerate(audience.chunks(targets, request["chunk"])):
        actor.send(request["id"], sequence, chunk, audience.MESSAGE)


def warm() -> None:
    """Connect and declare the queues before anything is timed."""
    for queue in PRIORITIES:
        broker.declare_queue(queue, ensure=True)


def clear() -> None:
    for queue in PRIORITIES:
        broker.channel.queue_purge(queue)


def work() -> None:
    logging.basicConfig(level=logging.ERROR)
    worker = dramatiq.Worker(broker, worker_threads=THREADS, worker_timeout=WORKER_TIMEOUT_MS)
    worker.start()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()
    worker.stop(timeout=2_000)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work()
    else:
        warm()
        talking.serve(submit, clear=clear)
