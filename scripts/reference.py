"""Write what the code knows: pages of docs/reference, the OpenAPI document of the HTTP API, and the console's runbooks.

python scripts/reference.py             # writes them
python scripts/reference.py --check     # exits with 1 if one of them is out of date
python scripts/reference.py --breaking  # also where the HTTP API would break a client
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from consumers.delivery.settings import PushChannels
from dispatcher.channels.specs import SPECS
from dispatcher.channels.verdict_table import Effect, Row
from dispatcher.engine.stats import EngineStats
from dispatcher.model.flow_pause import FlowPause, PauseKind
from dispatcher.model.tier import TIERS
from estate.guard.metrics import GuardCollector
from estate.guard.probes import ProbeFigures
from estate.rules.cluster import Estate, NamespaceState
from estate.rules.node_life import NodeRecord
from fairlane.cli.base.exit_codes import MEANINGS
from fairlane.cli.main import COMMANDS, cli
from fairlane.figures.signals import Signals, TierSignals
from fairlane.settings import Settings
from fairlane.worker.report.metrics import CallTimes, EngineCollector, FlowCollector, ServiceCollector
from fairlane.worker.report.service_view import StuckTasks
from scripts import http_reference
from scripts.api_changes import breaking
from scripts.runbook_page import runbook_page
from scripts.tables import table
from web.metrics import ApiFigures

ROOT = Path(__file__).resolve().parents[1]
OPENAPI = "web/openapi.json"
MADE = "<!-- Written by scripts/reference.py. Edit the code's texts, then run it again. -->"


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    pages = {
        "docs/reference/commands.md": commands(),
        "docs/reference/settings.md": settings(),
        "docs/reference/metrics.md": metrics(),
        "docs/reference/verdicts.md": verdicts(),
        "docs/reference/http.md": http_reference.http(MADE),
        "docs/reference/problems.md": http_reference.problems(MADE),
        OPENAPI: http_reference.openapi(),
        "web/console/templates/runbooks.html": runbook_page((ROOT / "docs/runbooks.md").read_text(encoding="utf-8")),
    }
    if "--check" in arguments:
        stale = [name for name, text in pages.items() if (ROOT / name).read_text(encoding="utf-8") != text]
        for name in stale:
            print(f"{name} is out of date. Run `python scripts/reference.py`.", file=sys.stderr)
        return 1 if stale else 0
    checked_in = json.loads((ROOT / OPENAPI).read_text(encoding="utf-8"))
    broken = list(breaking(checked_in, json.loads(pages[OPENAPI])))
    if broken and "--breaking" not in arguments:
        print("The HTTP API would break its clients (--breaking writes it all the same):", *broken, sep="\n")
        return 1
    for name, text in pages.items():
        (ROOT / name).write_text(text, encoding="utf-8")
    return 0


# ------------------------------------------------------------- commands
def commands() -> str:
    """Return the page of all commands with their options, and of the exit codes."""
    context = click.Context(cli, info_name="fairlane", show_default=True)
    sections = [_section(name, context) for name in COMMANDS]
    codes = table(["exit code", "meaning"], ([str(code), meaning] for code, meaning in MEANINGS.items()))
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
    found = [*_settings_of(Settings, ""), *_settings_of(PushChannels, "channels.")]
    rows = ([f"`{name}`", default, meaning] for name, default, meaning in found)
    return "\n\n".join(["# Settings", MADE, _SETTINGS, table(["setting", "default", "meaning"], rows)]) + "\n"


_SETTINGS = """The variable of a setting is its name with `FAIRLANE_` before it: `FAIRLANE_WORKER_PROCESSES` is \
`worker.processes`. `fairlane config show` prints the values in force and where each comes from. How settings are \
read: [configuration](configuration.md)."""


def _settings_of(model: type[BaseModel], above: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        path = f"{above}{field.alias or name}"
        kind = field.annotation
        if get_origin(kind) is dict and isinstance(inner := get_args(kind)[1], type) and issubclass(inner, BaseModel):
            yield from _settings_of(inner, f"{path}.NAME.")
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _settings_of(kind, f"{path}.")
        else:
            yield path, _default(field.get_default(call_default_factory=True)), field.description or ""


def _default(value: Any) -> str:
    if value is PydanticUndefined or value is None or isinstance(value, Path) or value in ("", {}, (), []):
        return ""
    return f"`{', '.join(map(str, value)) if isinstance(value, tuple) else value}`"


# ------------------------------------------------------------- metrics
def metrics() -> str:
    """Return the page of all metrics."""
    collectors = (
        EngineCollector(EngineStats(), CallTimes(), {}),
        FlowCollector({}, dict),
        ServiceCollector(_Service()),  # type: ignore[arg-type]
        GuardCollector(_Guard(), ProbeFigures()),  # type: ignore[arg-type]
        ApiFigures(),
    )
    suffix = {"counter": "_total", "info": "_info"}
    families = [family for collector in collectors for family in collector.collect()]
    rows = (
        [f"`{family.name}{suffix.get(family.type, '')}`", family.type, ", ".join(_labels(family)), family.documentation]
        for family in families
    )
    return "\n\n".join(["# Metrics", MADE, _METRICS, table(["name", "type", "labels", "meaning"], rows)]) + "\n"


_METRICS = """Each worker process serves Prometheus metrics on `worker.metrics_host` and `worker.metrics_port` (a free \
port unless set; `fairlane worker list -o json` shows it). Labels are tiers, channels, apps, outcomes, stages and \
scripts, never the id of a task. A worker shows up to 200 apps on channels; others of a channel share `(others)`.

