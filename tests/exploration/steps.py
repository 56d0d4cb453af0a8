"""Every step that may follow in a state of the world. No threads, no time.

A step is one thing that the rest of the world can see: a delivery, a lease call carried out, a provider called,
something stored, an ack, a record folded, or a fault. What a worker does in between concerns nobody else, so it follows
at once; what it asks of its ports waits to be chosen.

Three things keep the number of worlds small, and none of them hides anything (test_reduction.py compares):

- A step may come alone where it is always possible until it is done, where it and any step of others give the same
  world in either order, and where it breaks no law later that it would not break at once. For let an order of steps
  lead to a law broken, or to where no good end can be reached: either it has this step in it, then it may come first;
  or it has not, then it may be put first, and what was broken still is. As each of these steps uses something up (an
  ack, a call, something to publish, a lease call told that all is final), they end. Without faults left, an ack, a call
  and a publishing of one worker are such, for only its own crash, stall or redelivery could come between.
  Where such a step is the only one to choose, the world before it is not kept: the one after it represents it.
- Of worlds that differ in the workers' names only, one is searched: both are given the same code.
- What can matter no more is left out of a world: where no fault may follow, what only faults ask for (plain_hands); of
  calls that may come twice, whether they were made (plain_calls); of what is still to be read, all that is nothing when
  it is read, such as the end of a claim behind its record, and names of claims that the view does not know (named).
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from dispatcher.wire.lease import Status
from tests.exploration.faults import Faults
from tests.exploration.footprint import HANDS, REST, VIEW, Menu
from tests.exploration.machines import ALL, Machines
from tests.exploration.moves import Moves
from tests.exploration.truth import Truth
from tests.exploration.upkeep import Upkeep
from tests.exploration.variants import OWN, Variant
from tests.exploration.world import ENDED, OUTCOME, Hands, Step, WorldState


class Steps:
    """The steps of one variant. reduced: steps that no other can see come alone, and worlds are made plain."""

    def __init__(self, variant: Variant, *, reduced: bool = True) -> None:
        self.machines = Machines(variant)
        self.reduced = reduced
        self._variant = variant
        self.truth = Truth(self.machines)
        self._moves = Moves(self.machines)
        self._upkeep = Upkeep(self.machines, self.truth)
        faults = Faults(self.machines)
        self.alone = [menu for i in (0, 1) for menu in (self._late(i), *(self._alone(i) if reduced else ()))]
        self.exchange: dict[int, Callable[[Any], Any]]
        """For each part that names the workers: the function that exchanges their names in it."""
        self.exchange = {
            VIEW: self.machines.ledger.swap,
            REST: lambda rest: tuple([_exchanged(entry) for entry in rest]),
        }
        self.others = [*self._moves.menus(0), *self._moves.menus(1), *self._upkeep.menus(), *faults.menus()]

    def start(self) -> WorldState:
        ledger, variant = self.machines.ledger, self._variant
        view = ledger.empty(0)
        for name in variant.before:
            view = ledger.control(view, variant.record(name))
        hands = Hands(state=self.machines.workers.start())
        lane = tuple(sorted((int(variant.in_trial(kind)), self.machines.kind(kind)) for kind in variant.envelopes))
        return WorldState(
            one=hands, two=hands, view=view, lane=lane, acked=(), done=(), rest=(), control=variant.before,
            known=len(variant.before), epoch=0, waiting=False, marked=False, acknowledged=False, deleted=False,
            called=0, excused=0, accepted=0, left=variant.faults,
        )  # fmt: skip

    def of(self, world: WorldState) -> Iterator[Step]:
        for menu in self.alone:
            steps = list(menu.of(world))
            if steps:
                yield from steps
                return
        for menu in self.others:
            yield from menu.of(world)

    def _alone(self, i: int) -> list[Menu]:
        """Steps that no other step can see, change or prevent: then no order with others need be tried. While faults
        may follow there is hardly any, for a fault may fall before or after each of them."""
        me = HANDS[i]
        calm = f"{me} left"
        asks = f"{calm} view said_by_{me}"
        granted = f"{asks} control acknowledged"
        return [
            Menu(partial(self._quiet, i), (me, calm, f"{calm} calls", f"{calm} calls lane deleted acked rest")),
            Menu(partial(self._drops, i), (me, calm, asks, granted, f"{granted} lane")),
        ]

    def _late(self, i: int) -> Menu:
        """A call whose use-by has passed is given up; this is no choice."""
        return Menu(partial(self._moves.late_calls, i), (HANDS[i], f"{HANDS[i]} lane"))

    def _quiet(self, i: int, world: WorldState) -> list[Step]:
        """Where no fault may follow: an ack, a call, the publishing of a next attempt."""
        state, moves = self.machines.state(world, i), self._moves
        published = any(lane and lane != OWN for lane, *_ in state.stores)
        if not (state.acks or state.calls or published) or world.left:
            return []
        if state.acks:
            return list(moves.acks(i, world))
        if state.calls:
            return list(moves.calls(i, world))
        return [step for step in moves.stores(i, world) if step.label[1] == "publishes"][:1]

    def settling(self, i: int, world: WorldState) -> Iterator[Step]:
        """One after the other, quiet steps to which there is no other. A world in which there is one need not be looked
        at: the one after it represents it. They are those that depend on the worker and the lanes alone."""
        found = self._only(i, world)
        while found is not None:
            yield found
            found = self._only(i, found.world)

    def _only(self, i: int, world: WorldState) -> Step | None:
        state = self.machines.state(world, i)
        publishes = not state.calls and all(lane and lane != OWN for lane, *_ in state.stores)
        found = self._quiet(i, world) if state.acks or publishes else []
        return found[0] if len(found) == 1 else None

    def all_settling(self, world: WorldState) -> Iterator[Step]:
        """Yield the settling steps of both workers."""
        if not self.reduced or world.left:
            return
        for i in (0, 1):
            for step in self.settling(i, world):
                yield step
                world = step.world

    def _drops(self, i: int, world: WorldState) -> list[Step]:
        """Where no fault may follow: it is told that all it holds is final."""
        request = self.machines.state(world, i).request
        if request is None or request.given_back or world.left:
            return []
        steps = list(self._moves.leases(i, world))
        return steps if all(status == Status.DROP for status, _ in steps[0].label[3]) else []

    def plain(self, world: WorldState) -> WorldState:
        """Without what can matter no more: of calls, of claims, and, where no fault may follow, what only faults ask
        for."""
        called, excused, accepted = self.plain_calls((world.called, world.excused, world.accepted))
        rest = self.named(world.view, world.rest)
        world = world._replace(rest=rest, called=called, excused=excused, accepted=accepted)
        if world.left:
            return world
        one, two = (self.plain_hands(world.hands(i)) for i in (0, 1))
        return world._replace(one=one, two=two, acked=(), done=self.truth.summed(world.done))

    def plain_calls(self, calls: tuple[int, int, int]) -> tuple[int, int, int]:
        """Made, excused, accepted: of what may come twice, nobody asks whether it was made or accepted."""
        called, excused, accepted = calls
        for kind in self._variant.envelopes:
            if self.machines.called_targets(excused, self.machines.sequence(kind)):
                accepted &= ~self.machines.target_bits(kind, ALL)
        excused = self.machines.whole_rounds(excused)
        return called & ~excused, excused, accepted

    def plain_hands(self, hands: Hands) -> Hands:
        """Where no fault may follow."""
        return hands if hands.reports else hands._replace(unrecorded=0)

    def named(self, view: int, rest: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the entries still to be read, without those that will not change the view, and without the names of
        claims that it will not know then. It never will: names are used once. So a record of such a claim is one
        without a claim (which Upkeep.fold looks after)."""
        found: list[tuple[Any, ...]] = []
        for entry in rest:
            now = self.machines.ledger.states[view]
            if entry[0] == OUTCOME and entry[-2:] not in now.names:
                entry = (OUTCOME, entry[1], 0, 0)
            after = self._upkeep.fold(view, entry)
            is_passed_over = entry[0] == OUTCOME and now.ended  # by a task that has ended; not by the outcome topic
            if after != view or is_passed_over or entry[0] not in (OUTCOME, ENDED):
                found.append(entry)
                view = after
        return tuple(found)

    def exchanged(self, world: WorldState) -> WorldState:
        """The same with the workers' names exchanged."""
        view, rest = self.exchange[VIEW](world.view), self.exchange[REST](world.rest)
        return world._replace(one=world.two, two=world.one, view=view, rest=rest)

    # ------------------------------------------------------------- ends
    def outages_felt(self) -> list[str]:
        """Worker states in which a call that does not reach the ledger is more than a call that takes long. There must
        be none: the same call is made again, and nothing else happens. So an outage is no step here: the calls under
        way wait, and so do fold and housekeeping, as they may in any case."""
        workers = self.machines.workers
        asking = [state for state in workers.states if state.request is not None and not state.overdue]
        return [repr(state) for state in asking if workers.move(state.id, ("lost", 0))[0] != state.id]

    def is_good_end(self, world: WorldState) -> bool:
        """Nothing in a lane, nobody busy, completed, and no claim left."""
        if world.lane or world.rest or world.waiting or world.marked or world.known < len(world.control):
            return False
        view = self.machines.ledger.states[world.view]
        finished = "finished" in world.control and view.ready and not view.claims
        return finished and self.machines.state(world, 0).idle and self.machines.state(world, 1).idle


def _exchanged(entry: tuple[int, ...]) -> tuple[int, ...]:
    return (*entry[:-2], 1 - entry[-2], entry[-1]) if entry[0] in (OUTCOME, ENDED) and entry[-1] else entry
