"""The epoch: identifies the view that Redis holds, and whether it is complete enough to grant."""

from dataclasses import dataclass

import msgspec

from backends.redis.keys import MOVED_MS
from backends.redis.view import ViewPart
from dispatcher.model.errors import NotReady, Refused
from dispatcher.model.view_form import FORM
from dispatcher.model.view_home import held_elsewhere, renumbered

REBUILD_STEP = "Workers rebuild it from Pulsar: try again. An operator starts one if none runs: `fairlane worker list`."


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One view, which began in an empty Redis."""

    id: str
    started_ms: int
    ready: bool
    announced: bool
    marked: bool
    wait_ms: int
    """How long nothing is granted yet, because claims made earlier may still be in use."""
    early_ms: int = 0
    """How far Redis' clock is before the time at which this wait began, since it was set back."""
    partitions: int
    restoring: bool
    """Whether a snapshot must be restored before anything is folded."""
    read: frozenset[str]
    """Topics read up to the mark: `control` and the numbers of outcome topics."""
    claim_ms: int = 0
    """The longest claim that workers are known to make."""
    form: int = FORM
    """See dispatcher.model.view_form."""
    address: str = ""
    """Address of the Redis that holds the view."""
    adopted: bool = False
    """Whether the installation moves here from another Redis."""
    foreign: str = ""
    """Address of another Redis that holds the view of this installation; nothing is granted here then."""
    deposed: str = ""
    """Id of the epoch in the Redis that took the place of this one, which does not know it yet; nothing is granted here
    then."""
    broken: str = ""
    """The error of a script that failed half-way; the view is then rebuilt."""

    @property
    def grants(self) -> bool:
        """Whether leases are granted now."""
        return self.ready and self.wait_ms == 0 and not (self.foreign or self.deposed)


class Epochs(ViewPart):
    """The epoch in Redis. All methods raise Unreachable; setters change nothing if Redis now holds another epoch."""

    def epoch(self) -> Epoch | None:
        """Return the present epoch, or None if Redis is empty."""
        fields = self._view.texts(self._view.keys.epoch)
        if "id" not in fields:
            return None
        now_ms, begins_in_ms = self._view.now_ms(), MOVED_MS if fields.get("adopted") == "1" else 0
        derived = {
            "wait_ms": max(0, int(fields["grants_after_ms"]) - now_ms),
            "early_ms": max(0, int(fields.get("waits_from_ms", "0")) - begins_in_ms - now_ms),
            "restoring": fields.get("restoring", "0") != "0",  # the name of the restorer, once there is one
            "read": [name.removeprefix("read:") for name in fields if name.startswith("read:")],
            "form": fields.get("form", "1"),
        }
        return msgspec.convert(fields | derived, Epoch, strict=False)

    def ready(self) -> bool:
        """Return whether the view is complete, so that its counts are right."""
        return bool(self._view.command("HGET", self._view.keys.epoch, "ready") == b"1")

    def ready_view(self) -> str:
        """Return the id of the view if it is complete; empty if it is not."""
        id_, ready = self._view.command("HMGET", self._view.keys.epoch, "id", "ready")
        return id_.decode() if id_ and ready == b"1" else ""

    def check_counts(self) -> None:
        """Raise NotReady while the view is being rebuilt, when sums over its tasks are too low. (A view that no worker
        has begun holds the tasks submitted so far.)"""
        if self._view.command("HGET", self._view.keys.epoch, "ready") == b"0":
            raise NotReady("The view in Redis is being rebuilt and is not complete yet.", REBUILD_STEP)

    def begin_epoch(
        self,
        epoch: str,
        wait_ms: int,
        partitions: int,
        *,
        restoring: bool = False,
        replaces: str = "",
        adopted: bool = False,
    ) -> bool:
        """Begin a view in which nothing is granted for wait_ms, the longest claim that may be in use. Return False if
        there is one already.

        restoring: nothing is folded until quotas.snapshots has ended the restore. replaces: the id of the view to
        replace, which has an older form or is broken. adopted: the installation moves here from another Redis.
        """
        view, run = self._view, self._view.run()
        args = (epoch, wait_ms, partitions, run.run_id, int(restoring), replaces, f"{view.keys.prefix}:*")
        return bool(view.call("begin_epoch", *args, view.address, int(adopted), run.promotion))

    def form(self) -> int | None:
        """Return the form of the present view, or None if Redis holds none."""
        epoch_id, form = self._view.command("HMGET", self._view.keys.epoch, "id", "form")
        return None if epoch_id is None else int(form or 1)

    def check_home(self) -> None:
        """Raise Refused if another Redis holds the view of this installation."""
        foreign = self._view.command("HGET", self._view.keys.epoch, "foreign")
        if foreign:
            raise held_elsewhere(foreign.decode(), self._view.address)

    def check_form(self) -> None:
        """Raise Refused if a newer version or another Redis keeps the view, NotReady if an older version does."""
        self.check_home()
        form = self.form()
        if form is not None and form > FORM:
            raise Refused(
                f"The view in Redis has form {form}; this version of Fairlane knows forms up to {FORM}.",
                "Upgrade this program to the version of the workers.",
            )
        if form is not None and form < FORM:
            raise NotReady(
                f"The view in Redis has form {form}, which an older version keeps; this version needs {FORM}.",
                "Start workers of this version and stop the older ones, or use the program of the older version.",
            )

    def epoch_announced(self, epoch: str, *, first: bool, position: str, claim_ms: int = 0) -> None:
        """Record that the epoch's EpochStarted is stored at `position`. first: no view was ever begun before, so there
        is no claim to wait for. claim_ms: the longest claim that the control topic knows of."""
        self._view.call("step_epoch", epoch, "announced", int(first), position, self._view.address, claim_ms)

    def renumber(self, epoch: str, number: int) -> None:
        """Give the view a number above `number`, the highest of the announcements of it in the control topic."""
        self._view.call("set_epoch", epoch, "id", renumbered(epoch, number + 1))

    def refuse_epoch(self, epoch: str, foreign: str) -> None:
        """Record that another Redis, at the address `foreign`, holds the view of this installation."""
        self._view.call("set_epoch", epoch, "foreign", foreign)

    def move_wait(self, epoch: str) -> None:
        """Let the view wait from now on for as long as it would have waited, since the clock was set back."""
        self._view.call("move_wait", epoch)

    def epoch_marked(self, epoch: str) -> None:
        """Record that the epoch's EpochMark is stored in every topic."""
        self._view.call("step_epoch", epoch, "marked", 0)
