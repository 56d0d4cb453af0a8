"""`fairlane provision` and `doctor`: what the servers need, and what is wrong with them."""

from collections import Counter
from dataclasses import asdict

import click

from backends.pulsar.provision import provision as provision_pulsar
from backends.system_clock import SystemClock
from fairlane.checks.doctor import examine
from fairlane.cli.base.exit_codes import FAILURE, OK
from fairlane.cli.base.output import Output, say
from fairlane.cli.base.settings import settings_of
from fairlane.floors import PROVISION, loaded


def provision(ctx: click.Context, output: Output) -> None:
    settings = settings_of(ctx)
    changed = list(provision_pulsar(settings.pulsar))
    for step in PROVISION:
        changed += loaded(step)(settings.pulsar, settings.estate)
    if changed or output.as_json:
        output.emit({"changed": changed}, lambda: "\n".join(changed))
    say(f"{len(changed)} changes" if changed else "nothing to change")


def doctor(ctx: click.Context, output: Output) -> int:
    findings = examine(settings_of(ctx), SystemClock())
    shown = [{"level": each.level, "what": each.sentence, "fix": each.fix} for each in findings]
    output.emit_rows([asdict(finding) for finding in findings], ["level", "what", "fix"], shown=shown)
    levels = Counter(str(finding.level) for finding in findings)
    say(_summary(len(findings), levels))
    return FAILURE if levels["fail"] else OK


def _summary(checks: int, levels: Counter[str]) -> str:
    if levels["fail"]:
        return f"{levels['fail']} of {checks} checks fail"
    if levels["warn"]:
        return f"no check fails, {levels['warn']} of {checks} warn"
    return f"no check fails or warns, {levels['note']} notes" if levels["note"] else "all well"
