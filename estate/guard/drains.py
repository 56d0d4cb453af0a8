"""Drains of brokers, as the guard asks for them."""

from collections.abc import Callable
from dataclasses import dataclass

from dispatcher.model.errors import FairlaneError, Refused
from estate.facts.bundles import BundleAdmin
from estate.moves.facts import is_heartbeat
from estate.moves.mover import Drained, mover_of
from estate.moves.runner import MoveState
from fairlane.settings import Settings


@dataclass(frozen=True)
class BrokerDrainer:
    """Drains brokers for the guard, as `fairlane estate drain` does."""

    settings: Settings

    def has_bundles(self, broker: str) -> bool:
        """Return whether a broker owns bundles other than its own; False if nobody knows."""
        try:
            with BundleAdmin(self.settings.pulsar) as admin:
                return not all(map(is_heartbeat, admin.owned(broker)))
        except FairlaneError:
            return False

    def drain(self, broker: str, must_stop: Callable[[], bool]) -> None:
        """Move all bundles of a broker to the others. Raises Refused, with the reason, unless all of them are gone."""
        try:
            drained = self._drain(broker, must_stop)
        except Refused:
            raise
        except FairlaneError as error:
            raise Refused(f"broker {broker} was not drained: {error.cause}") from error
        except OSError as error:
            raise Refused(f"broker {broker} was not drained: its log cannot be written: {error}.") from error
        ended = {each.move.bundle: each for each in drained.progress or ()}
        left = {name: each.reason or each.state for name, each in ended.items() if each.state is not MoveState.VERIFIED}
        left |= drained.kept
        if left:
            bundle, reason = next(iter(left.items()))
            raise Refused(f"broker {broker} has {len(left)} bundles left, {bundle} for one: {reason}")

    def _drain(self, broker: str, must_stop: Callable[[], bool]) -> Drained:
        with mover_of(self.settings) as mover:
            facts = mover.read()
            if broker not in facts.brokers():
                raise Refused(f"broker {broker} was not drained: it does not answer.")
            return mover.drain(facts, broker, must_stop=must_stop)
