"""`fairlane tune cluster`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from dispatcher.model.errors import InvalidInput
from estate.sizing.conf_files import Site, files_of
from estate.sizing.needs import ClusterNeeds, parse_machines
from estate.sizing.plan import ClusterPlan, plan_cluster
from estate.sizing.settings import bookie_settings, broker_settings
from fairlane.cli.base import exit_codes
from fairlane.cli.base.output import Output, say


def cluster(
    _: click.Context,
    output: Output,
    machines: str,
    lanes: float,
    write: Path | None,
    name: str,
    zookeeper: str,
    **load: Any,
) -> int:
    plan = plan_cluster(ClusterNeeds(machines=parse_machines(machines), lanes=int(lanes), **load))
    if write is not None:
        _write(plan, write, name, zookeeper)
    _emit(output, plan)
    return exit_codes.OK if plan.enough else exit_codes.FAILURE


def _write(plan: ClusterPlan, folder: Path, name: str, zookeeper: str) -> None:
    files = files_of(plan, Site(cluster=name, zookeeper=zookeeper))
    try:
        for file, text in files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be written: {error.strerror}.", "Name another folder.") from error
    say(f"wrote {len(files)} files to {folder}; its README.md says how to use them")


def _emit(output: Output, plan: ClusterPlan) -> None:
    parts = {"figures": plan.figures, "broker.conf": broker_settings(plan), "bookkeeper.conf": bookie_settings(plan)}
    document = {
        **{part: {name: asdict(figure) for name, figure in figures.items()} for part, figures in parts.items()},
        "remarks": list(plan.remarks),
    }
    rows = [
        {"part": part, "name": name, "value": _text(figure.value), "reason": figure.why}
        for part, figures in parts.items()
        for name, figure in figures.items()
    ]
    output.emit_document(document, rows)
    for remark in plan.remarks:
        say(remark)


def _text(value: float | str) -> str:
    return f"{value:,.3g}" if isinstance(value, float) else str(value)
