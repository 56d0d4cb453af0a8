"""Work done for all workers: folding, the ends of claims, closing, rebuilding, completing, clearing away, control."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from dispatcher.wire.outcome import ClaimsEnded, CloseTask, EpochMark, Outcome, encode_record
from tests.exploration.envelopes import SIZE, TASK, filled
from tests.exploration.footprint import HANDS, Menu
from tests.exploration.ledger import claim_of, member_of
from tests.exploration.machines import Machines
from tests.exploration.rules import EARLY_MARK, EARLY_WORD
from tests.exploration.truth import Truth
from tests.exploration.variants import OWN
from tests.exploration.world import CLOSE, ENDED, LIMBO, MARK, OUTCOME, UNRECORDED, Hands, Step, WorldState

NOBODYS = 99
"""Number of a claim that is never made."""
CLOSED = encode_record(CloseTask(1, TASK, int(Outcome.CANCELLED), 0))


class Upkeep:
    def __init__(self, machines: Machines, truth: Truth) -> None:
        self._machines = machines
        self._variant = machines.variant
        self._truth = truth
        self._folded: dict[tuple[int, tuple[Any, ...]], int] = {}

    def menus(self) -> list[Menu]:
        ended, over = "control one two deleted", "view control"
        return [
            Menu(self._folds, ("rest", "rest view done epoch calls left")),
            *(
                Menu(partial(ends, i), ("view", f"view {me}", f"view {me} rest"))
                for ends in (self._ends_claims, self._ends_holds)
                for i, me in enumerate(HANDS)
            ),
            Menu(self._closes, ("view", "view rest")),
            Menu(self._marks, ("epoch", "epoch one two rest")),
            Menu(self._finishes, ("view", over, f"{over} done rest")),
            Menu(self._lets_go, ("control", ended, f"{ended} lane")),
            Menu(self._events, ("control", "control acknowledged")),
            Menu(self._reads, ("control", "control epoch", "control epoch view acknowledged")),
        ]

    def _ends_claims(self, i: int, world: WorldState) -> Iterator[Step]:
        for worker, number in self._machines.ledger.states[world.view].claims:
            if worker != i:
                continue
            in_hand = self._machines.state(world, i).mask >> number & 1
            late = world.hands(i).late >> number & 1
            is_spared = in_hand and world.hands(i).reports
            if (late or not in_hand) and not is_spared and (ENDED, i, number) not in world.rest:
                view = self._machines.ledger.end_claim(world.view, (i, number))
                after = world._replace(view=view, rest=(*world.rest, (ENDED, i, number)))
                yield Step((i, "has a claim end:", number), False, after)

    def _ends_holds(self, i: int, world: WorldState) -> Iterator[Step]:
        """The worker's late records are in the topic, or the worker is gone."""
        is_held = i in self._machines.ledger.states[world.view].held
        if is_held and not world.hands(i).reports and (ENDED, i, UNRECORDED) not in world.rest:
            view = self._machines.ledger.end_hold(world.view, i)
            after = world._replace(view=view, rest=(*world.rest, (ENDED, i, UNRECORDED)))
            yield Step((i, "has recorded what it knew"), False, after)

    def _closes(self, world: WorldState) -> Iterator[Step]:
        if self._machines.ledger.states[world.view].closable and (CLOSE,) not in world.rest:
            yield Step(("the task is closed",), False, world._replace(rest=(*world.rest, (CLOSE,))))

    def _marks(self, world: WorldState) -> Iterator[Step]:
        if world.waiting and (self._variant.broken == EARLY_MARK or not _old_claims(world)):
            after = world._replace(waiting=False, marked=True, rest=(*world.rest, (MARK, world.epoch)))
            yield Step(("old claims have ended; topics are marked",), False, after)

    # ------------------------------------------------------------- the fold
    def _folds(self, world: WorldState) -> Iterator[Step]:
        if not world.rest:
            return
        entry = world.rest[0]
        view = self.fold(world.view, entry)
        after = world._replace(view=view, done=self._read(world, entry), rest=world.rest[1:])
        yield Step(("the fold takes", *self._described(entry)), False, after, self._truth.wrong_counts(after))

    def fold(self, view: int, entry: tuple[Any, ...]) -> int:
        """Return the view after an entry. A record without a claim acts like one with an unknown claim, which it
        represents (Steps.named)."""
        after = self._folded.get((view, entry))
        if after is None:
            ledger = self._machines.ledger
            after = self._folded[view, entry] = ledger.fold(view, self._encoded(entry))
            if entry[0] == OUTCOME and not entry[3]:
                assert after == ledger.fold(view, self._encoded((*entry[:2], 0, NOBODYS)))
                assert after == ledger.fold(after, self._encoded((ENDED, 0, NOBODYS)))
        return after

    def _encoded(self, entry: tuple[Any, ...]) -> bytes:
        match entry[0]:
            case 0:
                claim = claim_of((entry[2], entry[3])) if entry[3] else ""
                return filled(self._machines.bodies[entry[1]], claim)
            case 1:
                return encode_record(ClaimsEnded(1, [member_of((entry[1], entry[2]))]))
            case 2:
                return CLOSED
            case _:
                return encode_record(EpochMark(1, str(entry[1])))

    def _read(self, world: WorldState, entry: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the entries read so far if they may be read again, otherwise their sums."""
        if entry[0] == OUTCOME:
            entry = (OUTCOME, entry[1], 0, 0)
        done = (*world.done, entry) if entry[0] in (OUTCOME, CLOSE) and entry not in world.done else world.done
        return done if self._machines.may(world, "flush") else self._truth.summed(done)

    def _described(self, entry: tuple[Any, ...]) -> list[Any]:
        names = ("the record of", "the end of claim", "the closing", "the mark")
        return [names[entry[0]], self._machines.bodies[entry[1]] if entry[0] == OUTCOME else entry[-1]]

    # ------------------------------------------------------------- the end of a task
    def _finishes(self, world: WorldState) -> Iterator[Step]:
        now = self._machines.ledger.states[world.view]
        if not (now.complete and now.ready and "finished" not in world.control):
            return
        view = self._machines.ledger.control(world.view, self._variant.record("finished"))
        control = (*world.control, "finished")
        after = world._replace(view=view, control=control, known=len(control))
        codes = list(self._truth.of((*world.done, *world.rest)).values())
        complete = len(codes) == SIZE * len(self._variant.sent)
        wrong = "" if complete else "I6: completed while the outcome topic lacks an outcome"
        if complete and list(self._machines.ledger.states[world.view].counts) != [
            codes.count(code) for code in Outcome
        ]:
            wrong = "I1: completed with counts other than those of the outcome topic"
        yield Step(("the task is completed",), False, after, wrong)

    def _lets_go(self, world: WorldState) -> Iterator[Step]:
        if not self._variant.letting_go or "finished" not in world.control:
            return
        attached = False
        for i in (0, 1):
            if OWN in self._machines.state(world, i).attached:
                attached = True
                others = tuple(lane for lane in self._machines.lanes if lane != OWN)
                after = self._machines.moved(world, i, ("hold", *others))
                yield Step((i, "lets go of the own lane"), False, after)
        if not attached and not world.deleted:
            lane = tuple(place for place in world.lane if self._machines.lanes[place[0] % LIMBO] != OWN)
            one, two = self._forgotten(world.one), self._forgotten(world.two)
            yield Step(("the own lane is deleted",), False, world._replace(one=one, two=two, deleted=True, lane=lane))

    def _forgotten(self, hands: Hands) -> Hands:
        held = tuple((lane, kind, mine and self._machines.lanes[lane] != OWN) for lane, kind, mine in hands.held)
        return hands._replace(held=held)

    # ------------------------------------------------------------- control
    def _events(self, world: WorldState) -> Iterator[Step]:
        for event in self._variant.events:
            if event not in world.control and "finished" not in world.control:
                if event == "resume" and "pause" not in world.control and not self._variant.trial:
                    continue
                acknowledged_early = event == "cancel" and self._variant.broken == EARLY_WORD
                after = world._replace(
                    control=(*world.control, event), acknowledged=world.acknowledged or acknowledged_early
                )
                yield Step((f"{event} is written",), False, after)

    def _reads(self, world: WorldState) -> Iterator[Step]:
        """A view that is not ready grants nothing, so what it knew in between is nothing to anybody: it reads all."""
        if world.known == len(world.control) and not world.marked:
            return
        ready = self._machines.ledger.states[world.view].ready
        names = world.control[world.known : world.known + 1] if ready else world.control[world.known :]
        view = world.view
        for name in names:
            view = self._machines.ledger.control(view, self._variant.record(name))
        if world.marked:
            view = self._machines.ledger.mark(view, world.epoch)
        acknowledged = world.acknowledged or "cancel" in names
        known = world.known + len(names)
        after = world._replace(view=view, known=known, marked=False, acknowledged=acknowledged)
        yield Step(("the view reads", names), False, after)


def _old_claims(world: WorldState) -> bool:
    return any(hands.old & ~hands.late for hands in (world.one, world.two))
