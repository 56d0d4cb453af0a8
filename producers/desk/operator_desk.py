"""The whole service at the desk: settings, workers, keys, policies, audit. For operators."""

from backends.redis.registry.figures import FigureRow
from dispatcher.access.actions import ACTIONS
from dispatcher.model.view import TaskView
from producers.client import PushClient
from producers.desk.acting import Acting
from producers.desk.guard import check_right

_OPERATING = {name: rights for name, rights in ACTIONS.items() if not rights.in_app}
"""Actions that no key of one app may ask for."""


class OperatorDesk(Acting):
    """The service, for a principal of all apps. There is nothing to clip, so it hands out the client."""

    def client(self, action: str) -> PushClient:
        """Return the client, for an action of operators. Raises Forbidden, NotReady; KeyError for any other action."""
        rights = _OPERATING[action]
        check_right(self.principal, action)
        self.check_age(rights)
        return self._client

    def live(self, action: str) -> list[TaskView]:
        """Return the live tasks, as the board has them. Raises as `client`."""
        self.client(action)
        return self._board.live()

    def history(self, span_s: float) -> list[FigureRow]:
        """Return rates and backlog of the tiers every 10 s, for the last seconds (24 h at most), the oldest first."""
        self.client("signals.show")
        return self._connection.figures.rows(span_s)
