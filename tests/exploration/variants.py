"""Variants of the exploration: a task, what may happen to it, and how many faults."""

import os
from dataclasses import dataclass, replace
from typing import Any

from dispatcher.model.tier import Tier
from dispatcher.ports import LaneInfo
from dispatcher.wire.control import ControlRecord
from dispatcher.wire.lease import LaneKind
from dispatcher.wire.topics import RETRY_STEPS_S, Topics
from tests.contract.registry_records import change, sealed, task_record
from tests.exploration.envelopes import MESSAGE, SIZE, TASK, Kind, TaskRules, first
from tests.exploration.rules import EARLY_MARK, EARLY_WORD
from tests.records import finished, lane_info

IS_DEEP = os.environ.get("FAIRLANE_TEST_EXPLORE") == "deep"
"""More is explored, and compared, than always."""
TOPICS = Topics(outcome_partitions=1)
SHARED, OWN = TOPICS.shared_lane(0), TOPICS.own_lane(TASK)
FAULTS = ("crash", "stall", "redelivery", "lost receipt", "lost answer", "forgotten ack", "flush")
"""Redis out of reach is none (see Steps.outages_felt)."""
LATE = ("late record", "flush", "redelivery", "crash")
"""With records that cannot be stored for longer than claims last."""
PLAIN = TaskRules()
LEFT_OUT = "x"
"""A writer that the seal does not name."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """faults: how many of them in a run, of those in `kinds`. envelopes: what is published, twice where there are
    copies. before: the contents of the control topic; events: what somebody may do at any time. writers: those that the
    seal names. trial: targets that are sent before a go; they are in the retry lane. letting_go: the own lane
    is deleted when the task has ended. together: a lane may yield all it has at once. hands: most deliveries held at
    once. doubts: one move in this number is also made from another history.
    rules: of the task, for targets that are not sent. laps: an envelope may leave its retry lane before it is due.
    reopens: pauses are ended early, and what waits for that is sent.
    broken: a rule left out on purpose, and which law it breaks first. limit: states."""

    name: str
    faults: int = 2
    kinds: tuple[str, ...] = FAULTS
    envelopes: tuple[Kind, ...] = (first(),)
    events: tuple[str, ...] = ()
    writers: tuple[str, ...] = ("0",)
    before: tuple[str, ...] = ("task", "seal")
    shared: bool = False
    trial: int = 0
    letting_go: bool = False
    together: bool = False
    hands: int = 9
    doubts: int = 5
    rules: TaskRules = PLAIN
    laps: bool = False
    reopens: bool = False
    broken: str = ""
    breaks: str = ""
    limit: int = 20_000_000

    def in_trial(self, kind: Kind) -> bool:
        """Whether it may be sent before the go."""
        return kind[1] * SIZE < self.trial

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
        of_tier: dict[str, Any] = {"tier": str(self.tier), "chunk": SIZE}
        own = lane_info(OWN, TASK, **of_tier)
        # All that waits is in one retry lane here, whose longest stay is that of the longest step.
        retry = lane_info(self.retry, kind=LaneKind.RETRY, delay_s=RETRY_STEPS_S[-1], channel="", **of_tier)
        if not self.shared:
            return [own, retry]
        shared = lane_info(SHARED, kind=LaneKind.SHARED, channel="", **of_tier)
        return [shared, retry, own] if "move" in self.events else [shared, retry]

    def record(self, name: str) -> ControlRecord:
        """Return a record of the control topic."""
        targets = SIZE * len(self.sent)
        match name:
            case "task":
                where: dict[str, Any] = {"tier": self.tier, "lane": self.lane, "shared": self.shared}
                return task_record(
                    TASK, app="app", message=MESSAGE, chunk=SIZE, max_attempts=self.rules.max_attempts,
                    first=self.trial, created_ms=0, expected_targets=targets, **where
                )  # fmt: skip
            case "seal":
                return sealed(TASK, targets, self.writers)
            case "cancel":
                return change(TASK, "cancelled", "1")
            case "move":
                return change(TASK, "lane", OWN)
            case "pause" | "resume":
                return change(TASK, "paused", "1" if name == "pause" else "0")
            case _:
                return finished(TASK)


def _writers(name: str, **given: Any) -> Variant:
    """Two writers, one of which the seal leaves out."""
    envelopes = (first(0, "y"), first(0, LEFT_OUT))
    return Variant(name=name, envelopes=envelopes, writers=("y",), before=("task",), events=("seal",), **given)


IN_PARTS = TaskRules("parts", max_attempts=3)
UNKNOWN, UNKNOWN_ENDS = TaskRules("unknown"), TaskRules("unknown", gives_up_unknown=True)
NO_EXCUSE = ("crash", "redelivery", "lost answer", "lost receipt", "forgotten ack")
"""After none of these may a target be called again that is given up once that is unknown."""
DROPPED_EARLY = "a writer is dropped only if the seal leaves it out"
COPY = (first(), first())
TWO = (first(), first(1))


VARIANTS = (
    Variant(name="two envelopes", envelopes=TWO, hands=1),
    Variant(name="a copy of it (a resumed submission)", envelopes=COPY, hands=1),
    Variant(name="cancelled", events=("cancel",), letting_go=True, hands=1),
    Variant(name="moved to a lane of its own", events=("move",), shared=True, letting_go=True, hands=1),
    Variant(name="paused and resumed", events=("pause", "resume"), hands=1),
    Variant(name="a trial send and its go", events=("resume",), envelopes=TWO, trial=SIZE, hands=1),
    _writers("a writer left out by the seal", hands=1),
    Variant(name="cancelled in a shared lane", events=("cancel",), shared=True, hands=1),
    Variant(name="one envelope, and several in hand", hands=2),
    Variant(name="one envelope", hands=1),
    Variant(name="a copy of it, and several in hand", faults=1, envelopes=COPY, hands=2),
    Variant(name="cancelled, any number in hand", faults=1, events=("cancel",), letting_go=True),
    Variant(name="cancelled in a shared lane, any number in hand", faults=1, events=("cancel",), shared=True),
    Variant(name="sent in parts", faults=1, rules=IN_PARTS, laps=True, hands=1),
    Variant(name="sent in parts, and a pause is ended", faults=1, rules=IN_PARTS, reopens=True, hands=1),
    Variant(name="sent in parts, and several in hand", faults=1, rules=IN_PARTS, hands=2),
    Variant(name="sent in parts by two", rules=IN_PARTS, kinds=("stall", "redelivery"), hands=1),
    Variant(name="sent in parts and cancelled", faults=1, rules=IN_PARTS, events=("cancel",), shared=True, hands=1),
    Variant(name="unknown, and tried again", rules=UNKNOWN, hands=1),
    Variant(name="unknown, and given up", rules=UNKNOWN_ENDS, kinds=NO_EXCUSE, hands=1),
    Variant(name="records that come late", faults=3, kinds=LATE, hands=1),
    Variant(name="records that come late of a cancelled task", kinds=LATE, events=("cancel",), hands=1),
    Variant(name="two envelopes received together", faults=0, envelopes=TWO, together=True),
)
"""The longest first. In all worlds two faults of the seven, with one delivery at a time in a worker's hands. With
several: two faults for one envelope; one for a copy, and for what is cancelled; none for what is received together."""
DEEP = (
    Variant(name="two envelopes received together, 1 fault", faults=1, envelopes=TWO, together=True),
    Variant(name="one envelope, any number held", faults=2),
    Variant(name="one envelope, 3 faults", faults=3, hands=1),
)
"""On demand."""


def _without(rule: str, breaks: str, *kinds: str, **given: Any) -> Variant:
    return Variant(
        name=f"without: {rule}", faults=len(kinds), kinds=kinds, broken=rule, breaks=breaks, hands=2, **given
    )


BROKEN = (
    _without("the record is stored before the ack", "I4", "crash"),
    _without("the next attempt is stored before the ack", "I4", "crash"),
    _without("what has no receipt is stored again", "I4", "lost receipt"),
    _without("recorded with open targets: the next attempt is published again", "I4", "crash"),
    _without("what was asked for is kept while the view is not ready", "I4", "flush"),
    _without("an ended claim is freed by the fold only", "I3", "crash"),
    _without("the first final outcome counts", "I1", "stall", "redelivery"),
    _without("a claim is one delivery's, not a worker's", "I3", "redelivery"),
    _without("what is claimed is held", "I3", "redelivery"),
    _without("what is final is dropped", "I3", envelopes=COPY),
    _without(
        "the tombstone is looked at before a move", "I4", envelopes=COPY, events=("move",), shared=True, letting_go=True
    ),
    _without("a pause spends nothing", "I9", events=("pause", "resume")),
    _without("a go is waited for", "I10", events=("resume",), envelopes=TWO, trial=SIZE),
    _without("what a live worker has yet to record is held", "I3", "late record", "flush", "redelivery"),
    _without("nothing is sent past its use-by", "I3", "stall", "redelivery"),
    _without(
        "a copy with more targets than are open is cut", "I11", "stall", "redelivery", rules=IN_PARTS, doubts=1_000_000
    ),
    _without("a claim that ends without a record costs a try", "I3", "crash", rules=UNKNOWN_ENDS),
    _without("what is not due is not sent", "I12", rules=IN_PARTS),
    _without(
        "the end of a pause hurries nothing that waits for a time of its own", "I12", rules=IN_PARTS, reopens=True
    ),
    _without(EARLY_MARK, "I3", "flush", "redelivery"),
    _without(EARLY_WORD, "I5", events=("cancel",)),
    replace(_writers(f"without: {DROPPED_EARLY}", faults=0), broken=DROPPED_EARLY, breaks="I4"),
)
"""Each lacks one rule, and so must be found out."""
