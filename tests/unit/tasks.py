"""Tasks as the registry gives them: plain ones, of which a test names what matters to it."""

from typing import Any

import msgspec

from backends.redis.registry.task_rows import LiveTask
from dispatcher.model.view import TargetCounts, TaskView


def live_task(task: str, **fields: Any) -> LiveTask:
    """As workers read it: a sealed high task of ten targets with a lane of its own."""
    plain = LiveTask(
        id=task, state="running", app="a", tier="high", weight=1000, cap=0, channel="null", lane=f"lane/{task}",
        shared=False, chunk=100, hold=False, start_ms=0, expires_ms=0, sealed=True, published=10, total=10, finals=0,
        claims=0, cancelled=False,
    )  # fmt: skip
    return plain._replace(**fields)


def task_view(task: str, pending: int = 0, **fields: Any) -> TaskView:
    """As a client reads it: a sealed high task with a lane of its own, of which `pending` targets are all."""
    plain = TaskView(
        id=task, app="shop", tier="high", channel="null", state="running", sealed=True, weight=1.0, cap=0,
        targets=TargetCounts(total=pending, pending=pending), rate=0.0, eta_s=None, refused=0, lane=f"lane/{task}",
        shared=False, chunk=10, expected_targets=pending, created_ms=0, start_ms=0, expires_ms=0, first_outcome_ms=0,
        finished_ms=0,
    )  # fmt: skip
    return msgspec.structs.replace(plain, **fields)
