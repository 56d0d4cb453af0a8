"""Live controls: written to the control topic first, then to the registry; the caller hears of it after both."""

from collections.abc import Callable

from dispatcher.control import FORMAT, ControlChange, GlobalChange
from dispatcher.errors import InvalidInput, NotFound, Refused, TaskEnded, Unreachable
from dispatcher.task import MAX_CAP, MAX_WEIGHT, MIN_WEIGHT
from dispatcher.tier import MILLI, TIERS, Tier
from producers.ports import Services, Submission


class Controls:
    """Changes tasks and the settings of the whole service. services: called when first needed, since it connects."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self._services = services

    def pause(self, task: str) -> None:
        """Takes effect on targets already queued. Nothing in flight is called back."""
        self._change_own_lane(task, "paused", "1", "paused")

    def resume(self, task: str) -> None:
        self._change_own_lane(task, "paused", "0", "resumed")

    def cancel(self, task: str) -> None:
        """What is not sent yet will not be; its targets end as cancelled. Again: nothing changes."""
        found = self._known(task)
        if found.stopped == "cancelled":
            return
        _refuse_ended(found)
        if not found.stopped:
            self._change(task, "cancelled", "1")

    def set_weight(self, task: str, weight: float) -> None:
        """Share among the tasks of its tier, 0.001 to 1,000."""
        milli = _milli("weight", weight, MIN_WEIGHT, MAX_WEIGHT)
        self._change_own_lane(task, "weight", str(milli), "re-weighted")

    def set_tier(self, task: str, tier: Tier | str) -> None:
        if tier not in TIERS:
            raise InvalidInput(f"tier: is {tier!r}; it can be {', '.join(TIERS)}.")
        self._change_own_lane(task, "tier", str(Tier(tier)), "moved to another tier")

    def set_cap(self, task: str, cap: int | None) -> None:
        """Most targets/s of this task; None or 0: no cap of its own."""
        number = _whole("cap", cap or 0)
        self._change_own_lane(task, "cap", str(number), "capped")

    def set_capacity(self, targets_per_s: int) -> None:
        """Of all workers together; 0: unlimited."""
        self._change_global("capacity", str(_whole("capacity", targets_per_s)))

    def set_tiers(self, high: float, medium: float, low: float) -> None:
        """Weights of the tiers, 0.001 to 1,000 each."""
        weights = {"high": high, "medium": medium, "low": low}
        milli = [_milli(name, weight, MIN_WEIGHT, MAX_WEIGHT) for name, weight in weights.items()]
        self._change_global("tiers", ":".join(map(str, milli)))

    def _change_own_lane(self, task: str, field: str, value: str, wish: str) -> None:
        found = self._known(task)
        _refuse_ended(found)
        if found.stopped:
            raise TaskEnded(f"Task {task} is {found.stopped} and takes no more changes.")
        if found.record.shared:
            raise Refused(
                f"Task {task} is small and low and shares its lane with others, so it cannot be {wish} yet.",
                "Cancel it if it must stop; submit such tasks with a weight, a cap or expected_targets above 5,000 "
                "to give them a lane of their own.",
            )
        self._change(task, field, value)

    def _known(self, task: str) -> Submission:
        found = self._services().registry.submission(task)
        if found is None:
            raise NotFound(f"There is no task {task}.", "`fairlane task list` shows all; ended ones are kept for days.")
        return found

    def _change(self, task: str, field: str, value: str) -> None:
        self._store(ControlChange(FORMAT, task, field, value, self._services().clock.wall_ms()))

    def _change_global(self, field: str, value: str) -> None:
        self._store(GlobalChange(FORMAT, field, value, self._services().clock.wall_ms()))

    def _store(self, record: ControlChange | GlobalChange) -> None:
        position = self._services().control.append(record)
        try:
            self._services().registry.apply(position, record)
        except Unreachable as error:
            raise Unreachable(
                f"The change is stored, but the registry could not be told: {error.cause}",
                "It takes effect by itself once Redis is back.",
            ) from error


def _refuse_ended(found: Submission) -> None:
    if found.ended:
        raise TaskEnded(f"Task {found.record.task} has ended ({found.stopped}) and takes no more changes.")


def _milli(name: str, number: float, low: float, high: float) -> int:
    if not low <= number <= high:
        raise InvalidInput(f"{name}: is {number}; it can be {low} to {high:,}.")
    return round(number * MILLI)


def _whole(name: str, number: int) -> int:
    if number != int(number) or not 0 <= number <= MAX_CAP:
        raise InvalidInput(f"{name}: is {number}; it is a whole number of targets/s, 0 to {MAX_CAP:,}.")
    return int(number)
