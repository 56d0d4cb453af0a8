"""`fairlane tune cluster`."""

from pathlib import Path

import click

from fairlane.cli.base.arguments import BYTE_SIZE, COUNT
from fairlane.cli.base.groups import Declared
from fairlane.cli.base.options import with_options
from fairlane.cli.base.output import output_option

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


@click.command(cls=Declared, handlers="estate.cli.handlers.tune_cluster")
@_load
@_site
@output_option
def cluster() -> None:
    """Recommend the sizes and settings of a Pulsar cluster for a load: brokers, bookies, memory, caches, disks.

    Each figure has its reason; those that do not follow from the options alone are marked as assumed. NUMBER may end
    with k, M or G. Exits with 1 if the machines are too few or too small.
    """
