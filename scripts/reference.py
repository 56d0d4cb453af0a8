"""Write the pages of docs/reference that the code knows: commands, exit codes, settings and metrics.

python scripts/reference.py          # writes them
python scripts/reference.py --check  # exits with 1 if one of them is out of date
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from dispatcher.engine.stats import EngineStats
from dispatcher.model.tier import TIERS
from fairlane.cli.base.exit_codes import MEANINGS
from fairlane.cli.main import COMMANDS, cli
from fairlane.figures.signals import Signals, TierSignals
from fairlane.settings import Settings
from fairlane.worker.report.call_times import CallTimes
from fairlane.worker.report.metrics import EngineCollector, ServiceCollector

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
MADE = "<!-- Written by scripts/reference.py. Edit the code's texts, then run it again. -->"


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    pages = {"commands.md": commands(), "settings.md": settings(), "metrics.md": metrics()}
    if "--check" in arguments:
        stale = [name for name, text in pages.items() if (FOLDER / name).read_text(encoding="utf-8") != text]
        for name in stale:
            print(f"docs/reference/{name} is out of date. Run `python scripts/reference.py`.", file=sys.stderr)
        return 1 if stale else 0
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


# ------------------------------------------------------------- commands
def commands() -> str:
    """Return the page of all commands with their options, and of the exit codes."""
    context = click.Context(cli, info_name="fairlane")
    sections = [_section(name, context) for name in COMMANDS]
    codes = _table(["exit code", "meaning"], ([str(code), meaning] for code, meaning in MEANINGS.items()))
    return "\n\n".join(["# Commands", MADE, _COMMANDS, *sections, "## Exit codes", codes, _EXIT_CODES]) + "\n"


_COMMANDS = """`--help` behind a command prints the same. Data goes to stdout, messages to stderr. A table fits the \
terminal and names the columns that have no room; `-` means not set, and times are local. `-o json` has all fields, \
with times in ms and raw numbers.

`eval "$(_FAIRLANE_COMPLETE=bash_source fairlane)"` completes commands, options, task ids, channels, apps, scenarios \
and fields (`zsh_source` in zsh; in fish `_FAIRLANE_COMPLETE=fish_source fairlane | source`)."""
_EXIT_CODES = """`fairlane task submit` exits with 1 if some targets were refused (the others are accepted), or if a \
task was cancelled, stopped or expired while it was submitted. `fairlane task wait` exits with 0 only if the task \
completed; with `--fail-on-failures`, only if none of its targets failed."""


def _section(name: str, parent: click.Context) -> str:
    """Return what one command and its subcommands do."""
    found = list(_leaves(name, parent))
    return "\n\n".join([f"## fairlane {name}", *(_described(command, context) for command, context in found)])


def _leaves(name: str, parent: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    group = parent.command
    assert isinstance(group, click.Group)
    command = group.get_command(parent, name)
    assert command is not None
    context = click.Context(command, info_name=name, parent=parent, terminal_width=100)
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield command, context
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            yield from _leaves(inner, context)


def _described(command: click.Command, context: click.Context) -> str:
    return f"```\n{command.get_help(context).strip()}\n```"


# ------------------------------------------------------------- settings
def settings() -> str:
    """Return the page of all settings."""
    rows = ([f"`{name}`", default, meaning] for name, default, meaning in _settings_of(Settings, ""))
    return "\n\n".join(["# Settings", MADE, _SETTINGS, _table(["setting", "default", "meaning"], rows)]) + "\n"


_SETTINGS = """The variable of a setting is its name with `FAIRLANE_` before it: `FAIRLANE_WORKER_PROCESSES` is \
`worker.processes`. `fairlane config show` prints the values in force and where each comes from. How settings are \
read: [configuration](configuration.md)."""


def _settings_of(model: type[BaseModel], above: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        path = f"{above}{field.alias or name}"
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _settings_of(kind, f"{path}.")
        else:
            yield path, _default(field.get_default(call_default_factory=True)), field.description or ""


def _default(value: Any) -> str:
    if value is PydanticUndefined or value is None or isinstance(value, Path) or value in ("", {}, (), []):
        return ""
    return f"`{value}`"


# ------------------------------------------------------------- metrics
def metrics() -> str:
    """Return the page of all metrics."""
    collectors = (EngineCollector(EngineStats(), CallTimes(), "1"), ServiceCollector(_Service()))  # type: ignore[arg-type]
    suffix = {"counter": "_total", "info": "_info"}
    families = [family for collector in collectors for family in collector.collect()]
    rows = (
        [f"`{family.name}{suffix.get(family.type, '')}`", family.type, ", ".join(_labels(family)), family.documentation]
        for family in families
    )
    return "\n\n".join(["# Metrics", MADE, _METRICS, _table(["name", "type", "labels", "meaning"], rows)]) + "\n"


_METRICS = """Each worker process serves Prometheus metrics on `worker.metrics_host` and `worker.metrics_port` (a free \
port unless set; `fairlane worker list -o json` shows it). Labels are tiers, channels, outcomes, stages and scripts, \
never the id of a task."""


class _Service:
    """A service with a backlog in every tier."""

    def signals(self) -> Signals:
        tiers = [
            TierSignals(
                tier=str(tier),
                weight=1.0,
                backlog=1,
                arrival_rate=1.0,
                rate=1.0,
                drain_s=1.0,
                wanted=1.0,
                actual=1.0,
                spare=1.0,
            )
            for tier in TIERS
        ]
        return Signals(capacity=1, rate=1.0, workers=1, limited_by="demand", caps=[], workers_needed=1, tiers=tiers)


def _labels(family: Any) -> Sequence[str]:
    return getattr(family, "_labelnames", ())


def _table(header: list[str], rows: Any) -> str:
    return "\n".join(map(_row, [header, ["---"] * len(header), *rows]))


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
