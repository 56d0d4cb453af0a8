"""Show and change the settings of the whole service: capacity, tiers, channels, apps, quota groups."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from dispatcher.model.errors import NotFound
from dispatcher.model.pools import Cap, CapState
from dispatcher.model.values import duration
from dispatcher.model.view import Globals
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.output import Output, say
from fairlane.cli.handlers.effects import show_effects, situation
from fairlane.figures.usage import AppUsage, ChannelUsage, apps, channels, quotas
from producers.control.service_controls import ServiceControls
from producers.desk.board.groups import TaskGroup, grouped

CHANNEL_COLUMNS = ("channel", "paused", "paused_apps", "cap", "cap_burst", "tasks", "queued", "rate")
APP_COLUMNS = (
    *("app", "weight", "cap", "cap_burst", "channel_caps"),
    *("tasks", "task_limit", "queued", "target_limit", "rate"),
)
Read = Callable[[Globals, Iterable[TaskGroup], Mapping[str, CapState]], Sequence[AppUsage | ChannelUsage]]
"""Returns usages from the settings, the groups of live tasks and the states of caps."""


def change(
    ctx: click.Context, control: str, done: str, *, dry_run: bool, limit: int | None, output: Output, **given: Any
) -> None:
    """Change settings by a method of ServiceControls and print `done`, in which arguments stand in braces.

    With --dry-run only show what the change would do.
    """

    def make(service: ServiceControls) -> None:
        getattr(service, control)(**given)

    with client_of(ctx) as client:
        if not dry_run:
            lacks_redis = client.change_service(make)
            say("\n".join(filter(None, (done.format(**_words(given)), lacks_redis))))
            return
        before = situation(client)
        after = before._replace(settings=client.globals(after=make))
    show_effects(output, before, after, limit)


def _words(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a change as its message has them. `on`: the channel, if there is one."""
    words = {**given, "on": f" on channel {given['channel']}" if given.get("channel") else ""}
    if isinstance(given.get("cap"), Cap):
        words["cap"] = _cap_words(given["cap"]).replace("targets", f"{given.get('unit', 'target')}s")
    return words


def _cap_words(cap: Cap) -> str:
    if not cap.rate:
        return "no cap"
    return f"at most {cap.rate:,} targets/s" + (f", {cap.burst:,} at once" if cap.burst else "")


def set_capacity(ctx: click.Context, rate: Cap, **trial: Any) -> None:
    done = f"capacity {rate.rate:,} targets/s" if rate.rate else "capacity unlimited"
    done += f", {rate.burst:,} at once" if rate.burst else ""
    change(ctx, "set_capacity", done, targets_per_s=rate.rate, burst=rate.burst, **trial)


def set_tiers(ctx: click.Context, weights: tuple[tuple[str, str], ...], **trial: Any) -> None:
    try:
        given = {name: float(text) for name, text in weights}
    except ValueError as error:
        raise click.UsageError(f"A weight must be a number: {error}.") from None
    change(ctx, "set_tiers", " ".join(f"{name}={value:g}" for name, value in given.items()), **trial | given)


def pause_channel(
    ctx: click.Context, channel: str, app: str | None, for_s: float | None, reason: str | None, **trial: Any
) -> None:
    if app is not None:
        done = "app {app} paused on channel {channel}" + ("" if for_s is None else f" for {duration(for_s)}")
        change(ctx, "pause_flow", done, channel=channel, app=app, for_s=for_s, reason=reason or "", **trial)
    elif for_s is not None or reason:
        raise click.UsageError("--for and --reason need --app: only the pause of one app has an end and a reason.")
    else:
        change(ctx, "pause_channel", "channel {channel} paused", channel=channel, paused=True, **trial)


def resume_channel(ctx: click.Context, channel: str, app: str | None, *, confirm_dead: bool, **trial: Any) -> None:
    if app is not None:
        done = "app {app} resumed on channel {channel}"
        change(ctx, "resume_flow", done, channel=channel, app=app, confirm_dead=confirm_dead, **trial)
    elif confirm_dead:
        raise click.UsageError("--confirm-dead needs --app: only one app on a channel is suspected.")
    else:
        change(ctx, "pause_channel", "channel {channel} resumed", channel=channel, paused=False, **trial)


def limit_app(ctx: click.Context, app: str, tasks: int | None, targets: int | None) -> None:
    if tasks is None and targets is None:
        raise click.UsageError("Give --tasks, --targets or both.")
    with client_of(ctx) as client:
        client.limit_app(app, tasks=tasks, targets=targets)
    limits = {"tasks": tasks, "targets": targets}
    words = [
        f"{kind}={number:,}" if number else f"{kind}=none" for kind, number in limits.items() if number is not None
    ]
    say(f"app {app} limits: {' '.join(words)}")


def list_channels(ctx: click.Context, output: Output) -> None:
    rows = _usage(ctx, channels)
    # In the table, paused apps have only the kind of their pause.
    kinds = [{app: pause["kind"] for app, pause in row["paused_apps"].items()} for row in rows]
    shown = [row | {"paused_apps": paused} for row, paused in zip(rows, kinds, strict=True)]
    output.emit_rows(rows, CHANNEL_COLUMNS, ["cap_burst"], shown)


def list_apps(ctx: click.Context, output: Output) -> None:
    leaving = ("cap_burst", "task_limit", "target_limit", "channel_caps", "weight")
    output.emit_rows(_usage(ctx, apps), APP_COLUMNS, leaving)


def show_channel(ctx: click.Context, output: Output, channel: str) -> None:
    _show_usage(ctx, output, channels, "channel", channel)


def show_app(ctx: click.Context, output: Output, app: str) -> None:
    _show_usage(ctx, output, apps, "app", app)


def list_quotas(ctx: click.Context, output: Output) -> None:
    with client_of(ctx) as client:
        settings = client.globals()
    output.emit_rows(quotas(settings), ("name", "cap", "cap_burst", "unit", "apps"), ("cap_burst", "unit"))


def _usage(ctx: click.Context, read: Read) -> list[dict[str, Any]]:
    with client_of(ctx) as client:
        groups = grouped(client.live_tasks())
        return [asdict(usage) for usage in read(client.globals(), groups, client.cap_states())]


def _show_usage(ctx: click.Context, output: Output, read: Read, kind: str, name: str) -> None:
    """Show the app or channel with that name. `kind`: the field that has the name, and the command. Raises NotFound."""
    row = next((row for row in _usage(ctx, read) if row[kind] == name), None)
    if row is None:
        raise NotFound(f"There is no {kind} {name} in any live task or setting.", f"`fairlane {kind} list` shows all.")
    output.emit_record(row)
