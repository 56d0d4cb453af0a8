"""Fairlane, through its public API: `fairlane_peer.py submit`. Its workers are `fairlane worker --processes 2`."""

import os
import secrets
import time
from typing import Any

import audience
import talking

from fairlane import Changes, PushClient, PushTask, Settings, TaskFilter, Tier
from lab.isolation import environment, isolated, provisioned

WORKERS = 2


class Submitter:
    """Submits tasks; all are held and released in one call.

    `capacity`: targets/s of all workers together, 0 for no limit.
    """

    def __init__(self, client: PushClient, capacity: int) -> None:
        self._client = client
        if capacity:
            client.set_capacity(capacity)

    def submit(self, request: dict[str, Any], targets: list[str]) -> None:
        task = PushTask(
            id=request["id"], app="bench", tier=Tier(request["tier"]), channel="record", message=audience.MESSAGE,
            expected_targets=len(targets), chunk=request["chunk"],
        )  # fmt: skip
        self._client.submit(task, targets=targets)

    def hold(self) -> None:
        """Pause all tasks. Paused tasks are not prefetched, so no message is handled before the workers run."""
        self._client.set_many(TaskFilter(app="bench"), Changes(paused=True))

    def release(self) -> None:
        deadline = time.monotonic() + 60
        while sum(worker.state == "serving" for worker in self._client.workers()) < WORKERS:
            if time.monotonic() > deadline:
                raise TimeoutError("Fairlane's workers do not serve; see their logs.")
            time.sleep(0.05)
        self._client.set_many(TaskFilter(app="bench"), Changes(paused=False))


def say_environment(own: Settings) -> None:
    """Print the environment that workers need to find the tenant of this run."""
    chosen = {name: value for name, value in environment(own).items() if os.environ.get(name) != value}
    talking.answer(environment=chosen)


def main() -> None:
    own = isolated(Settings(), f"peers-{secrets.token_hex(3)}")
    with provisioned(own), PushClient.connect(own) as client:
        submitter = Submitter(client, int(os.environ["PEER_CAPACITY"]))
        say_environment(own)
        talking.serve(submitter.submit, hold=submitter.hold, release=submitter.release)


if __name__ == "__main__":
    main()
