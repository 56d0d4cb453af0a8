"""The texts of a plan's files: configuration of brokers, bookies and ZooKeeper, systemd units, settings of Fairlane."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dispatcher.model.errors import InvalidInput
from estate.sizing.figures import Figure
from estate.sizing.layout import CpuSet, Layout, layout_of
from estate.sizing.memory import ZOOKEEPER_BYTES, JavaMemory
from estate.sizing.needs import MIB
from estate.sizing.plan import ClusterPlan
from estate.sizing.settings import RECOVERY_SHIPPED, bookie_settings, broker_settings

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_ADDRESS = re.compile(r"[A-Za-z0-9][\w.-]*:\d{1,5}")
OPEN_FILES = 1_048_576
"""Each lane has ledgers, and each worker a connection."""


@dataclass(frozen=True)
class Site:
    """Names that a plan cannot know. Raises InvalidInput."""

    cluster: str = "fairlane"
    zookeeper: str = "zookeeper-1:2181,zookeeper-2:2181,zookeeper-3:2181"
    """host:port of each ZooKeeper, separated by commas."""
    distribution: str = "/opt/pulsar"
    """Folder of Pulsar's distribution."""
    folder: str = "/etc/fairlane/pulsar"
    """Folder that the configuration is in on each machine."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.cluster):
            raise InvalidInput(f"cluster: {self.cluster!r} is not a name of letters, digits, `_`, `.` and `-`.")
        if not all(_ADDRESS.fullmatch(address) for address in self.zookeeper.split(",")):
            raise InvalidInput(f"zookeeper: {self.zookeeper!r} is not host:port, or several separated by commas.")


def files_of(plan: ClusterPlan, site: Site) -> dict[str, str]:
    """Return the texts of all files by their names."""
    layout, bookie = layout_of(plan.needs, _broker_part(plan)), bookie_settings(plan)
    return {
        "broker.conf": _properties({**_broker_site(site), **broker_settings(plan)}),
        "bookkeeper.conf": _properties({**_bookie_site(site, layout), **bookie}),
        "autorecovery.conf": _properties(_autorecovery(site, bookie)),
        "zookeeper.conf": _properties(_zookeeper(site)),
        "fairlane.toml": f"# Set when the namespaces are created.\n[pulsar]\nbundles = {plan.bundles}\n",
        "units/pulsar-broker.service": _broker_unit(plan, layout, site),
        "units/pulsar-bookie.service": _bookie_unit(plan, layout, site),
        "units/pulsar-autorecovery.service": _autorecovery_unit(site),
        "units/pulsar-zookeeper.service": _zookeeper_unit(site),
        "README.md": _readme(plan, layout, site),
    }


def _broker_part(plan: ClusterPlan) -> float:
    broker, bookie = plan.load.broker_cpus / plan.brokers, plan.load.bookie_cpus / plan.bookies
    return broker / (broker + bookie)


def _properties(settings: Mapping[str, Figure]) -> str:
    """Return a properties file with the reason above each setting."""
    lines = ["# Written by `fairlane tune cluster`; what is not here is as Pulsar ships it."]
    for name, figure in settings.items():
        lines += [f"# {figure.why}", f"{name}={figure.value}"]
    return "\n".join(lines) + "\n"


def _broker_site(site: Site) -> dict[str, Figure]:
    store = Figure(f"zk:{site.zookeeper}", "where the cluster's metadata is")
    return {
        "clusterName": Figure(site.cluster, "as it was initialized"),
        "metadataStoreUrl": store,
        "configurationMetadataStoreUrl": store,
        "brokerServicePort": Figure(6650, "Pulsar's usual port"),
        "webServicePort": Figure(8080, "Pulsar's usual port"),
    }


def _bookie_site(site: Site, layout: Layout) -> dict[str, Figure]:
    return {
        "zkServers": Figure(site.zookeeper, "where the cluster's metadata is"),
        "bookiePort": Figure(3181, "BookKeeper's usual port"),
        "httpServerPort": Figure(8000, "no authentication: reachable from the private network only"),
        "journalDirectories": Figure(layout.journal, layout.reasons[0]),
        "ledgerDirectories": Figure(",".join(layout.ledgers), "the other disks, if there are any"),
    }


def _autorecovery(site: Site, bookie: Mapping[str, Figure]) -> dict[str, Figure]:
    return {
        "zkServers": Figure(site.zookeeper, "where the cluster's metadata is"),
        "httpServerEnabled": Figure("false", "the bookie of this machine has the port"),
        "statsProviderClass": bookie["statsProviderClass"],
        "prometheusStatsHttpPort": Figure(8001, "the bookie of this machine has 8000"),
        **RECOVERY_SHIPPED,
    }


def _zookeeper(site: Site) -> dict[str, Figure]:
    hosts = [address.rpartition(":")[0] for address in site.zookeeper.split(",")]
    servers = {f"server.{at}": Figure(f"{host}:2888:3888", "one of them") for at, host in enumerate(hosts, 1)}
    return {
        "tickTime": Figure(2000, "sessions of 10 s are five of these"),
        "initLimit": Figure(10, "as shipped"),
        "syncLimit": Figure(5, "as shipped"),
        "dataDir": Figure("/var/lib/zookeeper/data", "away from journal and ledgers"),
        "dataLogDir": Figure("/var/lib/zookeeper/log", "apart from the snapshots"),
        "clientPort": Figure(site.zookeeper.rpartition(":")[2], "as in the address"),
        "maxClientCnxns": Figure(0, "brokers and bookies are few and trusted"),
        "admin.enableServer": Figure("false", "it takes the brokers' port 8080"),
        "autopurge.snapRetainCount": Figure(3, "as shipped"),
        "autopurge.purgeInterval": Figure(1, "off by default, and then the disk fills"),
        "metricsProvider.className": Figure(
            "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider", "the figures of boards and alerts"
        ),
        **(servers if len(hosts) > 1 else {}),
    }


# ---------------------------------------------------------------- units
def _broker_unit(plan: ClusterPlan, layout: Layout, site: Site) -> str:
    """Return the systemd unit of a broker."""
    environment = {"PULSAR_BROKER_CONF": f"{site.folder}/broker.conf", "PULSAR_MEM": plan.broker_memory.flags}
    weight = ["IOWeight=50"] if plan.needs.mixed else []
    return _unit("broker", site, environment, [*_pinning(layout.broker), *weight])


def _bookie_unit(plan: ClusterPlan, layout: Layout, site: Site) -> str:
    """Return the systemd unit of a bookie."""
    environment = {"PULSAR_BOOKKEEPER_CONF": f"{site.folder}/bookkeeper.conf", "BOOKIE_MEM": plan.bookie_memory.flags}
    return _unit("bookie", site, environment, [*_pinning(layout.bookie), "IOWeight=500"])


def _autorecovery_unit(site: Site) -> str:
    environment = {"PULSAR_BOOKKEEPER_CONF": f"{site.folder}/autorecovery.conf", "PULSAR_MEM": _flags(256 * MIB)}
    return _unit("autorecovery", site, environment, ["IOWeight=20"])


def _zookeeper_unit(site: Site) -> str:
    environment = {"PULSAR_ZK_CONF": f"{site.folder}/zookeeper.conf", "PULSAR_MEM": _flags(ZOOKEEPER_BYTES)}
    return _unit("zookeeper", site, environment, ["IOWeight=500"])


def _flags(heap_bytes: int) -> str:
    return JavaMemory(heap_bytes, 256 * MIB).flags


def _pinning(cpus: CpuSet) -> list[str]:
    if not cpus.cpus:
        return []
    numa = [] if cpus.numa_node is None else ["NUMAPolicy=bind", f"NUMAMask={cpus.numa_node}"]
    return [f"AllowedCPUs={cpus.text}", *numa]


def _unit(role: str, site: Site, environment: Mapping[str, str], more: list[str]) -> str:
    lines = [
        "[Unit]",
        f"Description=Pulsar {role}",
        "After=network-online.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        "User=pulsar",
        *(f'Environment="{name}={value}"' for name, value in environment.items()),
        f"ExecStart={site.distribution}/bin/pulsar {role}",
        "Restart=always",
        "RestartSec=5",
        "SuccessExitStatus=143",
        "TimeoutStopSec=60",
        f"LimitNOFILE={OPEN_FILES}",
        *more,
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- readme
def _readme(plan: ClusterPlan, layout: Layout, site: Site) -> str:
    rows = [f"| {name} | {_value(figure)} | {figure.why} |" for name, figure in plan.figures.items()]
    where = "each machine" if plan.needs.mixed else "its machines"
    return "\n".join(
        [
            "# Plan of a Pulsar estate",
            "",
            "| | | reason |",
            "|---|---|---|",
            *rows,
            "",
            *(f"- {reason}" for reason in layout.reasons),
            *(f"- {remark}" for remark in plan.remarks),
            "",
            "## How to use these files",
            "",
            *_steps(site, where),
            "",
        ]
    )


def _steps(site: Site, where: str) -> list[str]:
    """Return the steps from the files to an estate that runs."""
    store = f"zk:{site.zookeeper}"
    initialize = (
        f"bin/pulsar initialize-cluster-metadata --cluster {site.cluster} --metadata-store {store} "
        f"--configuration-metadata-store {store} "
        "--web-service-url http://BROKER:8080 --broker-service-url pulsar://BROKER:6650"
    )
    return [
        f"1. Unpack Pulsar to `{site.distribution}` and copy this folder to `{site.folder}` on every machine.",
        "2. Make the directories that `bookkeeper.conf` and `zookeeper.conf` name, owned by the user `pulsar`.",
        "   Write a ZooKeeper's number into `myid` in its `dataDir`.",
        f"3. Start `pulsar-zookeeper` on its machines, then run once `{initialize}`.",
        f"4. Start `pulsar-bookie` and `pulsar-broker` on {where}, and `pulsar-autorecovery` beside the bookies.",
        "5. Merge `fairlane.toml` into yours, run `fairlane provision`, and then `fairlane doctor`.",
    ]


def _value(figure: Figure) -> str:
    value = figure.value
    return value if isinstance(value, str) else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
