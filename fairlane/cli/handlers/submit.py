"""`fairlane task submit`: one task from options, or many from files."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from typing import Any

import click

from backends.system_clock import SystemClock
from dispatcher.channels.names import NO_CHANNEL, sends_nothing
from dispatcher.channels.submission.target_check import languages_text
from dispatcher.channels.submission.task_message import ignored_fields
from dispatcher.model.errors import FairlaneError
from dispatcher.model.pools import Cap
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from dispatcher.model.values import counted
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.exit_codes import FAILURE, OK
from fairlane.cli.base.json_option import read_object
from fairlane.cli.base.output import Output, say
from fairlane.cli.base.progress import submission
from fairlane.figures.rows import preview_fields, submission_fields
from producers.client import Audience, PushClient
from producers.files.duplicates import COUNTED
from producers.files.targets_file import TargetsFile
from producers.files.task_file import read_task_file
from producers.submit.intake import AudienceRules
from producers.submit.preview import preview
from producers.submit.report import SubmitResult

_TASK_FIELDS = {
    "id": "task_id", "expected_targets": "expected", "chunk": "chunk", "ttl_s": "ttl", "start_at": "at",
    "weight": "weight", "collapse": "collapse", "category": "category", "provider_ttl_s": "provider_ttl",
    "retry_for_s": "retry_for",
}  # fmt: skip
"""The argument of the command, by the field of the task that it gives."""


def submit(ctx: click.Context, /, output: Output, files: tuple[str, ...], **options: Any) -> None:
    if bool(files) == bool(options["targets"]):
        raise click.UsageError("Give either task FILEs, or --app and --targets for one task.")
    if bool(options["sample"]) + bool(options["target"]) > options["dry_run"]:
        raise click.UsageError("Give one of --sample and --target, and only with --dry-run.")
    jobs, results = _jobs(files, options), list[SubmitResult]()
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


def _jobs(files: tuple[str, ...], options: dict[str, Any]) -> list[tuple[PushTask, Audience]]:
    """Return all tasks, so that an error in one is reported before any is submitted."""
    if not files:
        return [(_task(options), TargetsFile(options["targets"], options["format"]))]
    return [
        (job.task, job.targets) for file in files for job in read_task_file(file, allow_empty=options["allow_empty"])
    ]


def _task(options: dict[str, Any]) -> PushTask:
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
    client: PushClient, task: PushTask, audience: Audience, rules: AudienceRules, channels: dict[str, Any]
) -> SubmitResult:
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
    output: Output, jobs: list[tuple[PushTask, Audience]], rules: AudienceRules, samples: int, target: str | None
) -> int:
    """Check the tasks with their whole audiences, show what would leave, and return the exit code."""
    previews = [preview(*job, SystemClock(), rules, samples=samples, target=target) for job in jobs]
    for each in previews if not output.as_json else ():
        for request in each.requests:
            headers = [f"{name}: {value}" for name, value in request.headers.items()]
            payload = json.dumps(request.payload, ensure_ascii=False, indent=2)
            click.echo("\n".join([f"target {request.target} {request.language}", *headers, payload, ""]))
    rows = [preview_fields(made) for made in previews]
    output.emit_rows(rows, ["id", "accepted", "refused", "duplicates", "envelopes"])
    for (task, audience), each in zip(jobs, previews, strict=True):
        _say_result(task.id or "the task", each.result, rules)
        languages = [f"{tag or 'without a locale'} {number:,}" for tag, number in each.languages.items()]
        ignored = ignored_fields(task.channel, task.complete_message)
        notes = [*getattr(audience, "notes", ()), *ignored, sends_nothing(task.channel), ", ".join(languages)]
        for note in filter(None, notes):
            say(f"{task.id or 'the task'}: {note}")
    is_found = target is None or any(each.requests for each in previews)
    say("nothing was submitted" + ("" if is_found else f"; {target} is not among the accepted targets"))
    return OK if is_found and not any(each.result.refused for each in previews) else FAILURE


def _say_result(name: str, result: SubmitResult, rules: AudienceRules) -> None:
    """Print what was refused, repeated, or has no text in its language."""
    for refusal in result.refusals:
        say(f"{name}: line {refusal.line} refused: {refusal.reason}")
    more = result.refused - len(result.refusals)
    if more > 0:
        say(f"{name}: {more:,} more targets were refused")
    for line in (*_duplicates(result, rules), *filter(None, (languages_text(result.without_text),))):
        say(f"{name}: {line}")


def _warn(warning: str) -> None:
    say(f"Warning: {warning}")


def _duplicates(result: SubmitResult, rules: AudienceRules) -> Iterator[str]:
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


def _fields(result: SubmitResult, *, unique: bool) -> dict[str, Any]:
    return submission_fields(result, counts_duplicates=unique or result.accepted <= COUNTED)
