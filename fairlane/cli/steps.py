"""Steps that take a while, told on stderr with the seconds since the beginning."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Gives a function to call at the start of each step; a terminal also sees the seconds run."""
    console = Console(stderr=True, highlight=False)
    began = time.monotonic()
    live = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True
    )

    def step(message: str) -> None:
        console.print(f"[{time.monotonic() - began:5.1f} s] {message}", markup=False, soft_wrap=True)
        if console.is_terminal:
            live.update(running, description=message)

    if not console.is_terminal:
        yield step
        return
    with live:
        running = live.add_task("")
        yield step
