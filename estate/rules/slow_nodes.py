"""Which nodes are slow: slow relative to its peers at several looks in a row, isolated within a budget, and
released after its probes were well for a while.

Pulsar and BookKeeper count errors and never slowness, so a bookie that takes 400 ms for each write stays in use for
ever. The limit is absolute and relative: a load that slows down every node isolates none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import isnan
from statistics import median

import msgspec

from dispatcher.model.errors import InvalidInput
from estate.rules.node_life import Intent, NodeKind, NodeRecord


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    """Bounds of judgements. Raises InvalidInput."""

    slow_ms: float = 300.0
    """A p99 above this may be slow."""
    slow_ratio: float = 3.0
    """... if it is also above this many times the median of the node's peers."""
    looks: int = 3
    """Looks in a row after which a node is called slow, or well again."""
    release_ms: float = 300_000.0
    """Time for which the probes of an isolated node must be well before it is released."""
    longest_hold_ms: float = 3_600_000.0
    """That time doubles with each isolation, up to this."""
    stale_ms: float = 20_000.0
    """Time for which the brokers' figures may still be from before a bookie came back: two windows of 10 s."""
    longest_look_ms: float = 10_000.0
    """A look counts for at most this time, so that a clock that jumps releases nothing early."""

    def __post_init__(self) -> None:
        for name in ("slow_ms", "slow_ratio", "looks", "release_ms", "longest_hold_ms", "stale_ms", "longest_look_ms"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidInput(f"guard: {name}: {getattr(self, name)} is not more than 0.")


@dataclass(frozen=True, kw_only=True)
class NodeLook:
    """One node as one look found it."""

    kind: NodeKind
    name: str
    p99_ms: float | None = None
    """Time of writes to a bookie as brokers see it, or of a broker's probes. None or NaN: no traffic, not judged."""
    well: bool = True
    """Whether its own probes are well: it answers, syncs quickly and has space."""
    in_service: bool = True
    """Whether a bookie is writable, or a broker has bundles."""
    present: bool = True
    """Whether it is registered."""

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Nodes that must be left in service."""

    largest_ensemble: int | None
    """The largest ensemble size of our namespaces. None, unknown: no bookie is isolated."""
    brokers: int = 1
    """Brokers that must be left in service."""
    uncounted: str = ""
    """Why the writable bookies cannot be counted: no bookie is isolated then. Empty if they can."""

    @property
    def bookies(self) -> int | None:
        """Return the number of bookies that must stay writable: one of a full ensemble may be lost. None: unknown."""
        return None if self.largest_ensemble is None else self.largest_ensemble + 1


@dataclass(frozen=True)
class Command:
    """A command for the guard to carry out now; the records have it as an intent already."""

    intent: Intent
    node: NodeRecord
    reason: str
    asked_before: bool = False
    """Whether an earlier command to isolate the node has no known end. It may have been carried out since."""


@dataclass(frozen=True)
class LookResult:
    """The records after a look, and what follows from it."""

    nodes: Mapping[str, NodeRecord]
    command: Command | None
    """At most one: one node at a time."""
    remarks: tuple[str, ...]
    """Changes of states, and why a slow node is not isolated."""


def judge(
    nodes: Mapping[str, NodeRecord],
    look: Sequence[NodeLook],
    elapsed_ms: float,
    budget: Budget,
    settings: JudgeSettings,
    unseen: AbstractSet[NodeKind] = frozenset(),
    *,
    acts: bool = True,
) -> LookResult:
    """Return what follows from one look. elapsed_ms: since the look before.

    unseen: kinds of nodes that could not be listed. Their records stay as they are. acts: whether a command will be
    carried out; if not, the records do not have it.
    """
    elapsed_ms = min(max(0.0, elapsed_ms), settings.longest_look_ms)
    look = [each for each in look if each.kind not in unseen]
    looked = {each.key: each for each in look}
    slow = {each.key for each in look if is_slow(each, look, settings)}
    known = {each.key: nodes.get(each.key) or NodeRecord(kind=each.kind, name=each.name) for each in look}
    after = {key: _observed(known[key], each, elapsed_ms, settings, slow) for key, each in looked.items()}
    after |= dict(_not_listed((node for key, node in nodes.items() if key not in looked), elapsed_ms, unseen))
    changed = [
        f"{node.kind} {node.name} is {node.state}, was {nodes[key].state}"
        for key, node in after.items()
        if key in nodes and nodes[key].state != node.state
    ]
    command, refusals = _command(after, looked, slow, budget, settings)
    if command is not None and acts:
        after[command.node.key] = command.node
    return LookResult(after, command, (*changed, *_shared_causes(look, settings), *refusals))


def carried_out(
    nodes: Mapping[str, NodeRecord], command: Command, settings: JudgeSettings, *, done: bool
) -> dict[str, NodeRecord]:
    """Return the records after a command was carried out, or is known to have failed. If its end is not known, the
    records stay as they are, and the next look shows it.

    A broker that was drained is isolated by then; one whose drain failed is in service.
    """
    node = nodes[command.node.key]
    if command.intent is Intent.RELEASE:
        node = _back(node, "release", settings) if done else node
    elif done:
        node = _isolated(node, settings)
    elif node.state != "isolated":
        node = msgspec.structs.replace(node.after("release"), by_guard=command.asked_before)
    return {**nodes, node.key: msgspec.structs.replace(node, intent=Intent.NONE)}


# ---------------------------------------------------------------- one node
def is_slow(look: NodeLook, looks: Iterable[NodeLook], settings: JudgeSettings) -> bool:
    """Return whether a node is slow in one looks: above the limit, and above a multiple of its peers' median."""
    peers = [other.p99_ms for other in looks if other.kind is look.kind and other.name != look.name]
    known = [p99 for p99 in peers if p99 is not None and not isnan(p99)]
    if not look.present or look.p99_ms is None or isnan(look.p99_ms) or not known:
        return False
    return look.p99_ms > settings.slow_ms and look.p99_ms > settings.slow_ratio * median(known)


def _observed(
    node: NodeRecord, look: NodeLook, elapsed_ms: float, settings: JudgeSettings, slow: AbstractSet[str]
) -> NodeRecord:
    if not look.present:
        return _vanished(node)
    if node.state == "gone":
        node = _with_old_figures(node.after("appear"), settings)
    if node.state == "joining":
        return _arrived(node, look)
    node = _settled(node, look, settings)
    if node.out_of_service:
        return msgspec.structs.replace(node, well_ms=node.well_ms + elapsed_ms if look.well else 0.0)
    if node.stale_ms > 0:
        return msgspec.structs.replace(node, stale_ms=max(0.0, node.stale_ms - elapsed_ms))
    node = msgspec.structs.replace(node, probation_ms=max(0.0, node.probation_ms - elapsed_ms))
    return _counted(node, look, settings, is_slow=look.key in slow)


def _not_listed(
    nodes: Iterable[NodeRecord], elapsed_ms: float, unseen: AbstractSet[NodeKind]
) -> Iterator[tuple[str, NodeRecord]]:
    """Follow nodes that were not listed. One that is gone is forgotten at the end of its probation."""
    for node in nodes:
        if node.kind in unseen:
            yield node.key, node
        elif node.state != "gone":
            yield node.key, _vanished(node)
        elif node.probation_ms > elapsed_ms:
            yield node.key, msgspec.structs.replace(node, probation_ms=node.probation_ms - elapsed_ms)


def _vanished(node: NodeRecord) -> NodeRecord:
    """Return a node that is gone. If it was isolated, it is on probation when it comes back."""
    probation_ms = node.hold_ms if node.out_of_service else node.probation_ms
    return msgspec.structs.replace(node.after("vanish"), probation_ms=probation_ms, intent=Intent.NONE)


def _arrived(node: NodeRecord, look: NodeLook) -> NodeRecord:
    if look.kind is NodeKind.BROKER or look.in_service:
        return msgspec.structs.replace(node.after("serve"), by_guard=False)
    return node.after("isolate")


def _settled(node: NodeRecord, look: NodeLook, settings: JudgeSettings) -> NodeRecord:
    """Follow what a bookie shows: a command whose end is not known, or a change that somebody else made.

    What a broker shows decides nothing: it may have no bundle by chance, and Pulsar may give it some at any time.
    """
    if node.kind is NodeKind.BOOKIE:
        if not look.in_service and not node.out_of_service:
            node = _isolated(node, settings) if node.by_guard else node.after("isolate")
        elif look.in_service and node.out_of_service:
            node = _back(node, "return", settings)
    return msgspec.structs.replace(node, intent=Intent.NONE)


def _counted(node: NodeRecord, look: NodeLook, settings: JudgeSettings, *, is_slow: bool) -> NodeRecord:
    """Count looks in a row. A look without traffic says nothing, and counts neither way."""
    if look.p99_ms is None or isnan(look.p99_ms):
        return node
    slow_looks = node.slow_looks + 1 if is_slow else 0
    well_looks = 0 if is_slow else node.well_looks + 1
    node = msgspec.structs.replace(node, slow_looks=slow_looks, well_looks=well_looks)
    if node.state == "serving" and slow_looks >= settings.looks:
        return node.after("slow")
    if node.state == "suspect" and well_looks >= settings.looks:
        return msgspec.structs.replace(node.after("well"), by_guard=False)
    return node


def _isolated(node: NodeRecord, settings: JudgeSettings) -> NodeRecord:
    """Return the node out of service, held twice as long if it failed within its probation."""
    if node.state == "isolated":
        return node
    repeated = node.probation_ms > 0 and node.hold_ms > 0
    hold_ms = min(node.hold_ms * 2, settings.longest_hold_ms) if repeated else settings.release_ms
    node = node.after("isolate") if node.kind is NodeKind.BOOKIE else node.after("drain").after("drained")
    return msgspec.structs.replace(node, hold_ms=hold_ms, probation_ms=0.0, by_guard=True)


def _back(node: NodeRecord, event: str, settings: JudgeSettings) -> NodeRecord:
    """Return a node in service again. If the guard had isolated it, it is on probation for as long as it was held."""
    probation_ms = node.hold_ms if node.by_guard else node.probation_ms
    back = msgspec.structs.replace(node.after(event), probation_ms=probation_ms, by_guard=False)
    return _with_old_figures(back, settings)


def _with_old_figures(node: NodeRecord, settings: JudgeSettings) -> NodeRecord:
    """Return a node that is not judged for a while: the brokers' figures may still be from before it came back. The
    guard's own probes of a broker are always current."""
    return msgspec.structs.replace(node, stale_ms=settings.stale_ms) if node.kind is NodeKind.BOOKIE else node


def _shared_causes(look: Sequence[NodeLook], settings: JudgeSettings) -> Iterator[str]:
    """Say that more than a third of the nodes of a kind are above the limit, though none is slow beside its peers."""
    for kind in NodeKind:
        times = [each.p99_ms for each in look if each.kind is kind and each.present and each.p99_ms is not None]
        above = sum(p99 > settings.slow_ms for p99 in times)
        if 3 * above > len(times):
            yield f"{above} of {len(times)} {kind}s are above {settings.slow_ms:g} ms: they share a cause"


# ---------------------------------------------------------------- command
def _command(
    nodes: Mapping[str, NodeRecord],
    looked: Mapping[str, NodeLook],
    slow: AbstractSet[str],
    budget: Budget,
    settings: JudgeSettings,
) -> tuple[Command | None, list[str]]:
    """Return the command to give, if any, and why others are not given."""
    ours = [node for key, node in nodes.items() if node.by_guard and node.out_of_service and key in looked]
    for node in ours:
        command = _next_of_isolated(node, looked, budget)
        if command is not None:
            return command, []
    suspects = [node for key, node in nodes.items() if node.state == "suspect" and key in slow]
    refusals: list[str] = []
    for node in sorted(suspects, key=lambda node: -(looked[node.key].p99_ms or 0.0)):
        refusal = _refusal(node, nodes, looked, slow, budget)
        if not refusal:
            reason = f"its p99 is {looked[node.key].p99_ms:,.0f} ms, at {settings.looks} looks in a row too much"
            return _isolation(node, reason), refusals
        refusals.append(f"{node.kind} {node.name} is slow and stays in use: {refusal}")
    return None, refusals


def _next_of_isolated(node: NodeRecord, looked: Mapping[str, NodeLook], budget: Budget) -> Command | None:
    """Return the command that a node which the guard isolated needs now, if any."""
    if node.state == "draining":
        return _isolation(node, "its drain was not finished")
    if node.well_ms >= node.hold_ms:
        return _release(node, f"its probes were well for {node.well_ms / 1000:,.0f} s")
    if node.kind is NodeKind.BROKER:
        return _isolation(node, "Pulsar gave it bundles again") if looked[node.key].in_service else None
    left = sum(each.in_service and each.present for each in looked.values() if each.kind is NodeKind.BOOKIE)
    if budget.bookies is not None and not budget.uncounted and left < budget.bookies:
        return _release(node, f"only {left} writable bookies are left of at least {budget.bookies}")
    return None


def _release(node: NodeRecord, reason: str) -> Command:
    return Command(Intent.RELEASE, msgspec.structs.replace(node, intent=Intent.RELEASE), reason)


def _isolation(node: NodeRecord, reason: str) -> Command:
    """Return the command to isolate a node. Its record says so first: a guard that dies in the middle is followed by
    one that knows of it."""
    asked_before = node.by_guard and node.kind is NodeKind.BOOKIE
    node = node.after("drain") if node.kind is NodeKind.BROKER else node
    begun = msgspec.structs.replace(node, intent=Intent.ISOLATE, by_guard=True)
    return Command(Intent.ISOLATE, begun, reason, asked_before)


def _refusal(
    node: NodeRecord,
    nodes: Mapping[str, NodeRecord],
    looked: Mapping[str, NodeLook],
    slow: AbstractSet[str],
    budget: Budget,
) -> str:
    """Return why the budget forbids to isolate a node; empty if it allows it."""
    out = next((other for other in nodes.values() if other.out_of_service), None)
    if out is not None:
        return f"{out.kind} {out.name} is {out.state}, and one node at a time is enough"
    peers = [each for each in looked.values() if each.kind is node.kind and each.present]
    slow_peers = sum(peer.key in slow for peer in peers)
    if 3 * slow_peers > len(peers):
        return f"{slow_peers} of {len(peers)} are slow, which has a cause that they share"
    if node.kind is NodeKind.BROKER:
        left = sum(peer.well for peer in peers if peer.name != node.name)
        return "" if left >= budget.brokers else f"{left} brokers would be left of at least {budget.brokers}"
    if budget.uncounted:
        return budget.uncounted
    if budget.bookies is None:
        return "the ensemble sizes of the namespaces are not known"
    left = sum(peer.in_service for peer in peers) - 1
    return "" if left >= budget.bookies else f"{left} writable bookies would be left of at least {budget.bookies}"