Metrics that begin with `fairlane_estate_` come from `fairlane estate guard` ([estate](../estate.md#guard-it)), those \
that begin with `fairlane_api_` from each process of `fairlane api` on its `--metrics-port`."""


# ------------------------------------------------------------- verdicts
def verdicts() -> str:
    """Return the page of the providers' answers and their effects."""
    effects = ([f"`{effect}`", meaning] for effect, meaning in _EFFECTS.items())
    header = ["status", "code", "about", "effect", "wait", "meaning"]
    tables = [f"## {name}\n\n{table(header, map(_verdict, spec.table.rows))}" for name, spec in SPECS.items()]
    return "\n\n".join(["# Verdicts", MADE, _VERDICTS, table(["effect", "meaning"], effects), *tables]) + "\n"


_VERDICTS = """Each answer of a provider has one effect. The first row of its table that matches counts; an empty cell \
matches everything. An answer that no row knows is tried again after a minute. What the effects lead to: \
[delivery](../delivery.md#what-became-of-a-target)."""
_EFFECTS = {
    Effect.SENT: "the target is sent",
    Effect.DEAD: "the target is invalid: never send to it again",
    Effect.WRONG: "the target fails; it may be alive",
    Effect.PAYLOAD: "the target fails, since the message is at fault",
    Effect.LATER: "this target is tried again, other targets are not affected",
    Effect.LIMIT: "the target is unsent, and the app pauses in this channel: it sends too fast",
    Effect.CREDENTIALS: "the target is unsent, and the app pauses in this channel: wrong credential or settings",
    Effect.DOWN: "the target is unsent, or unknown where the table says so; after ten in a row the app pauses in this "
    "channel",
}


def _verdict(row: Row) -> list[str]:
    status = str(row.status) if row.status >= 100 else f"{row.status}xx"
    wait = f"{row.wait_s:,.0f} s" if row.wait_s else ""
    renewed = " Before that, the request is sent once with a new token." if row.renew else ""
    effect = f"`{row.effect}`, unknown" if row.may_be_taken else f"`{row.effect}`"
    in_part = " The app pauses only if nothing else is sent." if row.in_part else ""
    return [status, row.code, row.detail, effect, wait, row.note + renewed + in_part]


_SPACE = NamespaceState(name="t/n", ensemble=2, write_quorum=2, ack_quorum=2, bundles=1)


class _Guard:
    """A guard that has looked."""

    elected = True
    estate = Estate(namespaces=(_SPACE,), under_replicated=0)
    nodes: Mapping[str, NodeRecord] = {}
    ended: Mapping[tuple[str, str, str], int] = {}

    def look_age_s(self) -> float:
        return 0.0


class _Service:
    """A service with a backlog in every tier."""

    def flow_pauses(self) -> dict[str, FlowPause]:
        return {"fcm/shop": FlowPause(kind=PauseKind.DOWN, since_ms=0)}

    def stuck_tasks(self) -> StuckTasks:
        return StuckTasks(0, 0)

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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
