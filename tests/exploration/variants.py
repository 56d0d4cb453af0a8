"""What is explored: a task, what may happen to it, and how many faults."""

from dataclasses import dataclass

from dispatcher.control import ControlChange, ControlRecord, Finished, Sealed, TaskRecord
from dispatcher.lease import LaneKind
from dispatcher.ports import LaneInfo
from dispatcher.tier import Tier
from dispatcher.topics import Topics
from tests.exploration.envelopes import MESSAGE, SIZE, TASK, Kind, first

TOPICS = Topics(outcome_partitions=1)
SHARED, OWN = TOPICS.shared_lane(0), TOPICS.own_lane(TASK)
FAULTS = ("crash", "stall", "redelivery", "lost receipt", "lost answer", "forgotten ack", "flush")
LEFT_OUT = "x"
"""A writer that the seal does not name."""


@dataclass(frozen=True)
class Variant:
    """faults: how many of them in a run, of those in `kinds`. envelopes: what is published, twice where there are
    copies. events: what somebody may do at any time. writers: those that the seal names. letting_go: the own lane is deleted
    when the task has ended. together: a lane may yield all it has at once. hands: most deliveries a worker holds at
    once. doubts: one in so many moves is looked at by another history. broken: a rule left out on purpose. limit:
    states."""

    name: str
    faults: int = 2
    kinds: tuple[str, ...] = FAULTS
    envelopes: tuple[Kind, ...] = (first(),)
    events: tuple[str, ...] = ()
    writers: tuple[str, ...] = ("0",)
    sealed: bool = True
    shared: bool = False
    letting_go: bool = False
    together: bool = False
    hands: int = 9
    doubts: int = 5
    broken: str = ""
    limit: int = 20_000_000

    @property
    def lane(self) -> str:
        return SHARED if self.shared else OWN

    @property
    def tier(self) -> Tier:
        return Tier.LOW if self.shared else Tier.HIGH

    @property
    def retry(self) -> str:
        return TOPICS.retry_lane(self.tier, 1)

    @property
    def sent(self) -> tuple[Kind, ...]:
        """Envelopes that count, without copies."""
        return tuple(dict.fromkeys(kind for kind in self.envelopes if kind[0] in self.writers))

    def lanes(self) -> list[LaneInfo]:
        own = LaneInfo(OWN, LaneKind.OWN, str(self.tier), 1000, SIZE, TASK, "null")
        retry = LaneInfo(self.retry, LaneKind.RETRY, str(self.tier), 1000, SIZE)
        if not self.shared:
            return [own, retry]
        shared = LaneInfo(SHARED, LaneKind.SHARED, "low", 1000, SIZE)
        return [shared, retry, own] if "move" in self.events else [shared, retry]

    def record(self, name: str) -> ControlRecord:
        """What stands in the control topic."""
        targets = SIZE * len(self.sent)
        match name:
            case "task":
                chunk, most = SIZE, 2
                return TaskRecord(
                    1, TASK, "app", self.tier, "null", MESSAGE, self.lane, self.shared, chunk, targets, 1000, 0, 0, 0,
                    False, most, 0, "digest",
                )  # fmt: skip
            case "seal":
                return Sealed(1, TASK, targets, 0, "digest", list(self.writers))
            case "cancel":
                return ControlChange(1, TASK, "cancelled", "1", 0)
            case "move":
                return ControlChange(1, TASK, "lane", OWN, 0)
            case "pause" | "resume":
                return ControlChange(1, TASK, "paused", "1" if name == "pause" else "0", 0)
            case _:
                return Finished(1, TASK, "completed", [0] * 5, 0)


SPARK = {"envelopes": (first(0, "y"), first(0, LEFT_OUT)), "writers": ("y",), "sealed": False, "events": ("seal",)}
VARIANTS = (
    Variant("one envelope", hands=2),
    Variant("a copy of it (a resumed submission)", faults=1, envelopes=(first(), first()), hands=2, together=True),
    Variant("two envelopes", faults=1, envelopes=(first(), first(1)), hands=1),
    Variant("two envelopes received together", faults=0, envelopes=(first(), first(1)), together=True),
    Variant("cancelled", faults=1, events=("cancel",), letting_go=True),
    Variant("cancelled in a shared lane", faults=1, events=("cancel",), shared=True),
    Variant("moved to a lane of its own", faults=1, events=("move",), shared=True, letting_go=True),
    Variant("paused and resumed", faults=1, events=("pause", "resume")),
    Variant("a writer left out by the seal", faults=1, hands=2, **SPARK),  # type: ignore[arg-type]
)
"""In less than a minute on two cores."""
DEEP = (
    Variant("one envelope, 3 faults", faults=3, hands=1),
    Variant("one envelope, any number held", faults=2),
    Variant("a copy of it, 2 faults", envelopes=(first(), first()), hands=1),
    Variant("two envelopes, 2 faults", envelopes=(first(), first(1)), hands=1),
    Variant("cancelled, 2 faults", events=("cancel",), hands=1),
    Variant("cancelled in a shared lane, 2 faults", events=("cancel",), shared=True, hands=1),
    Variant("moved to a lane of its own, 2 faults", events=("move",), shared=True, hands=1),
    Variant("paused and resumed, 2 faults", events=("pause", "resume"), hands=1),
    Variant("a writer left out by the seal, 2 faults", hands=1, **SPARK),  # type: ignore[arg-type]
)
"""On demand: an hour and some gigabytes."""
BROKEN = (
    Variant("", faults=1, broken="ack first"),
    Variant("", faults=1, broken="no claim number"),
    Variant("", faults=1, broken="no wait after a flush"),
    Variant("", faults=1, broken="no look at the fold"),
    Variant("", faults=0, broken="cancel acknowledged at once", events=("cancel",)),
    Variant("", faults=0, broken="undecided writers dropped", **SPARK),  # type: ignore[arg-type]
)
"""Each lacks one rule, and so must be found out."""
