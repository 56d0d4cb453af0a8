"""`fairlane ingest`: turn a table into a task."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from backends.settings import require_addresses
from dispatcher.model.errors import InvalidInput
from dispatcher.model.values import duration
from fairlane.cli.base.output import Output, say
from fairlane.screen.progress import progress_lines
from fairlane.settings import Settings
from producers.client import PushClient
from producers.submit.channel_check import ChannelCheck
from spark_jobs.cli.handlers.spark_session import spark_session, tables_of
from spark_jobs.cli.handlers.table_source import names_of, source_of, suppress_of
from spark_jobs.ingest import job
from spark_jobs.ingest.job import Ingested, IngestOptions
from spark_jobs.ingest.task import read_task
from spark_jobs.session.servers import values_of, values_without_servers
from spark_jobs.session.stage_progress import Progress
from spark_jobs.source.task_options import TaskOptions

_SHOWN_REASONS = 10


def ingest(
    settings: Settings,
    output: Output,
    taskfile: Path,
    *,
    dry_run: bool,
    strict: bool,
    master: str,
    memory: str,
    conf: Mapping[str, str],
    **given: Any,
) -> None:
    """Turn a table into a task, or with `dry_run` only say what would become of it."""
    if not dry_run:
        require_addresses(settings.pulsar, settings.redis)  # Spark takes seconds to start
    options = _options(settings, taskfile, given, needs_servers=not dry_run)
    if not dry_run and options.task.channel is not None:
        _check_channel(settings, options.task, strict=strict)
    with spark_session("fairlane ingest", master=master, memory=memory, conf=conf) as session:
        if dry_run:
            result = job.dry_run(session, options)
        else:
            with _bar(options.task.task) as on_progress:
                result = job.ingest(session, options, on_progress)
    _tell(result)
    output.emit_record({"tasks": ", ".join(result.tasks), **asdict(result.counts), "rejects": result.rejects})


def _check_channel(settings: Settings, task: TaskOptions, *, strict: bool) -> None:
    """Warn if no live worker has the channel, or it ignores a field. With `strict`, raise Refused without a worker."""
    message = None if task.split else task.push_task(task.task).complete_message
    with PushClient.connect(settings) as client:
        check = ChannelCheck(client.workers).check
        check(task.channel or "", strict=strict, on_warning=lambda text: say(f"Warning: {text}"), message=message)


def _options(settings: Settings, taskfile: Path, given: Mapping[str, Any], *, needs_servers: bool) -> IngestOptions:
    task = read_task(taskfile, values_of(settings) if needs_servers else values_without_servers(settings))
    audience = given["audience"] or task.audience
    if not audience:
        raise click.UsageError(f"Give the table: --audience PATH, or `targets` in {taskfile}.")
    source = source_of(audience, given, settings.storage)
    return IngestOptions(
        task=task.options,
        audience=source,
        tables=tables_of(settings, given["tables"]),
        suppress=suppress_of(source, given),
        invalid_targets=given["invalid_targets"],
        names=names_of(given),
        forms=_forms(settings.token_forms),
        max_refused=given["max_refused"],
    )


def _forms(forms: Mapping[str, str]) -> Mapping[str, str]:
    for channel, form in forms.items():
        try:
            re.compile(form)
        except re.error as error:
            raise InvalidInput(f"token_forms: the entry for {channel} is not a regular expression: {error}.") from None
    return forms


def _tell(result: Ingested) -> None:
    for each in result.lists:
        say(f"suppress list {each}")
    reasons = sorted(result.reasons.items(), key=lambda item: -item[1])
    for reason, count in reasons[:_SHOWN_REASONS]:
        say(f"{count:,} left out: {reason}")
    if len(reasons) > _SHOWN_REASONS:
        say(f"and {len(reasons) - _SHOWN_REASONS} more reasons; see the rejects")


@contextmanager
def _bar(task: str) -> Iterator[Callable[[Progress], None]]:
    """Show the done parts of the present stage, rows/s, and the time left; without a terminal nothing is shown."""
    with progress_lines() as bar:
        line = bar.add_task(f"{task}: starting", figures="", total=None)

        def show(now: Progress) -> None:
            what = "reading" if now.stage <= 1 else "writing"
            total = now.parts or None
            bar.update(
                line, description=f"{task}: {what}", completed=now.parts_done, total=total, figures=figures_of(now)
            )

        yield show


def figures_of(now: Progress) -> str:
    """Return rows, rate and time left, as far as they are known."""
    rate = f"{now.rows:,} rows, {now.rows / now.stage_seconds:,.0f}/s" if now.rows and now.stage_seconds else ""
    if not 0 < now.parts_done < now.parts:
        return rate
    left_s = now.stage_seconds * (now.parts - now.parts_done) / now.parts_done
    return ", ".join(filter(None, [rate, f"{duration(left_s)} left"]))
