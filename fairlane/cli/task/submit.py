"""`fairlane task submit`: one task from options, or many from files."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from dispatcher.channels.names import NO_CHANNEL, sends_nothing
from dispatcher.model.errors import FairlaneError
from dispatcher.model.pools import Cap
from dispatcher.model.tier import Tier
from dispatcher.model.values import counted
from fairlane.cli.base.arguments import DURATION, TIME
from fairlane.cli.base.completion import app_names, channel_names
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.exit_codes import FAILURE, OK
from fairlane.cli.base.json_option import read_object
from fairlane.cli.base.output import Output, output_option, say

if TYPE_CHECKING:
    from dispatcher.model.task import PushTask
    from producers.client import Audience, PushClient
    from producers.submit.intake import AudienceRules
    from producers.submit.report import SubmitResult

_TASK_FIELDS = {
    "id": "task_id", "expected_targets": "expected", "chunk": "chunk", "ttl_s": "ttl", "start_at": "at",
    "weight": "weight", "collapse": "collapse", "category": "category", "provider_ttl_s": "provider_ttl",
    "retry_for_s": "retry_for",
}  # fmt: skip
"""The argument of the command, by the field of the task that it gives."""


@click.command()
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@click.option("--id", "task_id", help="Id of the task; submitting it again with the same targets is safe.")
@click.option("--app", help="The app that owns the task.", shell_complete=app_names)
@click.option("--tier", type=click.Choice([str(tier) for tier in Tier]), default="medium", help="How urgent it is.")
@click.option(
    "--channel",
    shell_complete=channel_names,
    help="Channel that delivers it: fcm, apns, http or your own; for trials log or null, which send nothing.",
)
@click.option("--title", help="Title of the message.")
@click.option("--body", help="Body of the message.")
@click.option("--collapse", metavar="TEXT", help="A device shows only the last message with the same text here.")
@click.option("--category", metavar="NAME", help="Notification channel (Android) or category (APNs).")
@click.option(
    "--provider-ttl",
    type=DURATION,
    help="How long the provider keeps the message for an unreachable device.  [default: what is left of --ttl]",
)
@click.option(
    "--options", metavar="FILE|JSON", help='Further fields of the provider\'s message: {"fcm": {"android": {…}}}.'
)
@click.option(
    "--locales", metavar="FILE|JSON", help='Texts by language, chosen by a column `lang`: {"de": {"title": "Hallo"}}.'
)
@click.option(
    "--targets",
    metavar="FILE|-",
    help="CSV (a column `target` or `token`; other columns become variables), JSON (an array, or one value per line), "
    "or one target per line; - is standard input.",
)
@click.option(
    "--format",
    type=click.Choice(["auto", "csv", "json", "lines"]),
    default="auto",
    help="Format of --targets; `auto` decides by the name and the first line.",
)
@click.option("--unique", is_flag=True, help="Remove duplicate targets; takes 110 bytes of memory per target.")
@click.option("--allow-empty", is_flag=True, help="Allow a task without targets, which is refused otherwise.")
@click.option(
    "--expected",
    type=click.IntRange(0),
    help="Expected number of targets; decides the size of envelopes, and whether a small low task shares a lane.  "
    "[default: counted for a file]",
)
@click.option(
    "--chunk",
    type=click.IntRange(1, 500),
    help="Targets per envelope (one Pulsar message).  [default: chosen from tier and expected targets]",
)
@click.option("--ttl", type=DURATION, help="Targets not sent after this time expire: 90s, 1h, 2d.")
@click.option("--at", type=TIME, help="Start time: ISO 8601 (local time unless it names a zone), or +15m from now.")
@click.option("--weight", type=float, help="Relative share of capacity among the tasks of its tier.  [default: 1]")
@click.option("--cap", metavar="RATE[:BURST]", help="Rate limit of this task in targets/s, and the size of a burst.")
@click.option(
    "--unknown",
    type=click.Choice(["retry", "give_up"]),
    default="retry",
    show_default=True,
    help="What to do if the provider may have taken a target but did not answer: try it again (it may come twice), or "
    "let it fail.",
)
@click.option(
    "--retry-for",
    type=DURATION,
    help="Try a target again for at most this long after its first call; pauses do not count.  [default: no limit]",
)
@click.option("--hold", is_flag=True, help="Start sending only once all targets are stored.")
@click.option(
    "--first",
    type=click.IntRange(1),
    metavar="N",
    help="Send to the first N targets and wait for `fairlane task resume`. With --hold, start this only once all are "
    "stored.",
)
@click.option("--strict", is_flag=True, help="Refuse tasks whose channel no live worker serves; without it, only warn.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Create nothing: read and check the whole audience and print what would be accepted. Needs no server.",
)
@click.option(
    "--sample",
    type=click.IntRange(1, 1_000),
    metavar="N",
    help="With --dry-run: print the requests of the first N targets of each language, but for the credentials.",
)
@click.option("--target", metavar="T", help="With --dry-run: print the request of this target.")
@output_option
@click.pass_context
def submit(ctx: click.Context, /, output: Output, files: tuple[str, ...], **options: Any) -> None:
    """Submit tasks: from YAML or JSON FILEs, or one task from the options.

    A FILE has the fields of one task (id, app, tier, message, ttl_s, ..., targets), or a list of such under `tasks`.

    \b
    fairlane task submit examples/tasks.yaml
    fairlane task submit --app shop --tier high --channel fcm --title Hi --body "50 % off" --targets devices.csv
    fairlane task submit sale.yaml --dry-run --sample 1
    """
    if bool(files) == bool(options["targets"]):
        raise click.UsageError("Give either task FILEs, or --app and --targets for one task.")
    if bool(options["sample"]) + bool(options["target"]) > options["dry_run"]:
        raise click.UsageError("Give one of --sample and --target, and only with --dry-run.")
    from producers.submit.intake import AudienceRules

    jobs, results = _jobs(files, options), list["SubmitResult"]()
    rules = AudienceRules(options["allow_empty"], "remove" if options["unique"] else "count", options["first"])
    if options["dry_run"]:
        ctx.exit(_dry_run(output, jobs, rules, options["sample"] or 0, options["target"]))
    channels = {"strict": options["strict"], "on_warning": cache(_warn)}
    try:
        with client_of(ctx) as client:
            for task, audience in jobs:
                results.append(_submit(client, task, audience, rules, channels))
    finally:
        if results:  # includes results before a failed one
            rows = [_fields(result, unique=options["unique"]) for result in results]
            output.emit_rows(rows, ["id", "accepted", "refused", "seconds"])
    if any(result.refused or result.stopped for result in results):
        ctx.exit(FAILURE)


def _jobs(files: tuple[str, ...], options: dict[str, Any]) -> "list[tuple[PushTask, Audience]]":
    """Return all tasks, so that an error in one is reported before any is submitted."""
    from producers.files.task_file import read_task_file

    if not files:
        return [(_task(options), _targets(options))]
    return [
        (job.task, job.targets) for file in files for job in read_task_file(file, allow_empty=options["allow_empty"])
    ]


def _targets(options: dict[str, Any]) -> "Audience":
    from producers.files.targets_file import TargetsFile

    return TargetsFile(options["targets"], options["format"])


def _task(options: dict[str, Any]) -> "PushTask":
    from dispatcher.model.task import PushTask

    for name in ("app", "body"):
        if not options[name]:
            raise click.UsageError(f"A task needs --{name}.")
    if not options["channel"]:
        raise click.UsageError(f"--channel {NO_CHANNEL}.")
    message = {name: options[name] for name in ("title", "body") if options[name]}
    given = {field: options[name] for field, name in _TASK_FIELDS.items()}
    given |= {name: read_object(options[name], name) for name in ("options", "locales")}
    if options["cap"] is not None:
        cap = Cap.parse(options["cap"])
        given |= {"cap": cap.rate or None, "cap_burst": cap.burst or None}
    return PushTask(
        app=options["app"],
        tier=Tier(options["tier"]),
        channel=options["channel"],
        message=message,
        hold_until_sealed=options["hold"],
        unknown=options["unknown"],
        **{name: value for name, value in given.items() if value is not None},
    )


def _submit(
    client: "PushClient", task: "PushTask", audience: "Audience", rules: "AudienceRules", channels: dict[str, Any]
) -> "SubmitResult":
    from fairlane.cli.base.progress import submission

    if task.start_at is not None and task.start_at > datetime.now(UTC):  # a start too far in the past is refused
        say(f"{task.id or 'the task'} starts at {task.start_at.isoformat(timespec='seconds')}")
    for note in getattr(audience, "notes", ()):
        _warn(note)
    with submission(task, audience) as on_progress:
        handle = client.submit(task, audience, on_progress=on_progress, **asdict(rules), **channels)
    if handle.result is None:
        raise FairlaneError(f"Task {handle.id} was submitted without a result.", "Report this as a defect.")
    _say_result(handle.id, handle.result, rules)
    if rules.first is not None:
        first = counted(rules.first, "target")
        say(f"{handle.id}: only the first {first} will be sent until `fairlane task resume {handle.id}`")
    if handle.result.stopped:
        say(f"{handle.id} was {handle.result.stopped} during the submission: its remaining targets were not accepted")
    return handle.result


def _dry_run(
    output: Output, jobs: "list[tuple[PushTask, Audience]]", rules: "AudienceRules", samples: int, target: str | None
) -> int:
    """Check the tasks with their whole audiences, show what would leave, and return the exit code."""
    from backends.system_clock import SystemClock
    from dispatcher.channels.submission.task_message import ignored_fields
    from producers.submit.preview import preview

    previews = [preview(*job, SystemClock(), rules, samples=samples, target=target) for job in jobs]
    for one in previews if not output.as_json else ():
        for request in one.requests:
            headers = [f"{name}: {value}" for name, value in request.headers.items()]
            payload = json.dumps(request.payload, ensure_ascii=False, indent=2)
            click.echo("\n".join([f"target {request.target} {request.language}", *headers, payload, ""]))
    rows = [
        _fields(one.result, unique=True)
        | {"languages": one.languages, "requests": [request._asdict() for request in one.requests]}
        for one in previews
    ]
    output.emit_rows(rows, ["id", "accepted", "refused", "duplicates", "envelopes"])
    for (task, audience), one in zip(jobs, previews, strict=True):
        _say_result(task.id or "the task", one.result, rules)
        languages = [f"{tag or 'without a locale'} {number:,}" for tag, number in one.languages.items()]
        ignored = ignored_fields(task.channel, task.complete_message)
        notes = [*getattr(audience, "notes", ()), *ignored, sends_nothing(task.channel), ", ".join(languages)]
        for note in filter(None, notes):
            say(f"{task.id or 'the task'}: {note}")
    is_found = target is None or any(one.requests for one in previews)
    say("nothing was submitted" + ("" if is_found else f"; {target} is not among the accepted targets"))
    return OK if is_found and not any(one.result.refused for one in previews) else FAILURE


def _say_result(name: str, result: "SubmitResult", rules: "AudienceRules") -> None:
    """Print what was refused, repeated, or has no text in its language."""
    from dispatcher.channels.submission.target_check import languages_text

    for refusal in result.refusals:
        say(f"{name}: line {refusal.line} refused: {refusal.reason}")
    more = result.refused - len(result.refusals)
    if more > 0:
        say(f"{name}: {more:,} more targets were refused")
    for line in (*_duplicates(result, rules), *filter(None, (languages_text(result.without_text),))):
        say(f"{name}: {line}")


def _warn(warning: str) -> None:
    say(f"Warning: {warning}")


def _duplicates(result: "SubmitResult", rules: "AudienceRules") -> Iterator[str]:
    from producers.files.duplicates import COUNTED

    duplicates = result.duplicates or 0
    if rules.duplicates == "remove":
        if duplicates:
            yield f"removed {counted(duplicates, 'duplicate')}"
        return
    beyond = result.accepted > COUNTED
    if duplicates:
        among = f" among its first {COUNTED:,} targets" if beyond else ""
        yield f"{counted(duplicates, 'duplicate')}{among}, sent again; --unique removes them"
    elif beyond:
        yield f"duplicates are not counted beyond the first {COUNTED:,} targets; --unique removes them"


def _fields(result: "SubmitResult", *, unique: bool) -> dict[str, Any]:
    from producers.files.duplicates import COUNTED

    return {
        "id": result.task,
        "accepted": result.accepted,
        "refused": result.refused,
        "duplicates": result.duplicates if unique or result.accepted <= COUNTED else None,
        "envelopes": result.envelopes,
        "stopped": result.stopped,
        "seconds": round(result.seconds, 3),
    }
