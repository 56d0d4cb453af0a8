"""The guard of the estate: names slow nodes, takes them out of service and puts them back.

One guard is elected, by a lock in Redis. Only it looks, probes and acts. It stores the states of all nodes at each
look, and before each action what it is about to do, so that the next guard goes on where it ended.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from backends.redis.guard_states import GuardStates
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Unreachable
from estate.rules.cluster import Estate
from estate.rules.incidents import Incident
from estate.rules.node_life import Intent, NodeKind, NodeRecord, decode_nodes, encode_nodes
from estate.rules.node_looks import ProbeLook, budget_of, node_looks, unseen_kinds
from estate.rules.slow_nodes import Budget, Command, JudgeSettings, carried_out, judge

_log = logging.getLogger(__name__)

STANDBY_S = 0.25
"""Time between two looks at the election while another guard has it."""


class Followed(Protocol):
    """Probes of nodes."""

    def follow(self, estate: Estate, nodes: Mapping[str, NodeRecord]) -> None: ...

    def take(self) -> Mapping[str, ProbeLook]: ...

    def close(self) -> None: ...


class Actions(Protocol):
    """Carries out commands: Refused, it was not done; Unreachable, it may have been done."""

    def isolate(self, kind: NodeKind, name: str, bookies: list[str], needed: int | None) -> None: ...

    def release(self, kind: NodeKind, name: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class GuardPorts:
    """Everything that a guard looks at and acts on."""

    look: Callable[[], Estate]
    probes: Followed
    has_bundles: Callable[[str], bool]
    """Whether a broker has bundles."""
    states: GuardStates
    held: Callable[[], bool]
    """Whether this guard is elected."""
    actions: Actions
    capture: Callable[[Incident], None]
    """Called with the incident of a node that is found slow. It must return at once."""
    clock: Clock


@dataclass(frozen=True, kw_only=True)
class GuardSettings:
    """How a guard looks and whether it acts."""

    name: str
    judge: JudgeSettings
    look_s: float = 5.0
    acts: bool = False
    """Whether it acts, rather than saying what it would do."""


class Guard:
    """One guard. `run` is its loop; the other members are read by its metrics."""

    def __init__(self, ports: GuardPorts, settings: GuardSettings) -> None:
        self._ports, self._settings = ports, settings
        self._logged: frozenset[str] = frozenset()
        self._looked_s: float | None = None
        self.nodes: Mapping[str, NodeRecord] = {}
        """The nodes by key; none while another guard is elected."""
        self.estate: Estate | None = None
        """The facts of the last look; None while another guard is elected."""
        self.elected = False
        self.ended: dict[tuple[NodeKind, Intent, str], int] = {}
        """Number of commands by kind of node, intent and result: done, refused, unknown."""

    def run(self, stop: threading.Event) -> None:
        """Guard until `stop` is set. Raises InvalidInput for a wrong address, and for states of a later version."""
        try:
            while not stop.is_set():
                began_s = self._ports.clock.monotonic_s()
                pause_s = self.step()
                stop.wait(max(0.0, began_s + pause_s - self._ports.clock.monotonic_s()))
        finally:
            self._ports.probes.close()

    def look_age_s(self) -> float | None:
        """Return the time since the last look; None before the first."""
        return None if self._looked_s is None else self._ports.clock.monotonic_s() - self._looked_s

    def step(self) -> float:
        """Look once if this guard is elected. Return the seconds until the next step is due."""
        try:
            if self._ports.held() and (self.elected or self._take_over()):
                self._look()
                return self._settings.look_s
        except Unreachable as error:
            self._say({f"the guard waits for Redis: {error.cause}"})
        if self.elected and not self._ports.held():
            self._stand_by()
        return STANDBY_S

    # ------------------------------------------------------------ election
    def _take_over(self) -> bool:
        content = self._ports.states.read()
        self.nodes = {} if content is None else decode_nodes(content)
        self.elected, self._looked_s = True, None
        out = [f"{node.kind} {node.name} is {node.state}" for node in self.nodes.values() if node.out_of_service]
        _log.info("this guard is elected; %s", "; ".join(out) or "no node is out of service")
        return True

    def _stand_by(self) -> None:
        _log.warning("this guard is not elected any more")
        self.elected, self.nodes, self.estate = False, {}, None
        self._ports.probes.follow(Estate(), {})

    # ------------------------------------------------------------ one look
    def _look(self) -> None:
        estate, before = self._ports.look(), self.nodes
        now_s = self._ports.clock.monotonic_s()
        elapsed_ms = 0.0 if self._looked_s is None else (now_s - self._looked_s) * 1000
        loaded = frozenset(
            node.name
            for node in before.values()
            if node.kind is NodeKind.BROKER and node.state == "isolated" and self._ports.has_bundles(node.name)
        )
        looks = node_looks(estate, before, self._ports.probes.take(), loaded, self._settings.judge)
        budget = budget_of(estate)
        found = judge(
            before, looks, elapsed_ms, budget, self._settings.judge, unseen_kinds(estate), acts=self._settings.acts
        )
        if not self._keep(found.nodes):
            return
        self._looked_s, self.estate = now_s, estate
        self._ports.probes.follow(estate, self.nodes)
        remarks = {*found.remarks, *_blind(estate)}
        self._capture(before, found.nodes)
        logged_before = self._logged
        self._say(remarks)
        if found.command is not None:
            bookies = [bookie.name for bookie in estate.bookies]
            ends = self._obey(found.command, budget, bookies, logged_before)
            self._say(remarks | ends, logged_before)

    def _keep(self, nodes: Mapping[str, NodeRecord]) -> bool:
        """Store the states. Return False, and forget them, if another guard is elected by now."""
        if not self._ports.states.keep(self._settings.name, encode_nodes(nodes)):
            self._stand_by()
            return False
        self.nodes = nodes
        return True

    def _capture(self, before: Mapping[str, NodeRecord], after: Mapping[str, NodeRecord]) -> None:
        for key, node in after.items():
            if node.state == "suspect" and (key not in before or before[key].state != "suspect"):
                self._ports.capture(Incident(f"guard: {node.kind} {node.name} is slow", node.name))

    def _say(self, remarks: set[str], logged_before: frozenset[str] = frozenset()) -> None:
        """Log the remarks that were logged neither at the look before nor at this one."""
        for remark in sorted(remarks - self._logged - logged_before):
            _log.warning("%s", remark)
        self._logged = frozenset(remarks)

    # ------------------------------------------------------------ commands
    def _obey(self, command: Command, budget: Budget, bookies: list[str], logged_before: frozenset[str]) -> set[str]:
        """Carry out a command, or report what would be done. Return the remarks about it, each to be logged once."""
        what = f"{_VERBS[command.node.kind, command.intent]} {command.node.kind} {command.node.name}"
        if not self._settings.acts:
            return {f"would {what}; --act is not given"}
        if not any(remark.startswith(f"could not {what}") for remark in logged_before):
            _log.warning("to %s: %s", what, command.reason)
        try:
            self._act(command, budget, bookies)
        except Unreachable as error:  # the records keep the intent, and the next look shows what became of it
            return self._end(command, "unknown", f"could not {what}, or did not hear of it: {error.cause}")
        except FairlaneError as error:
            self._keep(carried_out(self.nodes, command, self._settings.judge, done=False))
            return self._end(command, "refused", f"could not {what}: {error.cause}")
        self._keep(carried_out(self.nodes, command, self._settings.judge, done=True))
        _log.warning("done: %s", what)
        return self._end(command, "done")

    def _act(self, command: Command, budget: Budget, bookies: list[str]) -> None:
        if command.intent is Intent.ISOLATE:
            self._ports.actions.isolate(command.node.kind, command.node.name, bookies, budget.bookies)
        else:
            self._ports.actions.release(command.node.kind, command.node.name)

    def _end(self, command: Command, result: str, *remarks: str) -> set[str]:
        key = (command.node.kind, command.intent, result)
        self.ended[key] = self.ended.get(key, 0) + 1
        return set(remarks)


_VERBS = {
    (NodeKind.BOOKIE, Intent.ISOLATE): "make read-only",
    (NodeKind.BOOKIE, Intent.RELEASE): "make writable",
    (NodeKind.BROKER, Intent.ISOLATE): "drain",
    (NodeKind.BROKER, Intent.RELEASE): "release",
}


def _blind(estate: Estate) -> set[str]:
    """Return what keeps the guard from seeing nodes."""
    unread = {f"{name} could not be listed: {reason}" for name, reason in estate.unread.items() if name in _LISTS}
    silent = {
        f"broker {broker.name} does not answer: {broker.failure}" for broker in estate.brokers if not broker.answered
    }
    answered = [broker for broker in estate.brokers if broker.answered]
    keeping = all(_FIGURES.items() <= each.settings.items() for each in answered)
    if answered and not keeping and not any(each.bookies_p99_ms for each in answered):
        unread.add(_NO_FIGURES)
    return unread | silent


_LISTS = ("brokers", "bookies")
_FIGURES = {"bookkeeperClientExposeStatsToPrometheus": "true", "bookkeeperClientLimitStatsLogging": "false"}
"""Settings with which brokers keep figures of single bookies. There are none without traffic either."""
_NO_FIGURES = "no broker has figures of single bookies; they need " + " and ".join(map("=".join, _FIGURES.items()))
