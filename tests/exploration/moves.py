"""Steps of two workers: receive, be granted, call the provider, store, ack."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

from dispatcher.wire.lease import LeaseAnswer
from tests.exploration.envelopes import Kind, answers, results
from tests.exploration.footprint import HANDS, Menu
from tests.exploration.machine import WorkerState
from tests.exploration.scene import Scene
from tests.exploration.variants import LEFT_OUT, OWN
from tests.exploration.worker import UNASKED
from tests.exploration.world import ENDED, LIMBO, OUTCOME, Hands, Held, Place, Step, WorldState


class Moves:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._variant = scene.variant

    def menus(self, i: int) -> list[Menu]:
        """All of one worker's."""
        me = HANDS[i]
        asks = f"{me} view said_by_{me} left"
        granted, stores = f"{asks} control acknowledged", f"{me} left deleted lane"
        return [
            Menu(partial(self.receives, i), (me, f"{me} lane")),
            Menu(partial(self.leases, i), (me, asks, granted, f"{granted} lane")),
            Menu(partial(self.calls, i), (me, f"{me} left calls", f"{me} left calls lane")),
            Menu(partial(self.stores, i), (me, stores, f"{stores} rest")),
            Menu(partial(self.acks, i), (me, f"{me} left lane acked")),
            Menu(partial(self.ticks, i), (me, f"{me} lane")),
        ]

    # ------------------------------------------------------------- deliveries
    def receives(self, i: int, world: WorldState) -> Iterator[Step]:
        hands, state = self._scene.one(world, i)
        if len(hands.held) >= self._variant.hands:
            return
        for lane in sorted({place[0] for place in world.lane}):
            if lane >= LIMBO or self._scene.lanes[lane] not in state.attached:
                continue
            there = [place for place in world.lane if place[0] == lane]
            for place in dict.fromkeys(there):
                yield from self._receive(world, i, hands, [place])
            if len(there) > 1 and self._variant.together:
                yield from self._receive(world, i, hands, there)

    def _receive(self, world: WorldState, i: int, hands: Hands, places: list[Place]) -> Iterator[Step]:
        held, left, taken = list(hands.held), list(world.lane), []
        for lane, kind in places:
            left.remove((lane, kind))
            taken.append((len(held), self._scene.kinds[kind]))
            held.append((lane, kind, True))
        event = ("receive", self._scene.lanes[places[0][0]], tuple(taken))
        _, moved = self._scene.workers.move(hands.state, event)
        if len(moved) == len(held):
            names = [kind for _, kind in taken]
            after = self._scene.moved(world, i, event, held=held, lane=tuple(left))
            yield Step((i, "receives", names), False, after)

    # ------------------------------------------------------------- leases
    def leases(self, i: int, world: WorldState) -> Iterator[Step]:
        hands, state = self._scene.one(world, i)
        if state.request is None:
            return
        number = state.fixed or self.free_number(world, i, state)
        view, answer = self._scene.ledger.lease(world.view, i, state, number, False)
        self._scene.workers.keep(answer.key, answer.answer)
        fresh = ~(1 << number)
        named = number if answer.claimed or state.fixed else UNASKED
        after = self._scene.moved(
            world, i, ("answer", answer.key, named), late=hands.late & fresh, old=hands.old & fresh, view=view
        )
        wrong = _wrong_grant(world) if answer.sends and not state.fixed else ""
        yield Step((i, "is answered", number, _statuses(answer.answer)), False, after, wrong)
        if not state.fixed and self._scene.may(world, "lost answer"):
            view, answer = self._scene.ledger.lease(world.view, i, state, number, True)
            if answer.ready and (answer.claimed or state.request.given_back):
                label = (i, "LOSES THE ANSWER", number, _statuses(answer.answer))
                lost = self._scene.moved(world, i, ("lost", number), view=view, left=world.left - 1)
                yield Step(label, True, lost, wrong)

    def free_number(self, world: WorldState, i: int, state: WorkerState) -> int:
        """For a call: the lowest that nothing speaks of, above that of the last call that the ledger remembers."""
        view = self._scene.ledger.states[world.view]
        used = set(state.names) | {number for worker, number in view.names if worker == i}
        used |= {entry[-1] for entry in world.rest if entry[0] in (OUTCOME, ENDED) and entry[-2] == i}
        number = view.last.get(i, UNASKED) + 1
        while number in used:
            number += 1
        return number

    # ------------------------------------------------------------- calls of the provider
    def calls(self, i: int, world: WorldState) -> Iterator[Step]:
        hands, state = self._scene.one(world, i)
        for index, call in enumerate(state.calls):
            bits = self._scene.call_bits(call.kinds)
            wrong = self._wrong_call(world, call.kinds)
            for answered in product(*(answers(kind) for kind in call.kinds)):
                reports = tuple(self._scene.workers.keep(name, report) for name, report, _ in answered)
                accepted = world.accepted
                for kind, (_, _, positions) in zip(call.kinds, answered, strict=True):
                    accepted |= self._scene.target_bits(kind, positions)
                after = self._scene.moved(
                    world, i, ("sent", index, reports), unrecorded=hands.unrecorded | bits, called=world.called | bits,
                    accepted=accepted,
                )  # fmt: skip
                yield Step((i, "calls the provider", call.kinds, [one[0] for one in answered]), False, after, wrong)

    def late_calls(self, i: int, world: WorldState) -> Iterator[Step]:
        """Those that are given up."""
        for index, call in enumerate(self._scene.state(world, i).calls):
            if not call.ahead:
                event = ("sent", index, (None,) * len(call.kinds))
                yield Step((i, "finds the use-by passed"), False, self._scene.moved(world, i, event))
                return

    def _wrong_call(self, world: WorldState, kinds: tuple[Kind, ...]) -> str:
        for kind in kinds:
            bit, both = self._scene.call_bit(kind), self._scene.both_bits(kind)
            if kind[0] == LEFT_OUT:
                return "I8: sent for a writer that the seal leaves out"
            if world.called & bit and not world.excused & bit:
                return f"I3: called twice for attempt {kind[2]}, though no worker died or stalled"
            positions = sum(1 << position for position in kind[3])
            again = world.accepted & self._scene.target_bits(kind, positions)
            if kind[2] and again and not world.excused & both:
                return "I3b: sent again to a target that was accepted, though no worker died or stalled"
        return ""

    # ------------------------------------------------------------- what is stored
    def stores(self, i: int, world: WorldState) -> Iterator[Step]:
        hands, state = self._scene.one(world, i)
        for index, (lane, kinds, number, record) in enumerate(state.stores):
            if lane == OWN and world.deleted:
                after = self._scene.moved(world, i, ("refused", index))
                yield Step((i, "publishes to a lane that is gone"), False, after)
                continue
            changes: dict[str, Any] = {}
            if record:
                changes["rest"] = (*world.rest, (OUTCOME, self._scene.body(record), i, number))
                changes["unrecorded"] = hands.unrecorded & ~self._scene.record_bits(record)
                label: tuple[Any, ...] = (i, "stores the record", number, results(record))
            else:
                added = tuple((self._scene.lanes.index(lane), self._scene.kind(kind)) for kind in kinds)
                changes["lane"] = tuple(sorted((*world.lane, *added)))
                label = (i, "publishes", kinds, lane.rpartition("/")[2])
            yield Step(label, False, self._scene.moved(world, i, ("stored", index), **changes))
            if self._scene.may(world, "lost receipt"):
                event, left = ("unconfirmed", index), world.left - 1
                lost = self._scene.moved(world, i, event, left=left, **changes)
                yield Step((*label, "LOSES THE RECEIPT"), True, lost)
                yield Step((*label, "IN VAIN"), True, self._scene.moved(world, i, event, left=left))

    def acks(self, i: int, world: WorldState) -> Iterator[Step]:
        hands, state = self._scene.one(world, i)
        for index, slot in enumerate(state.acks):
            place, event = hands.held[slot], ("acked", index)
            held: list[Held | None] = [*hands.held]
            held[slot] = None
            if not place[2]:
                yield Step((i, "acks in vain"), False, self._scene.moved(world, i, event, held=held))
            if place[2] or place[:2] in world.lane:
                lane = list(world.lane)
                if not place[2]:
                    lane.remove(place[:2])
                acked = self._acked(world, place[:2])
                after = self._scene.moved(world, i, event, held=held, lane=tuple(lane), acked=acked)
                yield Step((i, "acks", self._scene.kinds[place[1]]), False, after)

    def ticks(self, i: int, world: WorldState) -> Iterator[Step]:
        """It wakes."""
        if self._scene.state(world, i).overdue:
            yield Step((i, "sees that time has passed"), False, self._scene.moved(world, i, ("tick",)))

    def _acked(self, world: WorldState, place: Place) -> tuple[Place, ...]:
        """Return the acks that the broker might forget: one copy of each envelope is enough."""
        if place in world.acked or not self._scene.may(world, "forgotten ack"):
            return world.acked
        return tuple(sorted((*world.acked, place)))


def _wrong_grant(world: WorldState) -> str:
    read = world.control[: world.known]
    if world.acknowledged:
        return "I5: granted after the cancel was acknowledged"
    return "I9: granted though the view holds the pause" if "pause" in read and "resume" not in read else ""


def _statuses(answer: LeaseAnswer) -> list[tuple[int, int]]:
    return [(int(piece.status), piece.count) for lane in answer.lanes for want in lane for piece in want]
