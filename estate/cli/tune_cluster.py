"""`fairlane tune cluster`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dispatcher.model.errors import InvalidInput
from fairlane.cli.base import exit_codes
from fairlane.cli.base.arguments import BYTE_SIZE, COUNT
from fairlane.cli.base.options import with_options
from fairlane.cli.base.output import Output, output_option, say

if TYPE_CHECKING:
    from estate.sizing.plan import ClusterPlan

ZOOKEEPERS = "zookeeper-1:2181,zookeeper-2:2181,zookeeper-3:2181"
_load = with_options(
    click.option("--targets-per-s", type=COUNT, required=True, help="Targets per second at the busiest time."),
    click.option(
        "--machines",
        required=True,
        help="The machines, all alike: count, memory and CPUs, then, if known, data disks (nvme, ssd, hdd), size of a "
        "disk, network and NUMA nodes, as in 3x32GiB,8cpu,2xnvme,4TB,25Gbps,2numa.",
    ),
    click.option(
        "--mixed", is_flag=True, help="Run both a broker and a bookie on each machine; without it, one of the two."
    ),
    click.option("--chunk", type=click.IntRange(1, 500), default=500, help="Targets of an envelope."),
    click.option("--target-bytes", type=BYTE_SIZE, default="64", help="Size of a target with its variables."),
    click.option("--copies", type=click.IntRange(1, 5), default=2, help="Bookies that store each entry."),
    click.option("--lanes", type=COUNT, default="10k", help="Lanes at the same time."),
    click.option(
        "--backlog", "backlog_targets", type=COUNT, default="100M", help="Targets that wait at the same time."
    ),
)
_site = with_options(
    click.option(
        "--write", type=click.Path(file_okay=False, path_type=Path), help="Write configuration files and systemd units."
    ),
    click.option("--cluster", "name", default="fairlane", help="Name of the cluster, for --write."),
    click.option("--zookeeper", default=ZOOKEEPERS, help="host:port of each ZooKeeper, for --write."),
)


@click.command()
@_load
@_site
@output_option
def cluster(
    output: Output, machines: str, lanes: float, write: Path | None, name: str, zookeeper: str, **load: Any
) -> int:
    """Recommend the sizes and settings of a Pulsar cluster for a load: brokers, bookies, memory, caches, disks.

    Each figure has its reason; those that do not follow from the options alone are marked as assumed. NUMBER may end
    with k, M or G. Exits with 1 if the machines are too few or too small.
    """
    from estate.sizing.needs import ClusterNeeds, parse_machines
    from estate.sizing.plan import plan_cluster

    plan = plan_cluster(ClusterNeeds(machines=parse_machines(machines), lanes=int(lanes), **load))
    if write is not None:
        _write(plan, write, name, zookeeper)
    _emit(output, plan)
    return exit_codes.OK if plan.enough else exit_codes.FAILURE


def _write(plan: "ClusterPlan", folder: Path, name: str, zookeeper: str) -> None:
    from estate.sizing.conf_files import Site, files_of

    files = files_of(plan, Site(cluster=name, zookeeper=zookeeper))
    try:
        for file, text in files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be written: {error.strerror}.", "Name another folder.") from error
    say(f"wrote {len(files)} files to {folder}; its README.md says how to use them")


def _emit(output: Output, plan: "ClusterPlan") -> None:
    from estate.sizing.settings import bookie_settings, broker_settings

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
