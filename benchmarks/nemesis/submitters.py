"""A process that submits task after task and notes what it requests and what was confirmed.

Restarted after a kill, it continues with what it had requested. Settings come from the environment. Arguments: its
name, the path of its log, a seed. On SIGTERM it ends once the present task is confirmed.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.nemesis.logs import lines
from benchmarks.nemesis.provider import NAME
from dispatcher.model.tier import TIERS
from fairlane import PushClient, PushTask
from fairlane.errors import FairlaneError
from fairlane.settings import Settings
from fairlane.worker.process.stop_signal import stop_on_signals

CHUNKS = (1, 7, 20)
SIZES = (20, 200, 1_500)
AGAIN_S = 0.5
"""Pause between two attempts, and between two tasks per hundred targets.

The submitted rate is then about the sent rate.
"""
PACE = 200.0
"""Targets per second of one submitter: about half of what the workers may send."""


def audience(task: str, count: int) -> list[str]:
    """Return targets that no other task has."""
    return [f"{task}/{number:05d}" for number in range(count)]


def wish(name: str, number: int, seed: int) -> dict[str, Any]:
    """Return the task with this number; it is the same for the same seed."""
    chance = Random(f"{seed}/{name}/{number}")
    tier, count, chunk = chance.choice(TIERS), chance.choice(SIZES), chance.choice(CHUNKS)
    return {"task": f"{name}-{number:04d}", "tier": str(tier), "count": count, "chunk": chunk}


class Submitter:
    """Submits tasks. Its log is its memory."""

    def __init__(self, name: str, log: Path, seed: int, stop: threading.Event) -> None:
        self._name, self._log, self._seed, self._stop = name, log, seed, stop

    def run(self, client: PushClient) -> None:
        for number, known in self._numbers():
            asked = wish(self._name, number, self._seed)
            if not known:
                self._note("asked", asked)
            began_s = time.monotonic()
            accepted = self._submitted(client, asked)
            self._note("confirmed", {"task": asked["task"], "accepted": accepted})
            if self._stop.wait(max(0.0, asked["count"] / PACE - (time.monotonic() - began_s))):
                return

    def _numbers(self) -> Iterator[tuple[int, bool]]:
        """Yield the number of the unfinished task, if there is one, and those that follow.

        Each comes with whether it was requested before.
        """
        noted = lines(self._log)
        asked = sum(line["what"] == "asked" for line in noted)
        if asked > sum(line["what"] == "confirmed" for line in noted):
            yield asked - 1, True
        while not self._stop.is_set():
            yield asked, False
            asked += 1

    def _submitted(self, client: PushClient, asked: dict[str, Any]) -> int:
        """Submit until the task is confirmed."""
        task = PushTask(
            id=asked["task"], app=self._name, tier=asked["tier"], channel=NAME, message="Hi", chunk=asked["chunk"]
        )
        while True:
            try:
                handle = client.submit(task, audience(asked["task"], asked["count"]))
            except FairlaneError as error:
                self._note("failed", {"task": asked["task"], "error": str(error)})
                time.sleep(AGAIN_S)
            else:
                return handle.result.accepted if handle.result else asked["count"]

    def _note(self, what: str, fields: dict[str, Any]) -> None:
        with self._log.open("a") as log:
            log.write(json.dumps({"what": what, "at_ms": time.time_ns() // 1_000_000, **fields}) + "\n")


def main() -> None:
    name, log, seed = sys.argv[1:]
    submitter = Submitter(name, Path(log), int(seed), stop_on_signals())
    with PushClient.connect(Settings()) as client:
        submitter.run(client)


if __name__ == "__main__":
    main()
