"""The parts of the registry over one view. Code that needs one question takes that part, not the whole."""

from backends.redis.registry.control_view import ControlView
from backends.redis.registry.service import ServiceTable, SideLaneTable
from backends.redis.registry.submissions import SubmissionTable
from backends.redis.registry.tasks import TaskTable
from backends.redis.view import RedisView


class Registry:
    """The registry in Redis, folded from the control topic."""

    def __init__(self, view: RedisView) -> None:
        self.control = ControlView(view)
        self.tasks = TaskTable(view)
        self.submissions = SubmissionTable(view)
        self.service = ServiceTable(view)
        self.sides = SideLaneTable(view)
