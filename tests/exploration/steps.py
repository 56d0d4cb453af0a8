"""Every step that may follow in a state of the world. No threads, no time.

A step is one thing that the rest of the world can see: a delivery, a lease call carried out, a provider called,
something stored, an ack, a record folded, or a fault. What a worker does in between concerns nobody else, so it follows
at once; what it asks of its ports waits to be chosen.
"""

from collections.abc import Iterator

from dispatcher.lease import Status
from tests.exploration.faults import Faults
from tests.exploration.moves import Moves
from tests.exploration.scene import Scene
from tests.exploration.truth import Truth
from tests.exploration.upkeep import Upkeep
from tests.exploration.variants import OWN, Variant
from tests.exploration.world import ENDED, OUTCOME, Hands, Step, World


class Steps:
    """The steps of one variant."""

    def __init__(self, variant: Variant) -> None:
        self.scene = Scene(variant)
        self._variant = variant
        self._truth = Truth(self.scene)
        self._moves = Moves(self.scene)
        self._faults = Faults(self.scene, self._moves)
        self._upkeep = Upkeep(self.scene, self._truth)

    def start(self) -> World:
        ledger, variant = self.scene.ledger, self._variant
        view = ledger.empty(0)
        for name in variant.before:
            view = ledger.control(view, variant.record(name))
        hands = Hands(self.scene.workers.start())
        lane = tuple(sorted((0, self.scene.kind(kind)) for kind in variant.envelopes))
        return World(
            hands, hands, view, lane, acked=(), done=(), rest=(), control=variant.before, known=len(variant.before),
            epoch=0, waiting=False, marked=False, acknowledged=False, deleted=False, called=0, excused=0, accepted=0,
            down=0, left=variant.faults,
        )  # fmt: skip

    def of(self, world: World) -> Iterator[Step]:
        alone = self._alone(world)
        if alone:
            yield from alone
            return
        yield from self._moves.of(world, 0)
        yield from self._moves.of(world, 1)
        yield from self._upkeep.of(world)
        yield from self._faults.of(world)

    def _alone(self, world: World) -> list[Step]:
        """The steps, if there are any, that no other step can see, change or prevent: then no order with others need be
        tried. While faults may follow there is hardly any, for a fault may fall before or after each of them."""
        for i in (0, 1):
            state = self.scene.state(world, i)
            if not state.all_ahead:
                return list(self._moves.late_calls(world, i, state))
            if not world.left and not world.down:
                steps = self._alone_without_faults(world, i)
                if steps:
                    return steps
        return []

    def _alone_without_faults(self, world: World, i: int) -> list[Step]:
        hands, state, moves = world.hands(i), self.scene.state(world, i), self._moves
        if state.acks:
            return list(moves.acks(world, i, hands, state))
        if state.calls:
            return list(moves.calls(world, i, hands, state))
        if any(lane and lane != OWN for lane, *_ in state.stores):
            return [step for step in moves.stores(world, i, hands, state) if step.label[1] == "publishes"][:1]
        if state.request is not None and not state.request.given_back:
            steps = list(moves.leases(world, i, hands, state))
            if all(status == Status.DROP for status, _ in steps[0].label[3]):
                return steps
        return []

    def same(self, world: World) -> World:
        """One of the two worlds that differ in the workers' names only."""
        if not world.left:
            world = world._replace(acked=(), done=self._truth.summed(world.done))
        if world.one <= world.two:
            return world
        rest = tuple([_exchanged(entry) for entry in world.rest])
        view = self.scene.ledger.swap(world.view)
        down = world.down >> 1 | (world.down & 1) << 1
        return world._replace(one=world.two, two=world.one, view=view, rest=rest, down=down)

    # ------------------------------------------------------------- ends
    def outages_felt(self) -> list[str]:
        """Worker states in which a call that does not reach the ledger is more than a call that takes long. There are
        none before the grace: the same call is made again, and nothing else happens. So only an outage that lasts until
        the ledger is given up is a step here; else the calls under way wait, and so do fold and housekeeping, as they
        may in any case."""
        workers = self.scene.workers
        asking = [state for state in workers.states if state.request is not None and not state.overdue]
        return [repr(state) for state in asking if workers.move(state.id, ("lost", 0))[0] != state.id]

    def is_good_end(self, world: World) -> bool:
        """Nothing in a lane, nobody busy, completed, and no claim left."""
        if world.lane or world.rest or world.waiting or world.marked or world.known < len(world.control):
            return False
        view = self.scene.ledger.states[world.view]
        finished = "finished" in world.control and view.ready and not view.claims
        return finished and self.scene.state(world, 0).idle and self.scene.state(world, 1).idle


def _exchanged(entry: tuple[int, ...]) -> tuple[int, ...]:
    return (*entry[:-2], 1 - entry[-2], entry[-1]) if entry[0] in (OUTCOME, ENDED) else entry
