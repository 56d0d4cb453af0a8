"""The world around two workers: states, and every step that may follow. No threads, no time.

A step is one thing that the rest of the world can see: a delivery, a lease call carried out, a provider called,
something stored, an ack, a record folded, or a fault. What a worker does in between concerns nobody else, so it follows
at once; what it asks of its ports waits to be chosen.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from dispatcher.lease import Status
from dispatcher.outcome import ClaimsEnded, CloseTask, EpochMark, Outcome, encode_record
from tests.exploration.envelopes import SIZE, TASK, Kind, answers, filled, results
from tests.exploration.ledger import LedgerMachine, claim_of
from tests.exploration.machine import WorkerMachine, WorkerState
from tests.exploration.variants import LEFT_OUT, OWN, TOPICS, Variant
from tests.exploration.worker import UNASKED, Input

OUTCOME, ENDED, CLOSE, MARK, TRUTH = range(5)
"""Entries of the outcome topic: (OUTCOME, record, worker, number), (ENDED, worker, number), (CLOSE,), (MARK, epoch);
and (TRUTH, outcomes by target) for all that stands before."""
CLOSED = encode_record(CloseTask(1, TASK, int(Outcome.CANCELLED), 0))
EPOCH = 1
"""Of every view after the first: marks of those before are taken out of the topic, for nothing reads them."""
Place = tuple[int, int]
"""Lane and envelope, by number."""
Held = tuple[int, int, bool]
"""Lane and envelope of a delivery, and whether the broker still has it as ours."""


class Hands(NamedTuple):
    """One worker. held: its deliveries. late: claims
    (bits by number) whose use-by has passed. old: claims of a view that is gone. unrecorded: calls (bits) made whose
    record is not stored."""

    state: int
    held: tuple[Held, ...] = ()
    late: int = 0
    old: int = 0
    unrecorded: int = 0


class World(NamedTuple):
    """control: the control topic; known: how many of its records the view has read. waiting: whether claims of before
    this epoch may still be in use; marked: whether the control topic's mark is still to be read. calls: how often the
    provider was called, by bit of the call; excused: calls that may come twice. accepted: targets (bits)."""

    one: Hands
    two: Hands
    view: int
    lane: tuple[Place, ...]
    acked: tuple[Place, ...]
    done: tuple[Any, ...]
    rest: tuple[Any, ...]
    control: tuple[str, ...]
    known: int
    epoch: int
    waiting: bool
    marked: bool
    acknowledged: bool
    deleted: bool
    called: int
    excused: int
    accepted: int
    left: int


class Step(NamedTuple):
    """label: what happened, in parts. fault: whether it is one. wrong: the law it breaks."""

    label: tuple[Any, ...]
    fault: bool
    world: World
    wrong: str = ""


class Steps:
    """The steps of one variant."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.lanes = [lane.name for lane in variant.lanes()]
        self.workers = WorkerMachine(variant.lanes(), TOPICS, variant.broken)
        self.ledger = LedgerMachine(TOPICS, variant.broken)
        self.kinds: list[Kind] = []
        self._numbers: dict[Kind, int] = {}
        self._bodies: list[bytes] = []
        self._body_numbers: dict[bytes, int] = {}
        self._bits: dict[bytes, int] = {}
        self._truths: dict[tuple[Any, ...], dict[tuple[int, int], int]] = {}
        self._sequences = {(kind[0], kind[1]): i for i, kind in enumerate(dict.fromkeys(variant.envelopes))}

    # ------------------------------------------------------------- names
    def kind(self, kind: Kind) -> int:
        if kind not in self._numbers:
            self._numbers[kind] = len(self.kinds)
            self.kinds.append(kind)
        return self._numbers[kind]

    def body(self, body: bytes) -> int:
        if body not in self._body_numbers:
            self._body_numbers[body] = len(self._bodies)
            self._bodies.append(body)
        return self._body_numbers[body]

    def call_bit(self, kind: Kind) -> int:
        """Of the provider's call for an envelope at its attempt."""
        return int(1 << 2 * self._sequences[kind[0], kind[1]] + kind[2])

    def both_bits(self, kind: Kind) -> int:
        return int(3 << 2 * self._sequences[kind[0], kind[1]])

    def target_bits(self, kind: Kind, positions: int) -> int:
        return int(positions << SIZE * self._sequences[kind[0], kind[1]])

    # ------------------------------------------------------------- the beginning
    def start(self) -> World:
        view = self.ledger.empty(0)
        control = ("task", "seal") if self.variant.sealed else ("task",)
        for name in control:
            view = self.ledger.control(view, self.variant.record(name))
        hands = Hands(self.workers.start())
        lane = tuple(sorted((0, self.kind(kind)) for kind in self.variant.envelopes))
        return World(
            hands, hands, view, lane, (), (), (), control, len(control), 0, False, False, False, False, 0, 0, 0,
            self.variant.faults,
        )  # fmt: skip

    # ------------------------------------------------------------- all steps
    def of(self, world: World) -> Iterator[Step]:
        alone = self._alone(world)
        if alone:
            yield from alone
            return
        for i in (0, 1):
            hands = world[i]
            state = self.workers.states[hands.state]
            yield from self._receives(world, i, hands)
            yield from self._leases(world, i, hands, state)
            yield from self._calls(world, i, hands, state)
            yield from self._stores(world, i, hands, state)
            yield from self._acks(world, i, hands, state)
            if state.overdue:
                yield self._local(world, i, ("tick",), "sees that time has passed")
            if world.left and not state.idle:
                yield from self._worker_faults(world, i, hands, state)
        yield from self._housekeeping(world)
        yield from self._control(world)
        if world.left:
            yield from self._other_faults(world)

    def _alone(self, world: World) -> list[Step]:
        """The steps, if there are any, that no other step can see, change or prevent: then no order with others need be
        tried. While faults may follow there is hardly any, for a fault may fall before or after each of them."""
        for i in (0, 1):
            hands = world[i]
            state = self.workers.states[hands.state]
            if state.calls and not all(call.ahead for call in state.calls):
                return list(self._late_calls(world, i, state))
            if world.left:
                continue
            if state.acks:
                return list(self._acks(world, i, hands, state))
            if state.calls:
                return list(self._calls(world, i, hands, state))
            if any(lane and lane != OWN for lane, *_ in state.stores):
                return [step for step in self._stores(world, i, hands, state) if step.label[1] == "publishes"][:1]
            if state.request is not None and not state.request.given_back:
                steps = list(self._leases(world, i, hands, state))
                if all(status == Status.DROP for status, _ in steps[0].label[3]):
                    return steps
        return []

    def same(self, world: World) -> World:
        """One of the two worlds that differ in the workers' names only."""
        if not world.left:
            world = world._replace(acked=(), done=self._summed(world.done))
        if world.one <= world.two:
            return world
        rest = tuple(
            (*entry[:-2], 1 - entry[-2], entry[-1]) if entry[0] in (OUTCOME, ENDED) else entry for entry in world.rest
        )
        return world._replace(one=world.two, two=world.one, view=self.ledger.swap(world.view), rest=rest)

    def can(self, fault: str) -> bool:
        return fault in self.variant.kinds

    # ------------------------------------------------------------- a worker moves
    def _set(self, world: World, i: int, hands: Hands, **changes: Any) -> World:
        return world._replace(**{("one", "two")[i]: hands}, **changes)

    def _moved(self, world: World, i: int, event: Input, **changes: Any) -> World:
        """The worker takes an input; what it lets go of without an ack goes back to its lane."""
        hands = world[i]
        number, moved = self.workers.move(hands.state, event)
        state = self.workers.states[number]
        held: list[Held | None] = changes.pop("held", hands.held)
        lane = changes.pop("lane", world.lane)
        for slot, place in enumerate(held):
            if place is not None and place[2] and slot not in moved:
                lane = tuple(sorted((*lane, place[:2])))
        mask = sum(1 << number for number in state.in_hand)
        late, old = changes.pop("late", hands.late) & mask, changes.pop("old", hands.old) & mask
        unrecorded = changes.pop("unrecorded", hands.unrecorded)
        kept = tuple(held[slot] or (0, 0, False) for slot in moved)
        return self._set(world, i, Hands(state.id, kept, late, old, unrecorded), lane=lane, **changes)

    def _local(self, world: World, i: int, event: Input, label: str) -> Step:
        return Step((i, label), False, self._moved(world, i, event))

    def _receives(self, world: World, i: int, hands: Hands) -> Iterator[Step]:
        attached = self.workers.states[hands.state].attached
        if len(hands.held) >= self.variant.hands:
            return
        for lane in {place[0] for place in world.lane}:
            if self.lanes[lane] not in attached:
                continue
            there = [place for place in world.lane if place[0] == lane]
            for place in set(there):
                yield from self._receive(world, i, hands, [place])
            if len(there) > 1 and self.variant.together:
                yield from self._receive(world, i, hands, there)

    def _receive(self, world: World, i: int, hands: Hands, places: list[Place]) -> Iterator[Step]:
        held, left, taken = list(hands.held), list(world.lane), []
        for lane, kind in places:
            left.remove((lane, kind))
            taken.append((len(held), self.kinds[kind]))
            held.append((lane, kind, True))
        event = ("receive", self.lanes[places[0][0]], tuple(taken))
        _, moved = self.workers.move(hands.state, event)
        if len(moved) == len(held):
            names = [self.kinds[kind] for _, kind in places]
            yield Step((i, "receives", names), False, self._moved(world, i, event, held=held, lane=tuple(left)))

    def _leases(self, world: World, i: int, hands: Hands, state: WorkerState) -> Iterator[Step]:
        if state.request is None:
            return
        number = state.fixed or self._free_number(world, i, state)
        view, answer = self.ledger.lease(world.view, i, state, number, False)
        named = number if answer.claimed or state.fixed else UNASKED
        self.workers.keep(answer.key, answer.answer)
        fresh = ~(1 << number)
        event = ("answer", answer.key, named)
        after = self._moved(world, i, event, late=hands.late & fresh, old=hands.old & fresh, view=view)
        wrong = ""
        if answer.sends and not state.fixed and self._is_cancelled(world):
            wrong = "I5: granted after the cancel was acknowledged"
        yield Step((i, "is answered", number, _statuses(answer.answer)), False, after, wrong)
        if world.left and not state.fixed and self.can("lost answer"):
            view, answer = self.ledger.lease(world.view, i, state, number, True)
            if answer.ready and (answer.claimed or state.request.given_back):
                label = (i, "LOSES THE ANSWER", number, _statuses(answer.answer))
                yield Step(label, True, self._moved(world, i, ("lost", number), view=view, left=world.left - 1), wrong)

    def _is_cancelled(self, world: World) -> bool:
        """Whether the caller has been told so."""
        early = self.variant.broken == "cancel acknowledged at once"
        return "cancel" in world.control if early else world.acknowledged

    def _free_number(self, world: World, i: int, state: WorkerState) -> int:
        used = set(state.names) | {number for worker, number in self.ledger.states[world.view].names if worker == i}
        used |= {entry[-1] for entry in world.rest if entry[0] in (OUTCOME, ENDED) and entry[-2] == i}
        number = UNASKED + 1
        while number in used:
            number += 1
        return number

    def _calls(self, world: World, i: int, hands: Hands, state: WorkerState) -> Iterator[Step]:
        for index, call in enumerate(state.calls):
            bits = sum(self.call_bit(kind) for kind in call.kinds)
            wrong = self._wrong_call(world, call.kinds)
            for said in product(*(answers(kind) for kind in call.kinds)):
                event = ("sent", index, tuple(self.workers.keep(name, report) for name, report, _ in said))
                accepted = world.accepted
                for kind, (_, _, positions) in zip(call.kinds, said, strict=True):
                    accepted |= self.target_bits(kind, positions)
                after = self._moved(
                    world, i, event, unrecorded=hands.unrecorded | bits, called=world.called | bits,
                    accepted=accepted,
                )  # fmt: skip
                yield Step((i, "calls the provider", call.kinds, [one[0] for one in said]), False, after, wrong)

    def _late_calls(self, world: World, i: int, state: WorkerState) -> Iterator[Step]:
        for index, call in enumerate(state.calls):
            if not call.ahead:
                event = ("sent", index, (None,) * len(call.kinds))
                yield Step((i, "finds the use-by passed"), False, self._moved(world, i, event))
                return

    def _wrong_call(self, world: World, kinds: tuple[Kind, ...]) -> str:
        for kind in kinds:
            bit, both = self.call_bit(kind), self.both_bits(kind)
            if kind[0] == LEFT_OUT:
                return "I8: sent for a writer that the seal leaves out"
            if world.called & bit and not world.excused & bit:
                return f"I3: called twice for attempt {kind[2]}, though nobody died or stood still"
            positions = sum(1 << position for position in kind[3])
            again = world.accepted & self.target_bits(kind, positions)
            if kind[2] and again and not world.excused & both:
                return "I3b: sent again to a target that was accepted, though nobody died or stood still"
        return ""

    def _record_bits(self, record: bytes) -> int:
        bits = self._bits.get(record)
        if bits is None:
            bits = self._bits[record] = sum(self.call_bit(kind) for kind, _ in results(record))
        return bits

    def _stores(self, world: World, i: int, hands: Hands, state: WorkerState) -> Iterator[Step]:
        for index, (lane, kinds, number, record) in enumerate(state.stores):
            if lane == OWN and world.deleted:
                yield Step((i, "publishes to a lane that is gone"), False, self._moved(world, i, ("refused", index)))
                continue
            changes: dict[str, Any] = {}
            if record:
                bits = self._record_bits(record)
                changes["rest"] = (*world.rest, (OUTCOME, self.body(record), i, number))
                changes["unrecorded"] = hands.unrecorded & ~bits
                label: tuple[Any, ...] = (i, "stores the record", number, results(record))
            else:
                added = tuple((self.lanes.index(lane), self.kind(kind)) for kind in kinds)
                changes["lane"] = tuple(sorted((*world.lane, *added)))
                label = (i, "publishes", kinds, lane.rpartition("/")[2])
            yield Step(label, False, self._moved(world, i, ("stored", index), **changes))
            if world.left and self.can("lost receipt"):
                lost = self._moved(world, i, ("unconfirmed", index), left=world.left - 1, **changes)
                yield Step((*label, "LOSES THE RECEIPT"), True, lost)

    def _acks(self, world: World, i: int, hands: Hands, state: WorkerState) -> Iterator[Step]:
        for index, slot in enumerate(state.acks):
            place, event = hands.held[slot], ("acked", index)
            held: list[Held | None] = [*hands.held]
            held[slot] = None
            if not place[2]:
                yield Step((i, "acks in vain"), False, self._moved(world, i, event, held=held))
            if place[2] or place[:2] in world.lane:
                lane = list(world.lane)
                if not place[2]:
                    lane.remove(place[:2])
                after = self._moved(world, i, event, held=held, lane=tuple(lane), acked=self._acked(world, place[:2]))
                yield Step((i, "acks", self.kinds[place[1]]), False, after)

    def _acked(self, world: World, place: Place) -> tuple[Place, ...]:
        """What the broker might forget: of each envelope one copy will do."""
        if not world.left or place in world.acked or not self.can("forgotten ack"):
            return world.acked
        return tuple(sorted((*world.acked, place)))

    # ------------------------------------------------------------- faults
    def _worker_faults(self, world: World, i: int, hands: Hands, state: WorkerState) -> Iterator[Step]:
        left = world.left - 1
        if self.can("crash"):
            yield Step((i, "CRASHES"), True, self._crashed(world, i, hands, left))
        if self.can("stall") and not state.overdue:
            yield Step((i, "STANDS STILL"), True, self._stalled(world, i, hands, left))
            for index, call in enumerate(state.calls):
                if call.ahead and not call.checked:
                    checked = self._moved(world, i, ("check", index))
                    stalled = self._stalled(checked, i, checked[i], left)
                    bits = sum(self.call_bit(kind) for kind in call.kinds)
                    after = stalled._replace(excused=stalled.excused | bits)
                    yield Step((i, "STANDS STILL between check and call"), True, after)
        if self.can("redelivery"):
            for slot, place in enumerate(hands.held):
                if place[2]:
                    held = list(hands.held)
                    held[slot] = (place[0], place[1], False)
                    lane = tuple(sorted((*world.lane, place[:2])))
                    after = self._set(world, i, hands._replace(held=tuple(held)), lane=lane, left=left)
                    yield Step((i, "HAS IT DELIVERED AGAIN", self.kinds[place[1]]), True, after)

    def _crashed(self, world: World, i: int, hands: Hands, left: int) -> World:
        back = [place[:2] for place in hands.held if place[2]]
        without = [OWN] if "finished" in world.control and self.variant.letting_go else []
        excused = world.excused | hands.unrecorded
        new = Hands(self.workers.start(without))
        view = self.ledger.gone(world.view, i)
        return self._set(world, i, new, view=view, lane=tuple(sorted((*world.lane, *back))), excused=excused, left=left)

    def _stalled(self, world: World, i: int, hands: Hands, left: int) -> World:
        state = self.workers.states[hands.state]
        late = hands.late | sum(1 << number for number in state.in_hand)
        excused = world.excused | hands.unrecorded
        return self._moved(world, i, ("stall",), late=late, excused=excused, left=left)

    def _other_faults(self, world: World) -> Iterator[Step]:
        left = world.left - 1
        if self.can("forgotten ack"):
            for place in world.acked:
                if not (world.deleted and self.lanes[place[0]] == OWN):
                    lane = tuple(sorted((*world.lane, place)))
                    after = world._replace(lane=lane, acked=tuple(p for p in world.acked if p != place), left=left)
                    yield Step(("AN ACK IS FORGOTTEN", self.kinds[place[1]]), True, after)
        if self.can("flush"):
            yield Step(("REDIS IS EMPTIED",), True, self._flushed(world, left))

    def _flushed(self, world: World, left: int) -> World:
        hands = []
        for one in (world.one, world.two):
            in_hand = sum(1 << number for number in self.workers.states[one.state].in_hand)
            hands.append(one._replace(old=in_hand))
        rest = tuple(entry for entry in world.done + world.rest if entry[0] in (OUTCOME, CLOSE))
        return world._replace(
            one=hands[0], two=hands[1], view=self.ledger.empty(EPOCH), done=(), rest=rest, known=0, epoch=EPOCH,
            waiting=True, marked=False, left=left,
        )  # fmt: skip

    # ------------------------------------------------------------- what serves all
    def _housekeeping(self, world: World) -> Iterator[Step]:
        view = self.ledger.states[world.view]
        if world.rest:
            yield self._folds(world)
        for worker, number in view.claims:
            hands = world[worker]
            in_hand = number in self.workers.states[hands.state].in_hand
            if (ENDED, worker, number) not in world.rest and (not in_hand or hands.late >> number & 1):
                ended = self.ledger.end_claim(world.view, (worker, number))
                rest = (*world.rest, (ENDED, worker, number))
                yield Step((worker, "has a claim end:", number), False, world._replace(view=ended, rest=rest))
        if view.closable and (CLOSE,) not in world.rest:
            yield Step(("the task is closed",), False, world._replace(rest=(*world.rest, (CLOSE,))))
        if world.waiting and (self.variant.broken == "no wait after a flush" or not self._old_claims(world)):
            rest = (*world.rest, (MARK, world.epoch))
            yield Step(("old claims have ended; topics are marked",), False, world._replace(
                waiting=False, marked=True, rest=rest))  # fmt: skip
        if view.complete and view.ready and "finished" not in world.control:
            yield self._finishes(world)
        if self.variant.letting_go and "finished" in world.control:
            yield from self._lets_go(world)

    def _old_claims(self, world: World) -> bool:
        return any(hands.old & ~hands.late for hands in (world.one, world.two))

    def _folds(self, world: World) -> Step:
        entry = world.rest[0]
        view = self.ledger.fold(world.view, self._encoded(entry))
        after = world._replace(view=view, done=self._read(world, entry), rest=world.rest[1:])
        return Step(("the fold takes", *self._told(entry)), False, after, self._wrong_counts(after))

    def _encoded(self, entry: tuple[Any, ...]) -> bytes:
        match entry[0]:
            case 0:
                claim = claim_of((entry[2], entry[3])) if entry[3] else ""
                return filled(self._bodies[entry[1]], claim)
            case 1:
                return encode_record(ClaimsEnded(1, [f"{claim_of((entry[1], entry[2]))}|{TASK}"]))
            case 2:
                return CLOSED
            case _:
                return encode_record(EpochMark(1, str(entry[1])))

    def _read(self, world: World, entry: tuple[Any, ...]) -> tuple[Any, ...]:
        """What has been read, as far as it is needed to read it again; where that cannot be, what it came to."""
        if entry[0] == OUTCOME:
            entry = (OUTCOME, entry[1], 0, 0)
        done = (*world.done, entry) if entry[0] in (OUTCOME, CLOSE) and entry not in world.done else world.done
        return done if world.left and self.can("flush") else self._summed(done)

    def _summed(self, done: tuple[Any, ...]) -> tuple[Any, ...]:
        return ((TRUTH, tuple(sorted(self.truth(done).items()))),) if done else ()

    def _told(self, entry: tuple[Any, ...]) -> list[Any]:
        names = ("the record of", "the end of claim", "the closing", "the mark")
        return [names[entry[0]], self._bodies[entry[1]] if entry[0] == OUTCOME else entry[-1]]

    def _finishes(self, world: World) -> Step:
        view = self.ledger.control(world.view, self.variant.record("finished"))
        control = (*world.control, "finished")
        after = world._replace(view=view, control=control, known=len(control))
        targets = SIZE * len(self.variant.sent)
        truth = self.truth((*world.done, *world.rest))
        codes = list(truth.values())
        wrong = "" if len(truth) == targets else "I6: completed while the outcome topic lacks an outcome"
        if not wrong and list(self.ledger.states[world.view].counts) != [codes.count(code) for code in Outcome]:
            wrong = "I1: completed with counts other than those of the outcome topic"
        return Step(("the task is completed",), False, after, wrong)

    def _lets_go(self, world: World) -> Iterator[Step]:
        attached = False
        for i in (0, 1):
            state = self.workers.states[world[i].state]
            if OWN in state.attached:
                attached = True
                others = tuple(lane for lane in self.lanes if lane != OWN)
                yield Step((i, "lets go of the own lane"), False, self._moved(world, i, ("hold", *others)))
        if not attached and not world.deleted:
            lane = tuple(place for place in world.lane if self.lanes[place[0]] != OWN)
            hands = [self._forgotten(hands) for hands in (world.one, world.two)]
            after = world._replace(one=hands[0], two=hands[1], deleted=True, lane=lane)
            yield Step(("the own lane is deleted",), False, after)

    def _forgotten(self, hands: Hands) -> Hands:
        held = tuple((lane, kind, mine and self.lanes[lane] != OWN) for lane, kind, mine in hands.held)
        return hands._replace(held=held)

    # ------------------------------------------------------------- control
    def _control(self, world: World) -> Iterator[Step]:
        for event in self.variant.events:
            if event not in world.control and "finished" not in world.control:
                if event == "resume" and "pause" not in world.control:
                    continue
                yield Step((f"{event} is written",), False, world._replace(control=(*world.control, event)))
        ready = self.ledger.states[world.view].ready
        if world.known < len(world.control) or world.marked:
            names = world.control[world.known :] if not ready else world.control[world.known : world.known + 1]
            view = world.view
            for name in names:
                view = self.ledger.control(view, self.variant.record(name))
            if world.marked:
                view = self.ledger.mark(view, world.epoch)
            after = world._replace(
                view=view, known=world.known + len(names), marked=False,
                acknowledged=world.acknowledged or "cancel" in names,
            )  # fmt: skip
            yield Step(("the view reads", names), False, after)

    # ------------------------------------------------------------- the truth
    def truth(self, log: tuple[Any, ...]) -> dict[tuple[int, int], int]:
        """Per target (envelope, position) the first final outcome in topic order, told independently of the fold."""
        known = self._truths.get(log)
        if known is not None:
            return known
        found: dict[tuple[int, int], int] = {}
        for entry in log:
            if entry[0] == OUTCOME:
                for kind, codes in results(self._bodies[entry[1]]):
                    for position, code in zip(kind[3], codes, strict=True):
                        if code in set(Outcome):
                            found.setdefault((self._sequences[kind[0], kind[1]], position), code)
            elif entry[0] == TRUTH:
                found.update(entry[1])
            elif entry[0] == CLOSE:
                for kind in self.variant.sent:
                    for position in range(SIZE):
                        found.setdefault((self._sequences[kind[0], kind[1]], position), int(Outcome.CANCELLED))
        self._truths[log] = found
        return found

    def _wrong_counts(self, world: World) -> str:
        view, truth = self.ledger.states[world.view], self.truth(world.done)
        codes = list(truth.values())
        wanted = [codes.count(code) for code in Outcome]
        if view.ready and not view.ended and not _agree(list(view.counts), wanted, world):
            return f"I1: the view counts {view.counts}, the outcome topic says {wanted}"
        for (sequence, position), code in truth.items():
            accepted = world.accepted >> (SIZE * sequence + position) & 1
            if code == Outcome.CANCELLED and accepted and not world.excused >> 2 * sequence & 3:
                return "I7: recorded cancelled though the provider had accepted it"
        return ""

    # ------------------------------------------------------------- ends
    def outages_felt(self) -> list[WorkerState]:
        """Worker states in which a call that does not reach the ledger is more than a call that takes long. There are
        none without a grace: the same call is made again, and nothing else happens. So an outage is no step here: the
        calls under way wait, and so do fold and housekeeping, as they may in any case."""
        asking = [state for state in self.workers.states if state.request is not None and not state.overdue]
        return [state for state in asking if self.workers.move(state.id, ("lost", 0))[0] != state.id]

    def is_good_end(self, world: World) -> bool:
        """Nothing in a lane, nobody busy, completed, and the view agrees with the truth."""
        if world.lane or world.rest or world.waiting or world.marked or world.known < len(world.control):
            return False
        states = (self.workers.states[world.one.state], self.workers.states[world.two.state])
        finished = "finished" in world.control and self.ledger.states[world.view].ready
        return finished and all(state.idle for state in states)


def _agree(counts: list[int], wanted: list[int], world: World) -> bool:
    """A view made anew may read of a closing before it reads how many targets there are: it then counts too few as
    cancelled, until the task, not complete by this count, is closed once more."""
    if world.epoch:
        counts[Outcome.CANCELLED] = max(counts[Outcome.CANCELLED], wanted[Outcome.CANCELLED])
    return counts == wanted


def _statuses(answer: Any) -> list[tuple[int, int]]:
    return [(int(piece.status), piece.count) for lane in answer.lanes for want in lane for piece in want]
