"""The guard's hands: bookies become read-only and writable again, brokers are drained."""

from collections.abc import Callable, Iterable

from dispatcher.model.errors import Refused, Unreachable
from estate.facts.bookie_switch import BookieSwitch
from estate.rules.node_life import NodeKind

Drain = Callable[[str, Callable[[], bool]], None]
"""Drains a broker, unless the second argument returns that it must stop. Raises Refused if bundles are left."""


class NodeActions:
    """Carries out the guard's commands. What is raised as Unreachable may have happened, as Refused it has not."""

    def __init__(self, switch: BookieSwitch | None, drain: Drain, may_act: Callable[[], bool]) -> None:
        """switch: None if there is no address of the bookies' HTTP interfaces. may_act: whether this guard is elected
        now, and not about to end."""
        self._switch, self._drain, self._may_act = switch, drain, may_act

    def isolate(self, kind: NodeKind, name: str, bookies: Iterable[str], needed: int | None) -> None:
        """Take a node out of service.

        bookies: all that can be asked which are writable. needed: bookies that must be writable after it.
        """
        if kind is NodeKind.BROKER:
            self._check_elected()
            self._drain(name, lambda: not self._may_act())
        else:
            self._make_read_only(name, list(bookies), needed)

    def release(self, kind: NodeKind, name: str) -> None:
        """Put a node into service again. A broker gets bundles when Pulsar, or `estate balance`, gives it some."""
        if kind is NodeKind.BOOKIE:
            switch = self._usable_switch()
            self._check_elected()
            switch.set_read_only(name, read_only=False)

    def _make_read_only(self, name: str, bookies: list[str], needed: int | None) -> None:
        """Count the writable bookies right before and right after. Another one may end, or be made read-only by
        somebody else, at the same moment: then this one is made writable again at once."""
        switch = self._usable_switch()
        writable = self._writable(switch, bookies)
        if name not in writable:
            raise Refused(f"bookie {name} is not writable any more.")
        _check_enough(len(writable) - 1, needed)
        self._check_elected()
        switch.set_read_only(name, read_only=True)
        try:
            _check_enough(len(self._writable(switch, bookies) - {name}), needed)
        except Refused:
            _put_back(switch, name)
            raise

    @staticmethod
    def _writable(switch: BookieSwitch, bookies: list[str]) -> set[str]:
        try:
            return switch.writable(bookies)
        except Unreachable as error:
            raise Refused(error.cause, error.next_step) from error

    def _usable_switch(self) -> BookieSwitch:
        if self._switch is None:
            raise Refused("No bookie can be made read-only or writable.", "Set estate.bookie_http.")
        return self._switch

    def _check_elected(self) -> None:
        if not self._may_act():
            raise Refused("This guard ends, or another one may be elected by now.")


def _put_back(switch: BookieSwitch, name: str) -> None:
    """Make a bookie writable again. Raises Unreachable if it may still be read-only."""
    try:
        switch.set_read_only(name, read_only=False)
    except Refused as error:
        raise Unreachable(f"bookie {name} was not made writable again: {error.cause}") from error


def _check_enough(left: int, needed: int | None) -> None:
    if needed is None:
        raise Refused("The ensemble sizes of the namespaces are not known.")
    if left < needed:
        raise Refused(f"{left} writable bookies would be left of at least {needed}.")
