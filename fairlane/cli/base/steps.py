"""Steps that take a while, reported on stderr with the seconds since the start."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fairlane.screen.progress import progress_lines


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Yield a function to call at the start of each step; a terminal also shows the elapsed seconds."""
    live, began = progress_lines(has_bar=False), time.monotonic()
    console = live.console

    def step(message: str) -> None:
        console.print(f"[{time.monotonic() - began:5.1f} s] {message}", markup=False)
        if console.is_terminal:
            live.update(running, description=message)

    if not console.is_terminal:
        yield step
        return
    with live:
        running = live.add_task("", figures="")
        yield step
