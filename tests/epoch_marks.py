"""The marks of a new view in the topics of a world."""

from dispatcher.wire.outcome import FORMAT, EpochMark
from lab.simulator.world import World


def read_marks(world: World, epoch: str) -> None:
    """Write the view's mark to every topic, and read the topics up to it."""
    mark, control = EpochMark(FORMAT, epoch), world.registry.control
    control.move_cursor(control.cursor(), world.control.append(mark), epoch, marked=True)
    for partition in range(world.topics.outcome_partitions):
        world.outcomes.append(partition, mark)
    world.fold_outcomes()
