"""Many submissions at once: each ends by itself."""

import pytest

from dispatcher.model.errors import LimitReached
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from producers.submit.many import submit_many


def push(app: str) -> PushTask:
    return PushTask(app=app, tier=Tier.LOW, channel="null", message="Sale!")


def submit(task: PushTask, targets: list[str]) -> str:
    if task.app == "full":
        raise LimitReached("It has enough.")
    if task.app == "broken":
        raise KeyError("who knows why")
    return f"{task.app} {len(targets)}"


def test_one_that_fails_does_not_stop_the_others() -> None:
    given = [(push(app), ["a"]) for app in ("shop", "full", "bank")]
    made = list(submit_many(given, submit, 2))
    assert [one.handle for one in made] == ["shop 1", None, "bank 1"]
    assert isinstance(made[1].error, LimitReached)


def test_what_nobody_foresaw_ends_them_all() -> None:
    with pytest.raises(KeyError, match="who knows why"):
        list(submit_many([(push("broken"), ["a"]), (push("shop"), ["a"])], submit, 1))
