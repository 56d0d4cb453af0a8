"""Store pauses of flows, and their ends, for all workers: in the control topic, then in the view.

A flow with a cap of its own that sends too fast is not paused: its cap is halved.
"""

import logging
import math
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from backends.redis.registry.registry import ControlView
from backends.redis.registry.service import ServiceTable
from consumers.delivery.fleet_gate import BLAMED, Renewed
from dispatcher.channels.guards.trouble import Trouble
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError
from dispatcher.model.flow_pause import FLOW_PAUSED, KEPT_MS, MAX_REASON, FlowPause, PauseKind, flow_parts
from dispatcher.model.service_settings import Setting
from dispatcher.ports import ControlLog

RETRY_S = 0.5
"""How long after a failure, or while another worker is writing, an entry is tried again."""
_log = logging.getLogger(__name__)


class _Wish(NamedTuple):
    """An entry to be written."""

    flow: str
    kind: PauseKind
    until_s: float
    """Monotonic end of the pause, and when the wish is no longer worth anything."""
    reason: str
    credential: str


@dataclass(eq=False)
class FlowPauses:
    """Writes entries that this worker has a reason for. Several workers with the same reason write one."""

    service: ServiceTable
    view: ControlView
    control: ControlLog
    clock: Clock
    inbox: "queue.Queue[Trouble | Renewed]"
    """Reports of the gate."""
    slow: Callable[[str, str, int], bool]
    """RedisLedger.slow_flow."""
    _wishes: dict[str, _Wish] = field(default_factory=dict)
    """Entries that are still to be written, the last of each flow."""

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set. Wait for servers that are gone."""
        while not stop.is_set():
            if not self.round(0.2):
                stop.wait(RETRY_S)

    def round(self, within_s: float = 0.0) -> bool:
        """Write what is wanted, after waiting a little for something. Return whether nothing is left to be tried
        again."""
        for wish in self._received(within_s):
            self._wishes[wish.flow] = wish
        self._wishes = {flow: wish for flow, wish in self._wishes.items() if not self._is_done(wish)}
        return not self._wishes

    def _received(self, within_s: float) -> list[_Wish]:
        """Return what the gate has met; wait a little for the first."""
        wishes: list[_Wish] = []
        try:
            wishes.append(self._wish(self.inbox.get(block=within_s > 0, timeout=within_s)))
            while True:
                wishes.append(self._wish(self.inbox.get(block=False)))
        except queue.Empty:
            return wishes

    def _wish(self, met: Trouble | Renewed) -> _Wish:
        if isinstance(met, Renewed):
            return _Wish(met.flow, PauseKind.ENDED, math.inf, "it has new credentials", met.credential)
        until_s = self.clock.monotonic_s() + met.for_s
        return _Wish(met.flow, met.kind, until_s, _short(met.reason), met.credential)

    def _is_done(self, wish: _Wish) -> bool:
        """Write the entry, or find that nothing is to be written. Return False if it must be tried again."""
        if wish.until_s <= self.clock.monotonic_s():
            return True
        try:
            return self._write(wish)
        except FairlaneError as error:
            _log.debug("the pause of %s is not stored yet: %s", wish.flow, error)
            return False

    def _write(self, wish: _Wish) -> bool:
        """Write an entry unless another worker has. Return False while another worker may be about to.

        Raises Unreachable.
        """
        if wish.kind is PauseKind.LIMIT and self.slow(*flow_parts(wish.flow), self._left_ms(wish)):
            return True
        taken = self.service.take_flow(wish.flow, wish.kind)
        entry = taken.entry
        if not taken.is_taken:
            is_open = entry is not None and entry.is_open(taken.now_ms)
            is_confirmed = entry is not None and entry.confirms(taken.now_ms)
            return (is_open or is_confirmed) if wish.kind.stops else not is_open
        try:
            if wish.kind.stops or _ends(entry, wish.credential):
                self._store(wish.flow, self._entry(taken.now_ms, wish).after(entry))
        finally:
            self.service.free_flow(wish.flow)
        return True

    def _entry(self, now_ms: int, wish: _Wish) -> FlowPause:
        left_ms = self._left_ms(wish) if wish.kind.stops else KEPT_MS
        until_ms = now_ms + left_ms if left_ms < KEPT_MS else 0
        return FlowPause(
            kind=wish.kind, since_ms=now_ms, until_ms=until_ms, reason=wish.reason, credential=wish.credential
        )

    def _left_ms(self, wish: _Wish) -> int:
        return max(1, round(min((wish.until_s - self.clock.monotonic_s()) * 1000, KEPT_MS)))

    def _store(self, flow: str, entry: FlowPause) -> None:
        record = Setting(FLOW_PAUSED, entry, flow).record(entry.since_ms)
        self.view.apply(self.control.append(record), record)
        channel, app = flow_parts(flow)
        _log.warning("app %s on channel %s is %s: %s", app, channel, _words(entry), entry.reason)


def _ends(entry: FlowPause | None, credential: str) -> bool:
    """Return whether new credentials end the present pause."""
    return entry is not None and entry.kind in BLAMED and entry.credential != credential


def _words(entry: FlowPause) -> str:
    return f"paused ({entry.kind})" if entry.kind.stops else "no longer paused"


def _short(reason: str) -> str:
    """Return the reason as one line of limited length."""
    printable = "".join(letter if letter.isprintable() else " " for letter in reason)
    return printable[:MAX_REASON]
