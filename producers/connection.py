"""Assemble a client: Pulsar, Redis, and the services a submission needs of them."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from backends.redis.epochs import REBUILD_STEP, Epochs
from backends.redis.guard_states import GuardStates
from backends.redis.letter_index import LetterIndex
from backends.redis.registry.access import AccessTable
from backends.redis.registry.audit import AuditTable
from backends.redis.registry.figures import FigureTable
from backends.redis.registry.registry import Registry
from backends.redis.registry.sessions import SessionTable
from backends.redis.view import open_view
from backends.redis.workers import JobLocks, Workers
from backends.settings import ConnectionSettings, require_addresses
from backends.system_clock import SystemClock
from dispatcher.access.principal import NOBODY, Caller
from dispatcher.model.errors import NotReady, Unreachable
from dispatcher.model.flow_pause import FlowPause
from dispatcher.model.pools import CapState
from dispatcher.model.task import PushTask
from dispatcher.model.view_home import held_elsewhere
from producers.control.foresight import Foresight
from producers.control.known_tasks import KnownTasks, without_redis
from producers.fold_watch import FoldWatch
from producers.outcomes.dead_letters import DeadLetterBox
from producers.outcomes.record import TargetFilter, TargetRecord
from producers.outcomes.recorded import failures, invalid_targets, latest, outcomes
from producers.outcomes.replay import LetterRecords, Replays, Submit
from producers.owner import OwnerProcess
from producers.ports import Services
from producers.submit.channel_check import ChannelCheck
from quotas.ledger import read_cap_states

if TYPE_CHECKING:
    from producers.pulsar_connection import PulsarConnection


class Connection:
    """The connections of a client. Each server is connected to on first use: reading tasks needs Redis only.

    It may be created before a fork, and the Redis client survives a fork. Only the process that connected to Pulsar can
    use Pulsar.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        """Raise NotConfigured if no Redis address is set; the error also names the other missing settings."""
        if settings.redis.url is None:
            require_addresses(settings.pulsar, settings.redis)
        self._settings = settings
        self._view = open_view(settings.redis, must_run=False)
        self._lock = threading.RLock()
        self._opened = ExitStack()
        self._pulsar: PulsarConnection | None = None
        self._pulsar_owner: OwnerProcess | None = None
        self._services: Services | None = None
        self.registry = Registry(self._view)
        self.access = AccessTable(self._view)
        self.sessions = SessionTable(self._view)
        self.audit = AuditTable(self._view)
        self.figures = FigureTable(self._view)
        self.locks = JobLocks(self._view)
        self.epochs = Epochs(self._view)
        self.guarded = GuardStates(self._view)
        self.folds = FoldWatch(self._view, settings.pulsar, SystemClock())
        self.known_tasks = KnownTasks(self.registry.tasks, self.epochs)
        self.workers = Workers(self._view)
        self.channels = ChannelCheck(self.workers.workers)
        self.foresight = Foresight(self.registry, self.workers)

    def services(self, caller: Caller = NOBODY) -> Services:
        """Return the services for submissions and changes, which are made in the caller's name.

        Raises as check_form, Unreachable if Pulsar does not answer, NotFound if it is not provisioned, Refused after a
        fork or `close`, NotConfigured.
        """
        self._check_usable()
        with self._lock:
            if self._services is None:
                self.check_form()
                self.check_home()
                self._services = self._connected().services(self.registry, self.epochs)
            return self._services if caller == NOBODY else replace(self._services, caller=caller)

    def check_form(self) -> None:
        """Raise Refused or NotReady if workers of another version keep the view.

        Return normally if Redis cannot be reached: calls that need Redis report that themselves.
        """
        with suppress(Unreachable):
            self.epochs.check_form()

    def check_home(self) -> None:
        """Raise Refused if another Redis holds the view.

        Workers note this in Redis; if no worker is running, the control topic is read. Return normally if Redis cannot
        be reached. Raises Unreachable if Pulsar does not answer.
        """
        try:
            self.epochs.check_home()
            if any(beat.is_live for beat in self.workers.workers()):
                return
            epoch, after = self.epochs.epoch(), self.registry.control.cursor()
        except Unreachable:
            return
        records = self._connected().earlier_views(epoch.id if epoch else "", after)
        if records.is_elsewhere(self._view.address) and not (epoch and epoch.adopted):
            raise held_elsewhere(records.address, self._view.address)

    def now_ms(self) -> int:
        """Return Redis' time; this machine's if Redis is gone."""
        return without_redis(self.registry.service.now_ms, SystemClock().wall_ms)

    def flow_entries(self) -> Mapping[str, FlowPause]:
        """Return the last entry of each flow; as the control topic has it if Redis is gone or its view incomplete.
        Raises as `services`."""
        with suppress(Unreachable):
            was_complete, entries = self.epochs.ready(), self.registry.service.flow_entries()
            if was_complete and self.epochs.ready():
                return entries
        return self.services().known.stored_flows()

    def tier_weights(self) -> Mapping[str, float]:
        """Return the weights of the tiers. Raises NotReady while the view is empty or being rebuilt: it lacks them."""
        was_complete, weights = self.epochs.ready(), self.registry.service.globals().tier_weights
        if not (was_complete and self.epochs.ready()):
            raise NotReady(
                "The view in Redis is not complete, so the weights of the other tiers are not known.",
                f"Name all three tiers. {REBUILD_STEP}",
            )
        return weights

    def failures(self, task: str) -> Iterator[TargetRecord]:
        """Return the task's failed targets so far. Nothing is read while its counts show none. Raises as `services`."""
        view = self.known_tasks.task(task)
        if not self.epochs.ready():  # its counts are too low
            connected = self._connected()
            return failures(connected.letters(view), connected.outcomes(view), task)
        if not view.targets.failed and not view.targets.invalid:
            return iter(())
        connected, spans = self._connected(), LetterIndex(self._view).spans(task)
        letters = connected.letters(view, spans) if spans or view.targets.failed else ()
        return failures(letters, connected.outcomes(view), task, view.targets.invalid)

    def outcomes(self, task: str, target: str | None = None) -> Iterator[TargetRecord]:
        """Return the final outcomes of the task's targets so far, or those of one. Raises as `services`."""
        return outcomes(self._connected().outcomes(self.known_tasks.task(task)), task, target)

    def cap_states(self) -> dict[str, CapState]:
        """Return the state of the caps of flows and quota groups, by pool. Raises Unreachable."""
        pools = [pool for pool in self.registry.service.globals().caps if pool.startswith(("app_channel/", "quota/"))]
        return read_cap_states(self._view, pools)

    def dead_letters(self, submit: Submit, caller: Caller) -> DeadLetterBox:
        """Return the dead letters. submit: for the tasks that send them again."""

        def letters() -> LetterRecords:
            return self._connected().dead_letters()

        return DeadLetterBox(
            letters,
            self.registry.tasks,
            lambda: Replays(letters(), SystemClock(), submit, self._definition, caller, self.audit.keep_mark),
            LetterIndex(self._view).set_counts,
        )

    def invalid_targets(self, chosen: TargetFilter, *, repeats: bool) -> Iterator[TargetRecord]:
        """Return the feed of invalid targets, each once or as often as it was reported, without those that are
        doubted, as their flow was suspected. Raises as `services`."""
        targets = invalid_targets(self._connected().all_outcomes(chosen.since_ms), chosen, self.flow_entries())
        return targets if repeats else latest(targets)

    def _definition(self, task: str) -> PushTask:
        view = self.registry.tasks.task(task)
        return self._connected().definition(task, 0 if view is None else view.created_ms)

    def close(self) -> None:
        """Close the connections to both servers.

        In a forked child, Pulsar's client is left alone: it would wait for threads that the child does not have.
        """
        try:
            if self._pulsar_owner is None or self._pulsar_owner.is_this():
                with self._lock:
                    self._opened.close()
        finally:
            self._view.close()

    def _check_usable(self) -> None:
        """Raise Refused if the connection is closed or another process connected to Pulsar.

        This runs without the lock, which a thread may have held during the fork.
        """
        self._view.client.check()
        if self._pulsar_owner is not None:
            self._pulsar_owner.check()

    def _connected(self) -> "PulsarConnection":
        from producers.pulsar_connection import PulsarConnection  # Pulsar's clients take long to import

        self._check_usable()
        with self._lock:
            if self._pulsar is None:
                self._pulsar_owner = OwnerProcess()
                try:
                    self._pulsar = self._opened.enter_context(closing(PulsarConnection(self._settings)))
                except BaseException:
                    self._pulsar_owner = None
                    raise
            return self._pulsar
