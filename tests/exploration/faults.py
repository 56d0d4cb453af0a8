"""Faults, each possible at any moment: a worker dies or stalls, a delivery comes again, Redis is emptied.

(A lost answer, receipt or record is found where it is awaited, in moves.py. Redis out of reach is no fault here: a call
that is not answered is the same as one that takes long, which Steps.outages_felt checks.)
"""

from collections.abc import Iterator
from functools import partial

from tests.exploration.footprint import HANDS, Menu
from tests.exploration.machines import Machines
from tests.exploration.variants import OWN
from tests.exploration.world import CLOSE, OUTCOME, REBUILT, Hands, Step, WorldState


class Faults:
    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def menus(self) -> list[Menu]:
        return [
            *self._menus_of_worker(0),
            *self._menus_of_worker(1),
            Menu(self._forgotten_acks, ("left", "left acked", "left acked lane deleted")),
            Menu(self._flushes, ("left", "left one two done rest control epoch view")),
        ]

    def _menus_of_worker(self, i: int) -> list[Menu]:
        me = HANDS[i]
        crash = f"left {me} view control calls"
        return [
            Menu(partial(self._crashes, i), ("left", f"left {me}", crash, f"{crash} lane")),
            Menu(partial(self._stalls, i), ("left", f"left {me}", f"left {me} calls", f"left {me} calls lane")),
            Menu(
                partial(self._records_late, i), ("left", f"left {me}", f"left {me} epoch", f"left {me} epoch view lane")
            ),
            Menu(partial(self._redelivers, i), ("left", f"left {me}", f"left {me} lane")),
        ]

    # ------------------------------------------------------------- of a worker
    def _crashes(self, i: int, world: WorldState) -> Iterator[Step]:
        if self._machines.may(world, "crash") and not self._machines.state(world, i).idle:
            yield Step((i, "CRASHES"), True, self._crashed(world, i, world.hands(i)))

    def _stalls(self, i: int, world: WorldState) -> Iterator[Step]:
        if not self._machines.may(world, "stall"):
            return
        state = self._machines.state(world, i)
        if state.idle or state.overdue:
            return
        yield Step((i, "STALLS"), True, self._stalled(world, i))
        for index, call in enumerate(state.calls):
            if call.ahead and not call.checked:
                stalled = self._stalled(self._machines.moved(world, i, ("check", index)), i)
                excused = stalled.excused | sum(map(self._machines.call_bits, call.kinds))
                yield Step((i, "STALLS between check and call"), True, stalled._replace(excused=excused))

    def _records_late(self, i: int, world: WorldState) -> Iterator[Step]:
        """Its outcome topic cannot be written for longer than claims last; its heart beats on and reports that."""
        if not self._machines.may(world, "late record"):
            return
        hands, state = world.hands(i), self._machines.state(world, i)
        if state.idle or state.overdue or hands.reports or not hands.unrecorded:
            return
        after = self._machines.moved(
            world, i, ("stall",), late=hands.late | state.mask, reports=True, left=world.left - 1
        )  # fmt: skip
        if world.waiting and hands.old:
            after = after._replace(view=self._machines.ledger.report(world.view, i))
        yield Step((i, "CANNOT RECORD"), True, after)

    def _redelivers(self, i: int, world: WorldState) -> Iterator[Step]:
        if not self._machines.may(world, "redelivery"):
            return
        hands = world.hands(i)
        for slot, place in enumerate(hands.held):
            if place[2]:
                held = [*hands.held]
                held[slot] = (place[0], place[1], False)
                lane = tuple(sorted((*world.lane, place[:2])))
                after = world.with_hands(i, hands._replace(held=tuple(held)))
                label = (i, "HAS IT DELIVERED AGAIN", self._machines.kinds[place[1]])
                yield Step(label, True, after._replace(lane=lane, left=world.left - 1))

    def _crashed(self, world: WorldState, i: int, hands: Hands) -> WorldState:
        back = [place[:2] for place in hands.held if place[2]]
        lane = tuple(sorted((*world.lane, *back))) if back else world.lane
        without = [OWN] if "finished" in world.control and self._machines.variant.letting_go else []
        after = world.with_hands(i, Hands(state=self._machines.workers.start(without)))
        may_repeat = 0 if self._machines.variant.rules.gives_up_unknown else hands.unrecorded
        return after._replace(
            view=self._machines.ledger.gone(world.view, i), lane=lane,
            excused=world.excused | may_repeat, left=world.left - 1,
        )  # fmt: skip

    def _stalled(self, world: WorldState, i: int) -> WorldState:
        """So long that the use-by of all it holds passes."""
        hands, state = world.hands(i), self._machines.state(world, i)
        excused = world.excused | hands.unrecorded
        return self._machines.moved(
            world, i, ("stall",), late=hands.late | state.mask, reports=False, excused=excused, left=world.left - 1
        )

    # ------------------------------------------------------------- of servers
    def _forgotten_acks(self, world: WorldState) -> Iterator[Step]:
        if not self._machines.may(world, "forgotten ack"):
            return
        for place in world.acked:
            if not (world.deleted and self._machines.lanes[place[0]] == OWN):
                acked = tuple(other for other in world.acked if other != place)
                lane = tuple(sorted((*world.lane, place)))
                after = world._replace(lane=lane, acked=acked, left=world.left - 1)
                yield Step(("AN ACK IS FORGOTTEN", self._machines.kinds[place[1]]), True, after)

    def _flushes(self, world: WorldState) -> Iterator[Step]:
        if self._machines.may(world, "flush"):
            yield Step(("REDIS IS EMPTIED",), True, self._flushed(world))

    def _flushed(self, world: WorldState) -> WorldState:
        one, two = (world.hands(i)._replace(old=self._machines.state(world, i).mask) for i in (0, 1))
        view = self._machines.ledger.empty(REBUILT)
        for i in (0, 1):
            if world.hands(i).reports:
                view = self._machines.ledger.report(view, i)
        rest = tuple(entry for entry in world.done + world.rest if entry[0] in (OUTCOME, CLOSE))
        return world._replace(
            one=one, two=two, view=view, done=(), rest=rest, known=0, epoch=REBUILT,
            waiting=True, marked=False, left=world.left - 1,
        )  # fmt: skip
