"""Moves of bundles as `estate balance` and `drain` and the guard make them, and the drain of a whole broker."""

from collections.abc import Callable, Collection, Iterable
from functools import partial

from backends.pulsar.estate.bundles import BundleAdmin
from backends.system_clock import SystemClock
from dispatcher.model.errors import FairlaneError, NotFound, Refused, Unreachable
from estate.balance import Goal, pieces_of, plan_drain
from estate.moves import MoveProgress, MoveWindow, WindowSettings
from fairlane.estate.move_facts import MoveFacts, facts_of, is_heartbeat, unmeasured_namespaces
from fairlane.estate.move_journals import MoveJournals
from fairlane.estate.run_moves import MoveRunner, move_bundle
from fairlane.settings import Settings

AT_ONCE = 4


def journals_of(settings: Settings) -> MoveJournals:
    return MoveJournals(settings.home_folder / "moves")


def read_facts(admin: BundleAdmin, wanted: Collection[str] = ()) -> MoveFacts:
    """Return the bundles of all brokers, with the topics to look each up by.

    wanted: bundles whose topics are also looked for if no broker owns them now.
    """
    answers = admin.read()
    return facts_of(answers, admin.topics(unmeasured_namespaces(answers, wanted)), wanted)


def move_bundles(
    admin: BundleAdmin, window: MoveWindow, facts: MoveFacts, at_once: int, must_stop: Callable[[], bool]
) -> list[MoveProgress]:
    """Carry out the moves of a window. Raises KeyboardInterrupt once those that were begun are finished."""
    topics = {bundle: tuple(topics) for bundle, topics in facts.topics.items()}
    attempt = partial(move_bundle, admin, topics, facts.brokers())
    return MoveRunner(window, attempt, SystemClock(), at_once).run(must_stop)


def let_go(admin: BundleAdmin, bundles: Iterable[str]) -> dict[str, str]:
    """Unload bundles without topics, which nobody waits for. Return why some are left, by bundle."""
    reasons = {}
    for bundle in bundles:
        try:
            admin.let_go(bundle)
        except (Refused, Unreachable, NotFound) as error:
            reasons[bundle] = error.cause
    return reasons


class BrokerDrainer:
    """Drains brokers for the guard, as `fairlane estate drain` does."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def has_bundles(self, broker: str) -> bool:
        """Return whether a broker owns bundles other than its own; False if nobody knows."""
        try:
            with BundleAdmin(self._settings.pulsar) as admin:
                return not all(map(is_heartbeat, admin.owned(broker)))
        except FairlaneError:
            return False

    def drain(self, broker: str, must_stop: Callable[[], bool]) -> None:
        """Move all bundles of a broker to the others. Raises Refused, with the reason, unless all of them are gone."""
        try:
            with BundleAdmin(self._settings.pulsar) as admin:
                self._drain(admin, broker, must_stop)
        except Refused:
            raise
        except FairlaneError as error:
            raise Refused(f"broker {broker} was not drained: {error.cause}") from error
        except OSError as error:
            raise Refused(f"broker {broker} was not drained: its journal cannot be written: {error}.") from error

    def _drain(self, admin: BundleAdmin, broker: str, must_stop: Callable[[], bool]) -> None:
        facts = read_facts(admin)
        answered = facts.brokers()
        if broker not in answered:
            raise Refused(f"broker {broker} was not drained: it does not answer.")
        plan = plan_drain(pieces_of(facts.estate, Goal.BYTES), answered, broker)
        with journals_of(self._settings).run(SystemClock()) as run:
            window = MoveWindow(plan.moves, run.record, WindowSettings(at_once=AT_ONCE))
            progress = move_bundles(admin, window, facts, AT_ONCE, lambda: must_stop() or run.must_stop())
        reasons = {one.move.bundle: one.reason or one.state for one in progress if one.state != "verified"}
        reasons |= let_go(admin, facts.empty.get(broker, ()))
        if reasons:
            bundle, reason = next(iter(reasons.items()))
            raise Refused(f"broker {broker} has {len(reasons)} bundles left, {bundle} for one: {reason}")
