"""Moves of bundles of one cluster, for `estate balance` and `drain` and for the guard."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from dispatcher.model.errors import NotFound, Refused, Unreachable
from estate.facts.bundles import BundleAdmin
from estate.moves.facts import MoveFacts, facts_of, unmeasured_namespaces
from estate.moves.logs import MoveLogs
from estate.moves.runner import AT_ONCE, MoveProgress, MoveRunner, MoveState, move_bundle
from estate.plans.balance import Goal, Move, MovePlan, plan_drain
from fairlane.settings import Settings


@dataclass(frozen=True)
class Drained:
    """A drain of a broker, planned or carried out."""

    plan: MovePlan
    empty: Sequence[str]
    """Bundles without topics, which are unloaded to nobody."""
    progress: Sequence[MoveProgress] | None = None
    """None if it is only planned."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Why empty bundles were not unloaded, by bundle."""


@dataclass(frozen=True)
class Mover:
    """Moves bundles. Every method may raise Unreachable and Refused."""

    admin: BundleAdmin
    logs: MoveLogs

    def read(self, wanted: Collection[str] = ()) -> MoveFacts:
        """Return the bundles of all brokers, with the topics to look each up by.

        wanted: bundles whose topics are also looked for if no broker owns them now.
        """
        answers = self.admin.read()
        return facts_of(answers, self.admin.topics(unmeasured_namespaces(answers, wanted)), wanted)

    def carry_out(
        self,
        moves: Sequence[Move],
        facts: MoveFacts,
        at_once: int = AT_ONCE,
        must_stop: Callable[[], bool] = lambda: False,
        *,
        logged: bool = True,
    ) -> list[MoveProgress]:
        """Carry out moves. Those that were begun are finished if it is interrupted, and the error says how to undo.

        logged: whether the run can be undone; one that undoes another is not.
        """
        topics = {bundle: tuple(topics) for bundle, topics in facts.topics.items()}
        attempt = partial(move_bundle, self.admin, topics, facts.brokers())
        with ExitStack() as run:
            stopped = run.enter_context(self.logs.run())
            record = run.enter_context(self.logs.log()) if logged else lambda _: None
            runner = MoveRunner(moves, attempt, at_once, record=record, must_stop=lambda: must_stop() or stopped())
            try:
                return runner.run()
            except KeyboardInterrupt as error:
                done = sum(each.state is MoveState.VERIFIED for each in runner.progress)
                fix = "`fairlane estate balance --undo` takes them back"
                error.add_note(f"{done} of {len(moves)} moves were made; {fix}.")
                raise

    def drain(
        self,
        facts: MoveFacts,
        broker: str,
        at_once: int = AT_ONCE,
        must_stop: Callable[[], bool] = lambda: False,
        *,
        dry_run: bool = False,
    ) -> Drained:
        """Move all bundles of a broker to the others, and unload those without topics, which nobody waits for."""
        plan = plan_drain(facts.bundles(Goal.BYTES), facts.brokers(), broker)
        empty = facts.empty(broker)
        if dry_run:
            return Drained(plan, empty)
        progress = self.carry_out(plan.moves, facts, at_once, must_stop)
        return Drained(plan, empty, progress, self._let_go(empty))

    def _let_go(self, bundles: Iterable[str]) -> dict[str, str]:
        reasons = {}
        for bundle in bundles:
            try:
                self.admin.let_go(bundle)
            except (Refused, Unreachable, NotFound) as error:
                reasons[bundle] = error.cause
        return reasons


def logs_of(settings: Settings) -> MoveLogs:
    return MoveLogs(settings.home_folder / "moves")


@contextmanager
def mover_of(settings: Settings) -> Iterator[Mover]:
    """Yield the mover of the configured cluster."""
    with BundleAdmin(settings.pulsar) as admin:
        yield Mover(admin, logs_of(settings))
