"""What may go wrong, each at any moment: a worker dies or stands still, a delivery comes again, Redis is gone or empty.

(A lost answer, receipt or record is found where it is awaited, in moves.py.)
"""

from collections.abc import Iterator
from functools import partial

from tests.exploration.footprint import (
    ACKED,
    CALLS,
    CONTROL,
    DELETED,
    DONE,
    DOWN,
    EPOCH,
    LANE,
    LEFT,
    ONE,
    REST,
    TWO,
    VIEW,
    Menu,
)
from tests.exploration.moves import Moves
from tests.exploration.scene import Scene
from tests.exploration.variants import OWN
from tests.exploration.world import CLOSE, OUTCOME, REBUILT, Hands, Step, World


class Faults:
    def __init__(self, scene: Scene, moves: Moves) -> None:
        self._scene = scene
        self._moves = moves

    def menus(self) -> list[Menu]:
        left = (LEFT,)
        return [
            *self._menus_of_worker(0),
            *self._menus_of_worker(1),
            Menu(self._forgotten_acks, (left, (LEFT, ACKED), (LEFT, ACKED, LANE, DELETED))),
            Menu(self._flushes, (left, (LEFT, ONE, TWO, DONE, REST, CONTROL, EPOCH, VIEW))),
            Menu(self._outages, (left, (LEFT, DOWN))),
        ]

    def _menus_of_worker(self, i: int) -> list[Menu]:
        left, me = (LEFT,), (ONE, TWO)[i]
        crash = (LEFT, me, VIEW, CONTROL, CALLS, DOWN)
        gives_up = (DOWN, me, VIEW, REST, CONTROL)
        return [
            Menu(partial(self._crashes, i), (left, (LEFT, me), crash, (*crash, LANE))),
            Menu(partial(self._stalls, i), (left, (LEFT, me), (LEFT, me, CALLS), (LEFT, me, CALLS, LANE))),
            Menu(partial(self._redelivers, i), (left, (LEFT, me), (LEFT, me, LANE))),
            Menu(partial(self._gives_up, i), ((DOWN,), gives_up, (*gives_up, LANE))),
        ]

    # ------------------------------------------------------------- of a worker
    def _crashes(self, i: int, world: World) -> Iterator[Step]:
        if self._scene.may(world, "crash") and not self._scene.state(world, i).idle:
            yield Step((i, "CRASHES"), True, self._crashed(world, i, world.hands(i)))

    def _stalls(self, i: int, world: World) -> Iterator[Step]:
        if not self._scene.may(world, "stall"):
            return
        state = self._scene.state(world, i)
        if state.idle or state.overdue:
            return
        yield Step((i, "STANDS STILL"), True, self._stalled(world, i))
        for index, call in enumerate(state.calls):
            if call.ahead and not call.checked:
                stalled = self._stalled(self._scene.moved(world, i, ("check", index)), i)
                excused = stalled.excused | self._scene.call_bits(call.kinds)
                yield Step((i, "STANDS STILL between check and call"), True, stalled._replace(excused=excused))

    def _redelivers(self, i: int, world: World) -> Iterator[Step]:
        if not self._scene.may(world, "redelivery"):
            return
        hands = world.hands(i)
        for slot, place in enumerate(hands.held):
            if place[2]:
                held = [*hands.held]
                held[slot] = (place[0], place[1], False)
                lane = tuple(sorted((*world.lane, place[:2])))
                after = world.with_hands(i, hands._replace(held=tuple(held)))
                label = (i, "HAS IT DELIVERED AGAIN", self._scene.kinds[place[1]])
                yield Step(label, True, after._replace(lane=lane, left=world.left - 1))

    def _crashed(self, world: World, i: int, hands: Hands) -> World:
        back = [place[:2] for place in hands.held if place[2]]
        lane = tuple(sorted((*world.lane, *back))) if back else world.lane
        without = [OWN] if "finished" in world.control and self._scene.variant.letting_go else []
        after = world.with_hands(i, Hands(self._scene.workers.start(without)))
        return after._replace(
            view=self._scene.ledger.gone(world.view, i), lane=lane,
            excused=world.excused | hands.unrecorded, left=world.left - 1, down=world.down & ~(1 << i),
        )  # fmt: skip

    def _stalled(self, world: World, i: int) -> World:
        """So long that the use-by of all it holds passes."""
        hands, state = world.hands(i), self._scene.state(world, i)
        excused = world.excused | hands.unrecorded
        return self._scene.moved(
            world, i, ("stall",), late=hands.late | state.mask, excused=excused, left=world.left - 1
        )

    # ------------------------------------------------------------- of servers
    def _forgotten_acks(self, world: World) -> Iterator[Step]:
        if not self._scene.may(world, "forgotten ack"):
            return
        for place in world.acked:
            if not (world.deleted and self._scene.lanes[place[0]] == OWN):
                acked = tuple(other for other in world.acked if other != place)
                lane = tuple(sorted((*world.lane, place)))
                after = world._replace(lane=lane, acked=acked, left=world.left - 1)
                yield Step(("AN ACK IS FORGOTTEN", self._scene.kinds[place[1]]), True, after)

    def _flushes(self, world: World) -> Iterator[Step]:
        if self._scene.may(world, "flush"):
            yield Step(("REDIS IS EMPTIED",), True, self._flushed(world))

    def _outages(self, world: World) -> Iterator[Step]:
        if self._scene.may(world, "outage") and not world.down:
            left = world.left - 1
            yield Step(("REDIS IS OUT OF REACH",), True, world._replace(down=3, left=left))
            for i in (0, 1):
                yield Step((i, "DOES NOT REACH REDIS"), True, world._replace(down=1 << i, left=left))

    def _flushed(self, world: World) -> World:
        one, two = (world.hands(i)._replace(old=self._scene.state(world, i).mask) for i in (0, 1))
        rest = tuple(entry for entry in world.done + world.rest if entry[0] in (OUTCOME, CLOSE))
        return world._replace(
            one=one, two=two, view=self._scene.ledger.empty(REBUILT), done=(), rest=rest, known=0, epoch=REBUILT,
            waiting=True, marked=False, left=world.left - 1,
        )  # fmt: skip

    # ------------------------------------------------------------- an outage that is noticed
    def _gives_up(self, i: int, world: World) -> Iterator[Step]:
        """It has waited for an answer until all its leases had ended, and goes on by the control topic. Whether its
        call was carried out it does not know. An outage ends for a worker when it is answered."""
        if not world.down >> i & 1 or not self._scene.state(world, i).gives_up:
            return
        state = self._scene.state(world, i)
        gone = self._scene.ledger.gone
        after = world._replace(down=world.down & ~(1 << i))
        if not state.fixed:
            event = ("gives_up", 0, world.control)
            yield Step((i, "gives the ledger up"), False, self._scene.moved(after, i, event))
        number = state.fixed or self._moves.free_number(world, i, state)
        view, _ = self._scene.ledger.lease(world.view, i, state, number, True)
        if state.fixed or view != world.view:
            event = ("gives_up", number, world.control)
            given_up = self._scene.moved(after, i, event, view=gone(world.view if state.fixed else view, i))
            yield Step((i, "gives the ledger up, its call carried out as", number), False, given_up)
