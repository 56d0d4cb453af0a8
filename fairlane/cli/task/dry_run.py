"""`fairlane task submit --dry-run`: counts, and the requests that would leave."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dispatcher.channels.names import sends_nothing
from fairlane.cli.base.output import Output, say

if TYPE_CHECKING:
    from dispatcher.model.task import PushTask
    from producers.client import Audience
    from producers.submit.intake import AudienceRules
    from producers.submit.preview import Preview, RequestPreview

COLUMNS = ("id", "accepted", "refused", "duplicates", "envelopes")


def dry_run(
    output: Output,
    jobs: "Sequence[tuple[PushTask, Audience]]",
    rules: "AudienceRules",
    *,
    samples: int,
    target: str | None,
) -> bool:
    """Check the tasks and their whole audiences, and show what would leave. Return whether nothing was refused and the
    target was found."""
    from backends.system_clock import SystemClock
    from producers.submit.preview import preview

    clock = SystemClock()
    previews = [preview(task, audience, clock, rules, samples=samples, target=target) for task, audience in jobs]
    output.emit_rows([_fields(one) for one in previews], COLUMNS)
    for (task, _), one in zip(jobs, previews, strict=True):
        if not output.as_json:
            for request in one.requests:
                click.echo(_text(request))
        _say(task, one)
    is_found = not target or any(one.requests for one in previews)
    if not is_found:
        say(f"{target} is not among the accepted targets")
    say("nothing was submitted")
    return is_found and not any(one.refused for one in previews)


def _fields(one: "Preview") -> dict[str, Any]:
    return {
        "id": one.task,
        "accepted": one.accepted,
        "refused": one.refused,
        "duplicates": one.duplicates,
        "envelopes": one.envelopes,
        "languages": dict(one.languages),
        "requests": [{name: getattr(each, name) for name in each.__slots__} for each in one.requests],
    }


def _say(task: "PushTask", one: "Preview") -> None:
    from dispatcher.channels.specs import SPECS
    from dispatcher.channels.submission.target_check import languages_text

    name = one.task or "the task"
    for refusal in one.refusals:
        say(f"{name}: line {refusal.line} refused: {refusal.reason}")
    if one.refused > len(one.refusals):
        say(f"{name}: {one.refused - len(one.refusals):,} more targets are refused")
    if one.languages:
        counts = ", ".join(f"{tag or 'without a locale'} {number:,}" for tag, number in one.languages.items())
        say(f"{name}: targets by language: {counts}")
    own = "" if not one.requests or task.channel in SPECS else f"channel {task.channel} makes its own requests of these"
    for text in (languages_text(one.without_text), own, sends_nothing(task.channel)):
        if text:
            say(f"{name}: {text}")


def _text(request: "RequestPreview") -> str:
    """Return a request as text: the target, its headers, its payload."""
    language = f", language {request.language}" if request.language else ""
    headers = [f"{name}: {value}" for name, value in request.headers.items()]
    payload = json.dumps(request.payload, ensure_ascii=False, indent=2)
    return "\n".join([f"\ntarget {request.target}{language}", *headers, payload])
