"""Shared by all steps of one variant: its machines, the numbers of their inputs, how a worker moves."""

from typing import Any

from tests.exploration.envelopes import SIZE, Kind, results
from tests.exploration.ledger import LedgerMachine
from tests.exploration.machine import WorkerMachine, WorkerState
from tests.exploration.variants import TOPICS, Variant
from tests.exploration.worker import Input
from tests.exploration.world import LIMBO, Hands, Held, WorldState

ROUNDS = 6
"""More than any envelope of a variant has."""
ALL = (1 << SIZE) - 1
"""All positions of an envelope."""


class Machines:
    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.lanes = [lane.name for lane in variant.lanes()]
        self.workers = WorkerMachine(variant, TOPICS)
        self.ledger = LedgerMachine(TOPICS, variant.doubts)
        self.kinds: list[Kind] = []
        self.bodies: list[bytes] = []
        self._numbers: dict[Kind, int] = {}
        self._body_numbers: dict[bytes, int] = {}
        self._bits: dict[bytes, int] = {}
        self._sequences = {(kind[0], kind[1]): i for i, kind in enumerate(dict.fromkeys(variant.envelopes))}

    def may(self, world: WorldState, fault: str) -> bool:
        """Whether this kind of fault may still follow."""
        return world.left > 0 and fault in self.variant.kinds

    # ------------------------------------------------------------- numbers
    def kind(self, kind: Kind) -> int:
        if kind not in self._numbers:
            self._numbers[kind] = len(self.kinds)
            self.kinds.append(kind)
        return self._numbers[kind]

    def body(self, body: bytes) -> int:
        if body not in self._body_numbers:
            self._body_numbers[body] = len(self.bodies)
            self.bodies.append(body)
        return self._body_numbers[body]

    def sequence(self, kind: Kind) -> int:
        """Return the number of an envelope among all of the variant."""
        return self._sequences[kind[0], kind[1]]

    def call_bits(self, kind: Kind, positions: int | None = None) -> int:
        """Return the bits of the provider's call for targets of an envelope (all of the kind) in its round."""
        bits = self._positions(kind) if positions is None else positions
        return int(bits << SIZE * (ROUNDS * self.sequence(kind) + kind[2]))

    def round_bits(self, kind: Kind) -> int:
        """Return the bits of all targets of an envelope in its round: a call that is excused is so for all of them."""
        return self.call_bits(kind, ALL)

    def whole_rounds(self, calls: int) -> int:
        """Return the bits of all targets in the rounds of these calls."""
        sets = range(ROUNDS * len(self._sequences))
        return sum(ALL << SIZE * number for number in sets if calls >> SIZE * number & ALL)

    def target_bits(self, kind: Kind, positions: int | None = None) -> int:
        bits = self._positions(kind) if positions is None else positions
        return int(bits << SIZE * self.sequence(kind))

    def called_targets(self, calls: int, sequence: int) -> int:
        """Return the positions (bits) of an envelope that are among these calls, in any round."""
        of_envelope, positions = calls >> SIZE * ROUNDS * sequence, 0
        for number in range(ROUNDS):
            positions |= of_envelope >> SIZE * number & ALL
        return positions

    def record_bits(self, record: bytes) -> int:
        """Return the bits of the calls that a record reports."""
        bits = self._bits.get(record)
        if bits is None:
            bits = self._bits[record] = sum(self.call_bits(kind) for kind, _ in results(record))
        return bits

    def _positions(self, kind: Kind) -> int:
        return sum(1 << position for position in kind[3])

    # ------------------------------------------------------------- a worker moves
    def one(self, world: WorldState, worker: int) -> tuple[Hands, WorkerState]:
        """Return one worker's hands and state."""
        hands = world.hands(worker)
        return hands, self.workers.states[hands.state]

    def state(self, world: WorldState, worker: int) -> WorkerState:
        return self.workers.states[world.hands(worker).state]

    def moved(self, world: WorldState, worker: int, event: Input, **changes: Any) -> WorldState:
        """The worker takes an input; what it lets go of without an ack goes back to its lane."""
        hands = world.hands(worker)
        number, moved = self.workers.move(hands.state, event)
        state = self.workers.states[number]
        held: list[Held | None] = changes.pop("held", hands.held)
        lane = changes.pop("lane", world.lane)
        for slot, place in enumerate(held):
            if place is not None and place[2] and slot not in moved:
                lost = LIMBO if self.lanes[place[0]] in state.attached else 0
                lane = tuple(sorted((*lane, (place[0] + lost, place[1]))))
        mask = state.mask
        late, old = changes.pop("late", hands.late) & mask, changes.pop("old", hands.old) & mask
        unrecorded = changes.pop("unrecorded", hands.unrecorded)
        kept = tuple([held[slot] or (0, 0, False) for slot in moved])
        reports = changes.pop("reports", hands.reports) and unrecorded != 0
        after = type(hands)(number, kept, late, old, unrecorded, reports)
        changes["two" if worker else "one"] = after
        return world._replace(lane=lane, **changes)
