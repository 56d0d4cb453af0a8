"""A checkpoint says that everything below it is stored."""

from dispatcher.wire.control import FORMAT, MAIN_WRITER, Checkpoint
from producers.submit.checkpoints import Checkpointer
from tests.unit.dispatch.consumers.fakes import eventually
from tests.unit.dispatch.producers.fake_service import FakeService, Writer


class Slow(Writer):
    """A lane whose receipts come when the test says so."""

    def __init__(self) -> None:
        self.stored = self.asked = 0

    def confirmed(self) -> int:
        self.asked += 1
        return self.stored


def test_a_checkpoint_is_stored_once_all_below_it_is_confirmed() -> None:
    world, lane = FakeService(), Slow()
    checkpoints = Checkpointer(world.services(), lane, "t", base=10)
    checkpoints.store(15, 30, 2, "d")
    eventually(lambda: lane.asked > 2)
    assert world.records == []
    lane.stored = 5
    eventually(lambda: bool(world.records))
    checkpoints.finish()
    assert world.records == [
        Checkpoint(
            format=FORMAT, task="t", writer=MAIN_WRITER, sequence=15, targets=30, refused=2, consumed=32, digest="d"
        )
    ]


def test_one_that_is_never_confirmed_is_given_up() -> None:
    world, lane = FakeService(), Slow()
    checkpoints = Checkpointer(world.services(), lane, "t", base=0)
    checkpoints.store(5, 10, 0, "d")
    lane.stored = 4
    checkpoints.finish()
    assert world.records == []
