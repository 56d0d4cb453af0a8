"""The channels `fcm` and `apns`: a sender per app, behind one gate."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from backends.extras import require_packages
from backends.system_clock import SystemClock
from consumers.delivery.channel_registry import ChannelContext
from consumers.delivery.fleet_gate import BLAMED, FleetGate
from consumers.delivery.push import access
from consumers.delivery.push.access import AppAccess
from consumers.delivery.push.apns import ApnsProvider
from consumers.delivery.push.connections import Connections, make_connections
from consumers.delivery.push.credentials import Credential, CredentialSource
from consumers.delivery.push.fcm import FcmProvider
from consumers.delivery.push.provider import Provider
from consumers.delivery.push.sender import WAITS_S, CallRun, Sender
from consumers.delivery.settings import PushApp
from dispatcher.channels.calls import ProviderCall
from dispatcher.channels.guards.trouble import RECHECKED_AFTER_S, Trouble
from dispatcher.model.errors import FairlaneError
from dispatcher.model.flow_pause import PauseKind

BUSY = 4
"""Targets in the channel for each request that may be under way. With 2, a worker had 700 of 1,000 under way: the next
batch came too late."""


class PushChannel:
    """See TargetChannel. One request per target, over connections that each app has for itself."""

    batch_limit = 100

    def __init__(self, settings: Mapping[str, Any], provider: type[Provider]) -> None:
        """Raises InvalidInput, and Missing without fairlane[push]."""
        require_packages("push", "pycurl", "certifi")
        self.name = str(settings["name"])
        self._settings = provider.settings.read(settings)
        self.timeout_s = self._settings.timeout_s
        self.concurrency = self._settings.concurrency
        self._providers = {app: provider(app_settings) for app, app_settings in self._settings.apps.items()}
        self.busy_targets = BUSY * max(map(self._max_requests, self._providers), default=1)
        """Targets that keep an app busy."""
        clock = SystemClock()
        self._context = ChannelContext(clock, FleetGate(clock))
        self._senders: dict[str, Sender] = {}
        self._threads = ThreadPoolExecutor(max(1, len(self._providers)), f"credentials of {self.name}")
        self._watching: asyncio.Task[None] | None = None

    def use(self, context: ChannelContext) -> None:
        """Use this clock and this gate. Called before `open`."""
        self._context = context

    async def open(self) -> None:
        """Prepare the apps. What is wrong with one app's settings is no trouble of the others, so it is told when the
        app sends; a reference without a known scheme is refused at once."""
        for app, settings in self._settings.apps.items():
            try:
                self._add(app, settings)
            except FairlaneError as error:
                raise type(error)(f"channels.{self.name}.apps.{app}: {error.cause}", error.next_step) from error
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def deliver_targets(self, call: ProviderCall) -> None:
        """See TargetChannel.deliver_targets. All envelopes of a call are of one app."""
        app = call.envelopes[0].envelope.app
        sender = self._senders.get(app)
        if sender is None:
            await self._refuse(call, app)
            return
        latest_s = call.deadline_s - self._settings.request_timeout_s
        await CallRun(sender, self._context.gate, call, latest_s).run()

    async def close(self) -> None:
        """Close all connections."""
        if self._watching is not None:
            self._watching.cancel()
        for sender in self._senders.values():
            await sender.access.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _watch(self) -> None:
        """Look at the credentials of apps that are paused for them: no call does, and new ones end the pause."""
        while True:
            await asyncio.sleep(access.CHECKED_EVERY_S)
            for sender in self._senders.values():
                closed = self._context.gate.closed(sender.flow)
                if closed is not None and closed.kind in BLAMED:
                    sender.access.look()

    def _max_requests(self, app: str) -> int:
        """Return how many requests of an app may be under way at once."""
        settings, provider = self._settings.apps[app], self._providers[app]
        return (settings.connections or provider.connections) * (settings.streams or provider.streams)

    def _add(self, app: str, settings: PushApp) -> None:
        provider = self._providers[app]
        source = CredentialSource(settings.credentials.get_secret_value())
        timeout_s, context = self._settings.request_timeout_s, self._context

        def connect(credential: Credential) -> Connections:
            return make_connections(provider, settings, provider.certificate(credential), timeout_s)

        def renewed(version: str) -> None:
            context.gate.renewed(self._senders[app].flow, version)

        app_access = AppAccess(
            provider=provider,
            source=source,
            connect=connect,
            clock=context.clock,
            threads=self._threads,
            renewed=renewed,
        )
        self._senders[app] = Sender(
            self.name,
            app,
            provider,
            app_access,
            context.clock,
            gate=context.gate,
            message_refused=context.message_refused,
            figures=context.figures.of(self.name, app, self._max_requests(app)),
            keeps_ids=self._settings.keep_ids,
        )

    async def _refuse(self, call: ProviderCall, app: str) -> None:
        """Return the targets of an app without settings."""
        reason = (
            f"The channel {self.name} has no settings for the app {app}. "
            f"Add [channels.{self.name}.apps.{app}] to the workers' settings and restart them."
        )
        trouble = Trouble(
            channel=self.name, app=app, kind=PauseKind.CREDENTIALS, for_s=RECHECKED_AFTER_S, reason=reason
        )
        self._context.gate.report(trouble)
        await asyncio.sleep(WAITS_S)
        for results in call.envelopes:
            results.report_unstarted(trouble.put_off)


def fcm_channel(settings: Mapping[str, Any]) -> PushChannel:
    """Return the channel `fcm`. Raises InvalidInput and Missing."""
    return PushChannel(settings, FcmProvider)


def apns_channel(settings: Mapping[str, Any]) -> PushChannel:
    """Return the channel `apns`. Raises InvalidInput and Missing."""
    return PushChannel(settings, ApnsProvider)
