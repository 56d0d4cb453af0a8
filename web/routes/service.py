"""The whole service over HTTP: settings, channels, apps, workers, signals. For operators."""

import time
from dataclasses import asdict
from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dispatcher.analysis.situation import job_of_view
from dispatcher.model.errors import InvalidInput, NotFound
from dispatcher.model.pools import Cap
from dispatcher.model.task import MAX_TARGETS
from dispatcher.model.tier import TIERS, Tier
from fairlane.figures.rows import signal_fields, worker_fields
from fairlane.figures.signals import ServiceState, SignalMeter
from fairlane.figures.usage import app_usage, channels
from producers.control.service_controls import ServiceControls
from producers.desk.board.groups import grouped
from web.routes.inputs import Input
from web.routing import Answer, Call, Route, rows

Count = Annotated[int, Meta(ge=0, le=MAX_TARGETS)]


class ServiceChanges(Input):
    """New settings; what is left out stays."""

    capacity: int | str | None = None
    """Targets/s, or "RATE:BURST", or "none"."""
    tiers: dict[str, float] | None = None
    """Weights of the tiers to be changed."""
    sharing: str | None = None
    """tasks or apps."""

    def make(self, service: ServiceControls) -> None:
        """Make the changes. Raises InvalidInput; NotReady if tiers are left out that the view does not know."""
        if self.capacity is not None:
            cap = Cap.of(self.capacity)
            service.set_capacity(cap.rate, cap.burst)
        if self.tiers is not None:
            if unknown := self.tiers.keys() - {*map(str, TIERS)}:
                raise InvalidInput(f"tiers: has {', '.join(sorted(unknown))}; the tiers are high, medium and low.")
            service.set_tiers(**self.tiers)
        if self.sharing is not None:
            service.set_sharing(self.sharing)


class ChannelChanges(Input):
    """New settings of a channel, or of one app on it."""

    cap: int | str | None = None
    paused: bool | None = None
    app: str | None = None
    """Change only what this app sends on the channel."""
    for_s: float | None = None
    """How long the app is paused; null: until it is resumed."""
    reason: str = ""

    def make(self, channel: str, service: ServiceControls) -> None:
        """Make the changes of a channel. Raises InvalidInput."""
        if self.app is None and (self.for_s is not None or self.reason):
            raise InvalidInput("Only the pause of one app has an end and a reason.", "Name the app.")
        if self.cap is not None and self.app is None:
            service.cap_channel(channel, Cap.of(self.cap))
        elif self.cap is not None:
            service.cap_app(str(self.app), Cap.of(self.cap), channel)
        if self.paused is not None and self.app is None:
            service.pause_channel(channel, paused=self.paused)
        elif self.paused:
            service.pause_flow(channel, str(self.app), self.for_s, self.reason)
        elif self.paused is not None:
            service.resume_flow(channel, str(self.app))


class PolicyChanges(Input):
    """Bounds of an app's keys to be changed."""

    channels: list[str] | UnsetType = UNSET
    tier: Tier | UnsetType = UNSET
    weight: float | UnsetType = UNSET
    targets: int | UnsetType = UNSET
    ttl_s: float | UnsetType = UNSET
    requests_s: int | UnsetType = UNSET


class AppChanges(Input):
    """New settings of an app."""

    cap: int | str | None = None
    weight: float | None = None
    tasks: Count | None = None
    """Maximum number of live tasks; 0: any."""
    targets: Count | None = None
    """Maximum number of queued targets; 0: any."""
    policy: PolicyChanges | None = None

    def make(self, app: str, service: ServiceControls) -> None:
        """Make the changes of an app, but for those of its policy. Raises InvalidInput."""
        if self.cap is not None:
            service.cap_app(app, Cap.of(self.cap))
        if self.weight is not None:
            service.weigh_app(app, self.weight)
        if self.tasks is not None or self.targets is not None:
            service.limit_app(app, self.tasks, self.targets)


def show_service(call: Call) -> Answer:
    settings = call.desks.service.client("service.show").globals()
    shown = {"capacity": settings.capacity, "capacity_burst": settings.burst, "tiers": settings.tier_weights}
    return Answer({**shown, "sharing": settings.sharing})


def set_service(call: Call) -> Answer:
    call.desks.service.client("service.set").change_service(call.body.make)
    return show_service(call)


def show_channel(call: Call) -> Answer:
    desk, name = call.desks.service, call.path["channel"]
    client, groups = desk.client("channel.show"), grouped(desk.live("channel.show"))
    found = [usage for usage in channels(client.globals(), groups, client.cap_states()) if usage.channel == name]
    if not found:
        raise NotFound(f"There is no channel {name} in any live task or setting.")
    return Answer(asdict(found[0]))


def set_channel(call: Call) -> Answer:
    given, name = call.body, call.path["channel"]
    call.desks.service.client("channel.set").change_service(partial(given.make, name))
    return show_channel(call) if given.app is None else Answer({"channel": name, "app": given.app})


def show_app(call: Call) -> Answer:
    desk, name = call.desks.service, call.path["app"]
    client, tasks = desk.client("app.show"), [task for task in desk.live("app.show") if task.app == name]
    usage = asdict(app_usage(name, client.globals(), list(grouped(tasks))))
    return Answer({**usage, "policy": msgspec.structs.asdict(client.access.policy(name))})


def set_app(call: Call) -> Answer:
    given, name, client = call.body, call.path["app"], call.desks.service.client("app.set")

    def change(service: ServiceControls) -> None:
        given.make(name, service)
        if given.policy is not None:
            service.set_policy(name, client.access.policy_with(name, msgspec.to_builtins(given.policy)))

    client.change_service(change)
    return show_app(call)


def list_workers(call: Call) -> Answer:
    now_ms, beats = int(time.time() * 1000), call.desks.service.client("workers.list").workers()
    return rows((beat for beat in beats if beat.state != "stopped"), partial(worker_fields, now_ms=now_ms))


def show_signals(call: Call) -> Answer:
    desk, now_s = call.desks.service, time.time()
    client = desk.client("signals.show")
    client.check_counts()
    jobs = [job_of_view(task, int(now_s * 1000)) for task in desk.live("signals.show")]
    return Answer(signal_fields(SignalMeter().take(ServiceState(now_s, jobs, client.globals(), client.workers()))))


ROUTES = (
    Route(method="GET", path="/v1/service", action="service.show", handle=show_service),
    Route(method="PATCH", path="/v1/service", action="service.set", handle=set_service, body=ServiceChanges),
    Route(method="GET", path="/v1/channels/{channel}", action="channel.show", handle=show_channel),
    Route(method="PATCH", path="/v1/channels/{channel}", action="channel.set", handle=set_channel, body=ChannelChanges),
    Route(method="GET", path="/v1/apps/{app}", action="app.show", handle=show_app),
    Route(method="PATCH", path="/v1/apps/{app}", action="app.set", handle=set_app, body=AppChanges),
    Route(method="GET", path="/v1/workers", action="workers.list", handle=list_workers),
    Route(method="GET", path="/v1/signals", action="signals.show", handle=show_signals),
)
