"""The protocol between run.py and a peer's submitting process: a line of JSON in, a line of JSON out.

{"op": "submit", "id", "tier", "first", "count", "chunk"}: all of a task's messages
    -> {"called_s": wall time of the call, "seconds": until stored}
{"op": "hold"}: before workers start; {"op": "release"}: when they run (only Fairlane needs these)
{"op": "clear"}: the run is over, its queues are deleted
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import audience

Request = dict[str, Any]
Submit = Callable[[Request, list[str]], None]


def submit_timed(request: Request, submit: Submit) -> dict[str, float]:
    """Read the targets, then time their submission: making them is not part of the measurement."""
    targets = audience.read(Path(os.environ["PEER_AUDIENCE"]), request["first"], request["count"])
    called_s, began = time.time(), time.monotonic()
    submit(request, targets)
    return {"called_s": called_s, "seconds": time.monotonic() - began}


def serve(submit: Submit, **operations: Callable[[], object]) -> None:
    """Answer requests until the input ends. `operations`: by name."""
    answer(ready=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "submit":
            answer(**submit_timed(request, submit))
        else:
            operations.get(request["op"], dict)()
            answer()


def answer(**values: Any) -> None:
    print(json.dumps(values), flush=True)
