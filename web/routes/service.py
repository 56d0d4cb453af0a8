"""The whole service over HTTP: settings, channels, apps, workers, signals. For operators."""

import time
from dataclasses import asdict
from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dispatcher.access.app_policy import AppPolicy
from dispatcher.analysis.situation import job_of_view
from dispatcher.model.errors import InvalidInput, NotFound
from dispatcher.model.pools import Cap
from dispatcher.model.task import MAX_TARGETS
from dispatcher.model.tier import Tier
from fairlane.figures.rows import signal_fields, worker_fields
from fairlane.figures.signals import ServiceState, SignalMeter
from fairlane.figures.usage import app_usage, channels
from producers.control.service_controls import ServiceControls
from producers.desk.operator_desk import Change
from web.routes.inputs import Input
from web.routing import Answer, Call, Route

Count = Annotated[int, Meta(ge=0, le=MAX_TARGETS)]


class ServiceChanges(Input):
    """New settings; what is left out stays."""

    capacity: int | str | None = None
    """Targets/s, or "RATE:BURST", or "none"."""
    tiers: dict[str, float] | None = None
    """Weights of the tiers to be changed."""
    sharing: str | None = None
    """tasks or apps."""


class ChannelChanges(Input):
    """New settings of a channel, or of one app on it."""

    cap: int | str | None = None
    paused: bool | None = None
    app: str | None = None
    """Change only what this app sends on the channel."""
    for_s: float | None = None
    """How long the app is paused; null: until it is resumed."""
    reason: str = ""


class PolicyChanges(Input):
    """Bounds of an app's keys to be changed."""

    like: ClassVar[type] = AppPolicy
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


def show_service(call: Call) -> Answer:
    settings = call.desks.service.service()
    return Answer(
        {
            "capacity": settings.capacity,
            "capacity_burst": settings.burst,
            "tiers": settings.tier_weights,
            "sharing": settings.sharing,
        }
    )


def set_service(call: Call) -> Answer:
    given: ServiceChanges = call.body
    before = call.desks.service.service()
    changes = list[Change]()
    if given.capacity is not None:
        cap = _cap(given.capacity)
        changes.append(lambda service: service.set_capacity(cap.rate, cap.burst))
    if given.tiers is not None:
        weights = {**before.tier_weights, **given.tiers}
        if unknown := given.tiers.keys() - before.tier_weights.keys():
            raise InvalidInput(f"tiers: has {', '.join(sorted(unknown))}; the tiers are high, medium and low.")
        changes.append(lambda service: service.set_tiers(**weights))
    if given.sharing is not None:
        changes.append(lambda service: service.set_sharing(given.sharing or ""))
    call.desks.service.set_service(_all(changes))
    return show_service(call)


def show_channel(call: Call) -> Answer:
    work, name = call.desks.service.channel_work(), call.path["channel"]
    found = [usage for usage in channels(work.settings, work.tasks, work.states) if usage.channel == name]
    if not found:
        raise NotFound(f"There is no channel {name} in any live task or setting.")
    return Answer(asdict(found[0]))


def set_channel(call: Call) -> Answer:
    given, name = call.body, call.path["channel"]
    changes = list[Change]()
    if given.cap is not None:
        cap = _cap(given.cap)
        cap_it: Change = (
            (lambda service: service.cap_channel(name, cap))
            if given.app is None
            else (lambda service: service.cap_app(given.app, cap, name))
        )
        changes.append(cap_it)
    if given.paused is not None:
        changes.append(lambda service: _pause(service, name, given))
    call.desks.service.set_channel(_all(changes))
    return show_channel(call) if given.app is None else Answer({"channel": name, "app": given.app})


def _pause(service: ServiceControls, channel: str, given: ChannelChanges) -> None:
    if given.app is None:
        service.pause_channel(channel, paused=bool(given.paused))
    elif given.paused:
        service.pause_flow(channel, given.app, given.for_s, given.reason)
    else:
        service.resume_flow(channel, given.app)


def show_app(call: Call) -> Answer:
    desk, name = call.desks.service, call.path["app"]
    work = desk.app_work()
    usage = app_usage(name, work.settings, [task for task in work.tasks if task.app == name])
    return Answer({**asdict(usage), "policy": msgspec.structs.asdict(desk.policy(name))})


def set_app(call: Call) -> Answer:
    given, name, desk = call.body, call.path["app"], call.desks.service
    changes = list[Change]()
    if given.cap is not None:
        cap = _cap(given.cap)
        changes.append(lambda service: service.cap_app(name, cap))
    if given.weight is not None:
        changes.append(lambda service: service.weigh_app(name, given.weight))
    if given.tasks is not None or given.targets is not None:
        changes.append(lambda service: service.limit_app(name, given.tasks, given.targets))
    if changes or given.policy is None:
        desk.set_app(_all(changes))
    if given.policy is not None:
        desk.set_policy(name, msgspec.to_builtins(given.policy))
    return show_app(call)


def list_workers(call: Call) -> Answer:
    now_ms = int(time.time() * 1000)
    rows = [worker_fields(beat, now_ms) for beat in call.desks.service.workers() if beat.state != "stopped"]
    return Answer({"rows": rows, "more": False})


def show_signals(call: Call) -> Answer:
    work, now_s = call.desks.service.signal_work(), time.time()
    jobs = [job_of_view(task, int(now_s * 1000)) for task in work.tasks]
    return Answer(signal_fields(SignalMeter().take(ServiceState(now_s, jobs, work.settings, work.workers))))


def _cap(given: int | str) -> Cap:
    return Cap.parse(given) if isinstance(given, str) else Cap(given).checked()


def _all(changes: list[Change]) -> Change:
    """Return one change that makes all. Raises InvalidInput if there is none."""
    if not changes:
        raise InvalidInput("There is nothing to change.", "Name at least one setting.")

    def make(service: ServiceControls) -> None:
        for change in changes:
            change(service)

    return make


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
