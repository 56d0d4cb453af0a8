"""Processes that keep to one core each, so that none measures the other."""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

CLIENT, SERVER = 0, 1
"""Their cores."""


def run_on(core: int, main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in this process, which keeps to a core where the system allows it."""
    import uvloop

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core % (os.cpu_count() or 1)})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)
