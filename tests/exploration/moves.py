"""Steps of two workers: receive, be granted, call the provider, store, ack."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

from dispatcher.wire.lease import LeaseAnswer, LeaseRequest, Status
from tests.exploration.envelopes import LAST, LATER, NEVER_DUE, REOPENED, SIZE, SOON, Kind, answers, results, turns
from tests.exploration.footprint import HANDS, Menu
from tests.exploration.ledger import ViewState
from tests.exploration.machine import WorkerState
from tests.exploration.machines import Machines
from tests.exploration.variants import LEFT_OUT, OWN
from tests.exploration.worker import UNASKED
from tests.exploration.world import ENDED, LIMBO, OUTCOME, Hands, Held, Place, Step, WorldState


class Moves:
    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._variant = machines.variant

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
        hands, state = self._machines.one(world, i)
        if len(hands.held) >= self._variant.hands:
            return
        for lane in sorted({place[0] for place in world.lane}):
            if lane >= LIMBO or self._machines.lanes[lane] not in state.attached:
                continue
            there = [place for place in world.lane if place[0] == lane]
            for place in dict.fromkeys(there):
                for turn in self._turns(place):
                    yield from self._receive(world, i, hands, [place], turn)
            if len(there) > 1 and self._variant.together:
                yield from self._receive(world, i, hands, there, LAST)

    def _turns(self, place: Place) -> tuple[int, ...]:
        """Return the times at which an envelope may be received, by the targets that are due then."""
        found = turns(self._machines.kinds[place[1]])
        if self._variant.laps and found != (SOON,):
            found = (NEVER_DUE, *found)
        return (*found, REOPENED) if self._variant.reopens and LATER in found else found

    def _receive(self, world: WorldState, i: int, hands: Hands, places: list[Place], turn: int) -> Iterator[Step]:
        held, left, taken = list(hands.held), list(world.lane), []
        for lane, kind in places:
            left.remove((lane, kind))
            taken.append((len(held), self._machines.kinds[kind], turn))
            held.append((lane, kind, True))
        event = ("receive", self._machines.lanes[places[0][0]], tuple(taken))
        number, moved = self._machines.workers.move(hands.state, event)
        if REOPENED in {turn for _, _, turn in taken} and not self._machines.workers.states[number].hurried:
            return  # it stays where it is until it is due
        if len(moved) == len(held):
            names = [kind for _, kind, _ in taken]
            after = self._machines.moved(world, i, event, held=held, lane=tuple(left))
            yield Step((i, "receives", names), False, after)

    # ------------------------------------------------------------- leases
    def leases(self, i: int, world: WorldState) -> Iterator[Step]:
        hands, state = self._machines.one(world, i)
        if state.request is None:
            return
        number = state.fixed or self.free_number(world, i, state)
        view, answer = self._machines.ledger.lease(world.view, i, state, number, False)
        self._machines.workers.keep(answer.key, answer.answer)
        fresh = ~(1 << number)
        named = number if answer.claimed or state.fixed else UNASKED
        after = self._machines.moved(
            world, i, ("answer", answer.key, named), late=hands.late & fresh, old=hands.old & fresh, view=view
        )
        wrong = ""
        if answer.sends and not state.fixed:
            is_known = _grants_what_is_final(self._machines.ledger.states[world.view], state, answer.answer)
            wrong = "I11: granted though the view knows a target to be final" if is_known else _wrong_grant(world)
        if self._variant.trial and answer.sends and "resume" not in world.control[: world.known]:
            beyond = _last_granted(state.request, answer.answer) * SIZE >= self._variant.trial
            wrong = "I10: granted before the go" if beyond else wrong
        yield Step((i, "is answered", number, _statuses(answer.answer)), False, after, wrong)
        if not state.fixed and self._machines.may(world, "lost answer"):
            view, answer = self._machines.ledger.lease(world.view, i, state, number, True)
            if answer.ready and (answer.claimed or state.request.given_back):
                label = (i, "LOSES THE ANSWER", number, _statuses(answer.answer))
                lost = self._machines.moved(world, i, ("lost", number), view=view, left=world.left - 1)
                yield Step(label, True, lost, wrong)

    def free_number(self, world: WorldState, i: int, state: WorkerState) -> int:
        """For a call: the lowest that nothing speaks of, above that of the last call that the ledger remembers."""
        view = self._machines.ledger.states[world.view]
        used = set(state.names) | {number for worker, number in view.names if worker == i}
        used |= {entry[-1] for entry in world.rest if entry[0] in (OUTCOME, ENDED) and entry[-2] == i}
        number = view.last.get(i, UNASKED) + 1
        while number in used:
            number += 1
        return number

    # ------------------------------------------------------------- calls of the provider
    def calls(self, i: int, world: WorldState) -> Iterator[Step]:
        hands, state = self._machines.one(world, i)
        for index, call in enumerate(state.calls):
            wrong = "I12: sent before it is due" if call.early else self._wrong_call(world, call.kinds)
            for answered in product(*(answers(kind, self._variant.rules) for kind in call.kinds)):
                reports = tuple(self._machines.workers.keep(one.name, one.report) for one in answered)
                accepted, bits = world.accepted, 0
                for kind, one in zip(call.kinds, answered, strict=True):
                    accepted |= self._machines.target_bits(kind, one.accepted)
                    bits |= self._machines.call_bits(kind, one.started)
                after = self._machines.moved(
                    world, i, ("sent", index, reports), unrecorded=hands.unrecorded | bits, called=world.called | bits,
                    accepted=accepted,
                )  # fmt: skip
                yield Step((i, "calls the provider", call.kinds, [one[0] for one in answered]), False, after, wrong)

    def late_calls(self, i: int, world: WorldState) -> Iterator[Step]:
        """Those that are given up."""
        for index, call in enumerate(self._machines.state(world, i).calls):
            if not call.ahead:
                event = ("sent", index, (None,) * len(call.kinds))
                yield Step((i, "finds the use-by passed"), False, self._machines.moved(world, i, event))
                return

    def _wrong_call(self, world: WorldState, kinds: tuple[Kind, ...]) -> str:
        machines = self._machines
        for kind in kinds:
            called = machines.call_bits(kind)
            if kind[0] == LEFT_OUT:
                return "I8: sent for a writer that the seal leaves out"
            if world.called & called and not world.excused & machines.round_bits(kind):
                return f"I3: called twice for a target in round {kind[2]}, though no worker died or stalled"
            again = world.accepted & machines.target_bits(kind)
            if kind[2] and again and not machines.called_targets(world.excused, machines.sequence(kind)):
                return "I3b: sent again to a target that was accepted, though no worker died or stalled"
        return ""

    # ------------------------------------------------------------- what is stored
    def stores(self, i: int, world: WorldState) -> Iterator[Step]:
        hands, state = self._machines.one(world, i)
        for index, (lane, kinds, number, record) in enumerate(state.stores):
            if lane == OWN and world.deleted:
                after = self._machines.moved(world, i, ("refused", index))
                yield Step((i, "publishes to a lane that is gone"), False, after)
                continue
            changes: dict[str, Any] = {}
            if record:
                changes["rest"] = (*world.rest, (OUTCOME, self._machines.body(record), i, number))
                changes["unrecorded"] = hands.unrecorded & ~self._machines.record_bits(record)
                label: tuple[Any, ...] = (i, "stores the record", number, results(record))
            else:
                added = tuple((self._machines.lanes.index(lane), self._machines.kind(kind)) for kind in kinds)
                changes["lane"] = tuple(sorted((*world.lane, *added)))
                label = (i, "publishes", kinds, lane.rpartition("/")[2])
            yield Step(label, False, self._machines.moved(world, i, ("stored", index), **changes))
            if self._machines.may(world, "lost receipt"):
                event, left = ("unconfirmed", index), world.left - 1
                lost = self._machines.moved(world, i, event, left=left, **changes)
                yield Step((*label, "LOSES THE RECEIPT"), True, lost)
                yield Step((*label, "IN VAIN"), True, self._machines.moved(world, i, event, left=left))

    def acks(self, i: int, world: WorldState) -> Iterator[Step]:
        hands, state = self._machines.one(world, i)
        for index, slot in enumerate(state.acks):
            place, event = hands.held[slot], ("acked", index)
            held: list[Held | None] = [*hands.held]
            held[slot] = None
            if not place[2]:
                yield Step((i, "acks in vain"), False, self._machines.moved(world, i, event, held=held))
            if place[2] or place[:2] in world.lane:
                lane = list(world.lane)
                if not place[2]:
                    lane.remove(place[:2])
                acked = self._acked(world, place[:2])
                after = self._machines.moved(world, i, event, held=held, lane=tuple(lane), acked=acked)
                yield Step((i, "acks", self._machines.kinds[place[1]]), False, after)

    def ticks(self, i: int, world: WorldState) -> Iterator[Step]:
        """It wakes."""
        if self._machines.state(world, i).overdue:
            yield Step((i, "sees that time has passed"), False, self._machines.moved(world, i, ("tick",)))

    def _acked(self, world: WorldState, place: Place) -> tuple[Place, ...]:
        """Return the acks that the broker might forget: one copy of each envelope is enough."""
        if place in world.acked or not self._machines.may(world, "forgotten ack"):
            return world.acked
        return tuple(sorted((*world.acked, place)))


def _last_granted(request: LeaseRequest, answer: LeaseAnswer) -> int:
    """Return the highest sequence that an answer grants; -1 for none."""
    last = -1
    for ask, lane in zip(request.lanes, answer.lanes, strict=False):
        for want, pieces in zip(ask.wants, lane, strict=True):
            sequence = want.first
            for piece in pieces:
                sequence += piece.count
                if piece.status == Status.GRANTED:
                    last = max(last, sequence - 1)
    return last


def _grants_what_is_final(view: ViewState, state: WorkerState, answer: LeaseAnswer) -> bool:
    """Return whether an envelope is granted that has more targets than are open."""
    for kinds, wants in zip(state.asked, answer.lanes, strict=False):
        for kind, pieces in zip(kinds, wants, strict=True):
            open_positions = view.open.get(f"{kind[0]}:{kind[1]}", -1)
            if pieces[0].status == Status.GRANTED and sum(1 << position for position in kind[3]) & ~open_positions:
                return True
    return False


def _wrong_grant(world: WorldState) -> str:
    read = world.control[: world.known]
    if world.acknowledged:
        return "I5: granted after the cancel was acknowledged"
    return "I9: granted though the view holds the pause" if "pause" in read and "resume" not in read else ""


def _statuses(answer: LeaseAnswer) -> list[tuple[int, int]]:
    return [(int(piece.status), piece.count) for lane in answer.lanes for want in lane for piece in want]
