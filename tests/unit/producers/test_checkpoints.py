"""A checkpoint says that everything below it is stored."""

import time
from collections.abc import Sequence

from dispatcher.wire.control import FORMAT, MAIN_WRITER, Checkpoint
from producers.submit.checkpoints import Checkpointer
from tests.unit.producers.fake_service import FakeService


class Slow:
    """A lane whose receipts come when the test says so."""

    def __init__(self) -> None:
        self.stored = 0
        self.asked = 0

    def send_many(self, bodies: Sequence[bytes]) -> None: ...

    def confirmed(self) -> int:
        self.asked += 1
        return self.stored

    def flush(self) -> None: ...

    def close(self) -> None: ...


def points(world: FakeService) -> list[Checkpoint]:
    return [record for record in world.records if isinstance(record, Checkpoint)]


def test_a_checkpoint_is_stored_once_all_below_it_is_confirmed() -> None:
    world, lane = FakeService(), Slow()
    checkpoints = Checkpointer(world.services(), lane, "t", base=10)
    checkpoints.store(15, 30, 2, "d")
    while lane.asked < 3:
        assert points(world) == []
    assert points(world) == []
    lane.stored = 5
    while not points(world):
        time.sleep(0.001)
    checkpoints.finish()
    assert points(world) == [
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
    assert points(world) == []
