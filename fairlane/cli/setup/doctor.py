"""`fairlane doctor`: checks that everything needed is present, and says how to fix problems."""

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from fairlane.cli.base.exit_codes import FAILURE, OK
from fairlane.cli.base.invocation import pass_settings
from fairlane.cli.base.output import Output, output_option, say

if TYPE_CHECKING:
    from fairlane.settings import Settings


@click.command()
@output_option
@pass_settings
def doctor(settings: "Settings", output: Output) -> int:
    """Check Java, Maven, Pulsar with every broker and bookie, Redis, the clock, workers and stuck tasks.

    Brokers and bookies are asked all at once, for at most 2 s each; one that does not answer is reported. Exits with 1
    if a check fails.
    """
    from backends.system_clock import SystemClock
    from fairlane.checks.doctor import examine

    findings = examine(settings, SystemClock())
    shown = [{"level": one.level, "what": one.sentence, "fix": one.fix} for one in findings]
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
