"""The whole service at the desk: settings, workers, keys, policies, audit. For operators."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from backends.redis.epochs import Epoch
from backends.redis.guard_states import GuardedNode
from backends.redis.registry.figures import FigureRow
from dispatcher.access.actions import ACTIONS
from dispatcher.analysis.forecast import Steps
from dispatcher.analysis.what_if import FinishChange, effects
from dispatcher.model.errors import FairlaneError
from dispatcher.model.view import Globals, TaskView
from producers.client import PushClient
from producers.control.service_controls import ServiceControls
from producers.desk.acting import Acting
from producers.desk.guard import check_right
from producers.fold_watch import PulsarState

Change = Callable[[ServiceControls], None]
_OPERATING = {name: rights for name, rights in ACTIONS.items() if not rights.in_app}
"""Actions that no key of one app may ask for."""


class ServicePreview(NamedTuple):
    """The effects of a change of settings that is not made."""

    before: Globals
    after: Globals
    effects: list[FinishChange]
    """Tasks that would end at another time, the most affected first."""


class Health(NamedTuple):
    """The servers behind the service."""

    epoch: Epoch | None
    """None: Redis is empty."""
    redis_ms: float
    """Time of one command."""
    pulsar: PulsarState | None
    behind: Mapping[str, int | None]
    """As of FoldWatch."""
    trouble: str
    """Why Pulsar's state is not known."""


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

    def preview_service(self, action: str, change: Change, *, foresee: bool = True) -> ServicePreview:
        """Return what a change of settings would do; foresee: False leaves out the effects, which take seconds with
        100,000 live tasks. Raises as `client`, and as the change."""
        client = self.client(action)
        before, after = client.globals(), client.globals(after=change)
        now = self._situation()._replace(settings=before) if foresee else None
        return ServicePreview(before, after, effects(now, now._replace(settings=after)) if now else [])

    def health(self) -> Health:
        """Return the state of the view, and of the servers. Raises Unreachable if Redis is gone."""
        self.client("workers.list")
        began_s = time.monotonic()
        self._connection.epochs.ready()
        redis_ms, epoch = (time.monotonic() - began_s) * 1000, self._connection.epochs.epoch()
        try:
            pulsar = self._connection.folds.read()
        except FairlaneError as error:
            return Health(epoch, redis_ms, None, {}, f"{error.cause} {error.next_step}")
        return Health(epoch, redis_ms, pulsar, self._connection.folds.behind(pulsar), "")

    def nodes(self) -> list[GuardedNode]:
        """Return brokers and bookies as the guard of the estate knows them, the worst first; none if no guard runs."""
        self.client("workers.list")
        return self._connection.guarded.nodes()

    def ahead(self) -> Steps:
        """Return what will be sent by tier: seconds from now, which may have passed, and the targets/s from then on."""
        self.client("signals.show")
        return self._board.ahead()

    def history(self, span_s: float) -> list[FigureRow]:
        """Return rates and backlog of the tiers every 10 s, for the last seconds (24 h at most), the oldest first."""
        self.client("signals.show")
        return self._connection.figures.rows(span_s)
