"""The state of the service, read through a client, for commands that show it."""

import time
from typing import TYPE_CHECKING

from backends.system_clock import SystemClock
from fairlane.screen.sample import Sample, Sampler

if TYPE_CHECKING:
    from producers.client import PushClient

MEASURE_S = 2.2
"""How long to measure. Heartbeats come once a second: long enough to see two."""


def settled_sample(client: "PushClient") -> Sample:
    """Return a sample whose rates are those of the last two seconds."""
    from fairlane.cli.base.progress import doing

    sampler = Sampler(client, SystemClock())
    with doing(f"measuring for {MEASURE_S:.0f} s"):
        sampler.take()
        time.sleep(MEASURE_S)
        return sampler.take()
