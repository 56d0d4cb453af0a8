"""An estate in memory with guards over it: real elections and states in a Redis in this process, bookies and brokers as
a test sets them."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from backends.redis.guard_states import GUARD_JOB, GuardStates
from backends.redis.workers import JobLocks
from consumers.upkeep.jobs import HeldJobs
from dispatcher.model.errors import Unreachable
from estate.guard.guard import Guard, GuardPorts, GuardSettings
from estate.guard.process import ELECTION
from estate.rules.cluster import BookieMode, BookieState, BrokerLoad, Estate, NamespaceState
from estate.rules.incidents import Incident
from estate.rules.node_life import NodeKind, NodeRecord, decode_nodes
from estate.rules.node_looks import ProbeLook
from estate.rules.slow_nodes import JudgeSettings
from tests.unit.views import LostRedis, view_of
from tests.virtual_clock import VirtualClock

JUDGE = JudgeSettings(release_ms=4_000, longest_hold_ms=60_000)
STEP_S = 0.5


class Killed(BaseException):
    """The end of a process, which nothing handles."""


@dataclass
class EstateInMemory:
    """Bookies b1:1 … and brokers k1:1 …, and what commands do to them."""

    bookies: int = 4
    brokers: int = 3
    ensemble: int = 2
    figures: dict[str, float] = field(default_factory=lambda: {"b1:1": 1.0})
    """Times of bookies that each broker has."""
    settings: dict[str, str] = field(default_factory=dict)
    """Those of each broker."""
    bookie_ms: dict[str, float] = field(default_factory=dict)
    """p99 as brokers see it."""
    probe_ms: dict[str, float] = field(default_factory=dict)
    """Time of probes, by name."""
    read_only: set[str] = field(default_factory=set)
    drained: set[str] = field(default_factory=set)
    unread: dict[str, str] = field(default_factory=dict)
    asked_bookies: bool = True
    given: list[str] = field(default_factory=list)
    """Commands that were given, carried out or not."""
    before: BaseException | None = None
    """Raised instead of the next command."""
    after: BaseException | None = None
    """Raised after the next command was carried out."""
    captured: list[tuple[str, str]] = field(default_factory=list)

    def slow(self, name: str) -> None:
        """Let a bookie be slow, as brokers see it and by its probes."""
        self.bookie_ms[name] = self.probe_ms[name] = 400.0

    def recover(self) -> None:
        self.bookie_ms.clear()
        self.probe_ms.clear()

    def look(self) -> Estate:
        names = [f"b{number}:1" for number in range(1, self.bookies + 1)]
        space = NamespaceState(name="t/s", ensemble=self.ensemble, write_quorum=2, ack_quorum=2, bundles=1)
        return Estate(
            brokers=tuple(
                BrokerLoad(name=f"k{number}:1", bookies_p99_ms=self.figures, settings=self.settings)
                for number in range(1, self.brokers + 1)
            ),
            bookies=tuple(self._bookie(name) for name in names),
            namespaces=(space,),
            unread=self.unread,
            bookies_asked=self.asked_bookies,
        )

    def _bookie(self, name: str) -> BookieState:
        mode = BookieMode.READ_ONLY if name in self.read_only else BookieMode.WRITABLE
        if not self.asked_bookies:
            return BookieState(name=name, failure="not asked", broker_p99_ms=self.bookie_ms.get(name, 10.0))
        p99_ms = None if name in self.read_only else self.bookie_ms.get(name, 10.0)
        return BookieState(name=name, mode=mode, broker_p99_ms=p99_ms)

    # ------------------------------------------------------------ probes
    def follow(self, estate: Estate, nodes: Mapping[str, NodeRecord]) -> None:
        """All nodes are probed."""

    def take(self) -> Mapping[str, ProbeLook]:
        names = {f"broker/k{n}:1": f"k{n}:1" for n in range(1, self.brokers + 1)}
        names |= {f"bookie/b{n}:1": f"b{n}:1" for n in range(1, self.bookies + 1)}
        return {key: ProbeLook(self.probe_ms.get(name, 2.0)) for key, name in names.items()}

    def close(self) -> None:
        """Nothing is open."""

    # ------------------------------------------------------------ commands
    def isolate(self, kind: NodeKind, name: str, bookies: list[str], needed: int | None) -> None:
        self._begin(f"isolate {name}")
        (self.read_only if kind is NodeKind.BOOKIE else self.drained).add(name)
        self._end()

    def release(self, kind: NodeKind, name: str) -> None:
        self._begin(f"release {name}")
        (self.read_only if kind is NodeKind.BOOKIE else self.drained).discard(name)
        self._end()

    def _begin(self, command: str) -> None:
        self.given.append(command)
        error, self.before = self.before, None
        if error is not None:
            raise error

    def _end(self) -> None:
        error, self.after = self.after, None
        if error is not None:
            raise error

    def capture(self, incident: Incident) -> None:
        self.captured.append((incident.reason, incident.node))


@dataclass
class Member:
    """One guard process."""

    jobs: HeldJobs
    guard: Guard
    alive: bool = True
    due_s: float = 0.0


class GuardedWorld:
    """Guards over one estate, in virtual time."""

    def __init__(self, estate: EstateInMemory | None = None) -> None:
        self.estate = estate or EstateInMemory()
        self.clock = VirtualClock()
        self.redis = LostRedis(self.clock.wall_ms)
        self.view = view_of(self.redis)
        self.states = GuardStates(self.view)
        self.members: list[Member] = []
        self.during_look: dict[str, Callable[[], None]] = {}
        """Called during the next look of a guard, by its name."""

    def member(self, name: str, *, acts: bool = True) -> Member:
        """Start a guard."""
        jobs = HeldJobs(JobLocks(self.view), [GUARD_JOB], name, self.clock, lambda: 1, ELECTION)
        ports = GuardPorts(
            look=lambda: self._look(name),
            probes=self.estate,
            has_bundles=lambda name: name not in self.estate.drained,
            states=self.states,
            held=lambda: jobs.held(GUARD_JOB),
            actions=self.estate,
            capture=self.estate.capture,
            clock=self.clock,
        )
        guard = Guard(ports, GuardSettings(name=name, judge=JUDGE, look_s=1.0, acts=acts))
        self.members.append(Member(jobs, guard))
        return self.members[-1]

    def _look(self, name: str) -> Estate:
        estate = self.estate.look()
        self.during_look.pop(name, lambda: None)()
        return estate

    def go_on(self, seconds: float) -> None:
        """Let all that live renew, look and act, for this long."""
        for _ in range(round(seconds / STEP_S)):
            for member in self.members:
                if member.alive:
                    self._step(member)
            self.clock.advance(STEP_S)

    def _step(self, member: Member) -> None:
        with suppress(Unreachable):
            member.jobs.renew()
        if self.clock.monotonic_s() < member.due_s:
            return
        try:
            member.due_s = self.clock.monotonic_s() + member.guard.step()
        except Killed:
            member.alive = False

    def state(self, key: str) -> str:
        """Return the stored state of a node."""
        return self.node(key).state

    def node(self, key: str) -> NodeRecord:
        content = self.states.read()
        assert content is not None
        return decode_nodes(content)[key]
