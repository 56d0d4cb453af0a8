"""`fairlane doctor`: checks that everything needed is present, and says how to fix problems."""

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
    """Check Java, Maven, Pulsar with its broker settings and namespaces, Redis, the clock, workers and stuck tasks.

    Exits with 1 if a check fails.
    """
    from backends.system_clock import SystemClock
    from fairlane.checks.doctor import examine

    findings = examine(settings, SystemClock())
    output.emit_rows([asdict(finding) for finding in findings], ["level", "what", "fix"])
    failed = sum(finding.level == "fail" for finding in findings)
    warned = sum(finding.level == "warn" for finding in findings)
    say(_summary(len(findings), failed, warned))
    return FAILURE if failed else OK


def _summary(checks: int, failed: int, warned: int) -> str:
    if failed:
        return f"{failed} of {checks} checks fail"
    return f"no check fails, {warned} of {checks} warn" if warned else "all well"
