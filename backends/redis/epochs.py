"""The epoch: which view Redis holds, and whether it is complete enough to grant."""

from dataclasses import dataclass

from backends.redis.view import RedisView
from dispatcher.model.errors import NotReady, Refused
from dispatcher.model.view_form import FORM
from dispatcher.model.view_home import held_elsewhere


@dataclass(frozen=True)
class Epoch:
    """One view, from an empty Redis on. read: topics read up to the mark (`control` and the numbers of outcome topics).
    wait_ms: time in which nothing is granted yet, because claims made before may still be in use. restoring: a snapshot
    is to be restored before anything is folded. claim_ms: the longest claim that workers are known to make. form: see
    dispatcher.model.view_form. address: where the view is, empty in one of 0.2. adopted: the installation moves here.
    foreign: address of another Redis that holds the view of this installation; nothing is granted here then. broken:
    with which error a script failed half-way; the view is made again."""

    id: str
    started_ms: int
    ready: bool
    announced: bool
    marked: bool
    wait_ms: int
    partitions: int
    restoring: bool
    read: frozenset[str]
    claim_ms: int = 0
    form: int = FORM
    address: str = ""
    adopted: bool = False
    foreign: str = ""
    broken: str = ""

    @property
    def grants(self) -> bool:
        """Whether leases are granted now."""
        return self.ready and self.wait_ms == 0 and not self.foreign


class Epochs:
    """The epoch in Redis. All methods raise Unreachable; setters change nothing if Redis holds another by now."""

    def __init__(self, view: RedisView) -> None:
        self._view = view

    def epoch(self) -> Epoch | None:
        """None: Redis is empty."""
        stored = self._view.command("HGETALL", self._view.keys.epoch)
        now_ms = self._view.now_ms() if stored else 0
        fields = {name.decode(): value.decode() for name, value in stored.items()}
        if "id" not in fields:
            return None
        return Epoch(
            id=fields["id"],
            started_ms=int(fields["started_ms"]),
            ready=fields["ready"] == "1",
            announced=fields["announced"] == "1",
            marked=fields["marked"] == "1",
            wait_ms=max(0, int(fields["grants_after_ms"]) - now_ms),
            partitions=int(fields["partitions"]),
            restoring=fields.get("restoring", "0") != "0",
            read=frozenset(name.removeprefix("read:") for name in fields if name.startswith("read:")),
            claim_ms=int(fields.get("claim_ms", "0")),
            form=int(fields.get("form", "1")),
            address=fields.get("address", ""),
            adopted=fields.get("adopted") == "1",
            foreign=fields.get("foreign", ""),
            broken=fields.get("broken", ""),
        )

    def ready(self) -> bool:
        """Whether the view is complete: its counts are right."""
        return bool(self._view.command("HGET", self._view.keys.epoch, "ready") == b"1")

    def check_counts(self) -> None:
        """Raises NotReady while the view is made anew: sums over its tasks are too low. (One that no worker has begun
        holds what was submitted.)"""
        if self._view.command("HGET", self._view.keys.epoch, "ready") == b"0":
            raise NotReady(
                "The view in Redis is being rebuilt, and cannot tell yet.",
                "Workers rebuild it from Pulsar: start one if none runs (`fairlane worker list`), and try again.",
            )

    def begin_epoch(
        self,
        epoch: str,
        wait_ms: int,
        partitions: int,
        restoring: bool = False,
        replaces: str = "",
        adopted: bool = False,
    ) -> bool:
        """Begin a view in which nothing is granted for wait_ms, the longest claim that may be in use. Return False if
        there is one already.

        restoring: nothing is folded before quotas.snapshots says that the restoring is done. replaces: the id of a view
        of an older form or a broken one, whose place it takes. adopted: the installation moves here from another Redis.
        """
        view = self._view
        args = (epoch, wait_ms, partitions, view.run_id(), int(restoring), replaces, f"{view.keys.prefix}:*")
        return bool(view.call("begin_epoch", *args, view.address, int(adopted)))

    def form(self) -> int | None:
        """Return the form of the present view, or None if Redis holds none."""
        found, form = self._view.command("HMGET", self._view.keys.epoch, "id", "form")
        return None if found is None else int(form or 1)

    def lower_form(self, epoch: str) -> bool:
        """Mark the view to be made again, since an older version folds it. Return False if it is another view."""
        return bool(self._view.call("lower_form", epoch))

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

    def epoch_announced(self, epoch: str, first: bool, position: str, claim_ms: int = 0) -> None:
        """Its EpochStarted is stored at `position`. first: no view was ever begun before, so there is no claim to wait
        for. claim_ms: the longest claim that the control topic knows of."""
        self._view.call("step_epoch", epoch, "announced", int(first), position, self._view.address, claim_ms)

    def refuse_epoch(self, epoch: str, foreign: str) -> None:
        """Note that another Redis, at the address `foreign`, holds the view of this installation."""
        self._view.call("refuse_epoch", epoch, foreign)

    def epoch_marked(self, epoch: str) -> None:
        """Its EpochMark is stored in every topic."""
        self._view.call("step_epoch", epoch, "marked", 0)
