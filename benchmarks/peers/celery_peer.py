"""Celery over Redis: `celery_peer.py submit` and `celery_peer.py work`."""

import os
import sys
from typing import Any

import audience
import redis
import talking
from celery import Celery
from recording import Recorder

URL = os.environ["PEER_URL"]
PACED = float(os.environ.get("PEER_PACE", "0")) > 0
BATCH = 500
"""Messages per round trip while submitting."""

app = Celery("peer", broker=URL)
app.conf.update(
    task_acks_late=True,  # acknowledged after the handler
    worker_prefetch_multiplier=1 if PACED else 64,
    task_ignore_result=True,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    task_default_queue="high",
    broker_transport_options={"queue_order_strategy": "priority", "priority_steps": [0]},
)
recorders: list[Recorder] = []


@app.task(name="push")
def push(task: str, sequence: int, targets: list[str], message: dict[str, str]) -> None:  # noqa: ARG001  # the job
    if not recorders:
        recorders.append(Recorder(dict(os.environ)))
    recorders[0].handle(task, sequence, len(targets))


def submit(request: dict[str, Any], targets: list[str]) -> None:
    with app.producer_or_acquire() as producer, producer.batch(BATCH):
        for sequence, chunk in enumerate(audience.chunks(targets, request["chunk"])):
            push.apply_async(
                (request["id"], sequence, chunk, audience.MESSAGE), producer=producer, queue=request["tier"]
            )


def warm() -> None:
    """Connect before anything is timed."""
    with app.producer_or_acquire() as producer:
        producer.connection.default_channel  # noqa: B018  # reading it connects


def clear() -> None:
    redis.Redis.from_url(URL).flushall()


def work() -> None:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
    name = f"--hostname=peer{os.getpid()}@%h"
    app.worker_main(["worker", "--pool", "solo", "--queues", os.environ["PEER_TIERS"], name, *quiet])


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work()
    else:
        warm()
        talking.serve(submit, clear=clear)
