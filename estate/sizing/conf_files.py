"""The texts of a plan's files: configuration of brokers, bookies and ZooKeeper, systemd units, settings of Fairlane."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dispatcher.model.errors import InvalidInput
from estate.sizing.figures import Figure
from estate.sizing.layout import MachineLayout, layout_of
from estate.sizing.memory import ZOOKEEPER_BYTES, JavaMemory
from estate.sizing.needs import MIB
from estate.sizing.plan import ClusterPlan
from estate.sizing.settings import PROMETHEUS, RECOVERY_SHIPPED, bookie_settings, broker_settings

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

    @property
    def store(self) -> str:
        """Return the address of the metadata as Pulsar has it."""
        return f"zk:{self.zookeeper}"


def files_of(plan: ClusterPlan, site: Site) -> dict[str, str]:
    """Return the texts of all files by their names."""
    layout = layout_of(plan.needs, plan.broker_part)
    properties = {
        "broker.conf": {**_broker_site(site), **broker_settings(plan)},
        "bookkeeper.conf": {**_bookie_site(site, layout), **bookie_settings(plan)},
        "autorecovery.conf": _autorecovery(site),
        "zookeeper.conf": _zookeeper(site),
    }
    return {
        **{name: _properties(settings) for name, settings in properties.items()},
        "fairlane.toml": f"# Set when the namespaces are created.\n[pulsar]\nbundles = {plan.bundles}\n",
        **_units(plan, layout, site),
        "README.md": _readme(plan, layout, site),
    }


# ---------------------------------------------------------------- properties
def _properties(settings: Mapping[str, Figure]) -> str:
    """Return a properties file with the reason above each setting."""
    lines = ["# Written by `fairlane tune cluster`; what is not here is as Pulsar ships it."]
    for name, figure in settings.items():
        lines += [f"# {figure.why}", f"{name}={figure.value}"]
    return "\n".join(lines) + "\n"


def _metadata(address: str, *names: str) -> dict[str, Figure]:
    return dict.fromkeys(names, Figure(address, "where the cluster's metadata is"))


def _broker_site(site: Site) -> dict[str, Figure]:
    return {
        "clusterName": Figure(site.cluster, "as it was initialized"),
        **_metadata(site.store, "metadataStoreUrl", "configurationMetadataStoreUrl"),
        "brokerServicePort": Figure(6650, "Pulsar's usual port"),
        "webServicePort": Figure(8080, "Pulsar's usual port"),
    }


def _bookie_site(site: Site, layout: MachineLayout) -> dict[str, Figure]:
    return {
        **_metadata(site.zookeeper, "zkServers"),
        "bookiePort": Figure(3181, "BookKeeper's usual port"),
        "httpServerPort": Figure(8000, "no authentication: reachable from the private network only"),
        "journalDirectories": Figure(layout.journal, layout.reasons[0]),
        "ledgerDirectories": Figure(",".join(layout.ledgers), "the other disks, if there are any"),
    }


def _autorecovery(site: Site) -> dict[str, Figure]:
    return {
        **_metadata(site.zookeeper, "zkServers"),
        "httpServerEnabled": Figure("false", "the bookie of this machine has the port"),
        **PROMETHEUS,
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


# ---------------------------------------------------------------- units and readme
def _units(plan: ClusterPlan, layout: MachineLayout, site: Site) -> dict[str, str]:
    """Return the systemd units by the names of their files."""
    beside = ["IOWeight=50"] if plan.needs.mixed else []
    return {
        f"units/pulsar-{role}.service": _unit(site, role, memory, directives)
        for role, memory, directives in (
            ("broker", plan.broker_memory, [*layout.broker.directives, *beside]),
            ("bookie", plan.bookie_memory, [*layout.bookie.directives, "IOWeight=500"]),
            ("autorecovery", JavaMemory(256 * MIB, 256 * MIB), ["IOWeight=20"]),
            ("zookeeper", JavaMemory(ZOOKEEPER_BYTES, 256 * MIB), ["IOWeight=500"]),
        )
    }


_VARIABLES = {
    "broker": ("PULSAR_BROKER_CONF", "broker.conf", "PULSAR_MEM"),
    "bookie": ("PULSAR_BOOKKEEPER_CONF", "bookkeeper.conf", "BOOKIE_MEM"),
    "autorecovery": ("PULSAR_BOOKKEEPER_CONF", "autorecovery.conf", "PULSAR_MEM"),
    "zookeeper": ("PULSAR_ZK_CONF", "zookeeper.conf", "PULSAR_MEM"),
}
"""Variables of the program `pulsar` by role: of its configuration, with the file, and of its memory."""


def _unit(site: Site, role: str, memory: JavaMemory, directives: list[str]) -> str:
    conf_variable, conf, memory_variable = _VARIABLES[role]
    more = "".join(f"{line}\n" for line in directives)
    return f"""\
[Unit]
Description=Pulsar {role}
After=network-online.target
Wants=network-online.target

[Service]
User=pulsar
Environment="{conf_variable}={site.folder}/{conf}"
Environment="{memory_variable}={memory.flags}"
ExecStart={site.distribution}/bin/pulsar {role}
Restart=always
RestartSec=5
SuccessExitStatus=143
TimeoutStopSec=60
LimitNOFILE={OPEN_FILES}
{more}
[Install]
WantedBy=multi-user.target
"""


def _readme(plan: ClusterPlan, layout: MachineLayout, site: Site) -> str:
    figures = "\n".join(f"| {name} | {_value(figure)} | {figure.why} |" for name, figure in plan.figures.items())
    notes = "\n".join(f"- {note}" for note in (*layout.reasons, *plan.remarks))
    where = "each machine" if plan.needs.mixed else "its machines"
    return f"""\
# Plan of a Pulsar estate

| | | reason |
|---|---|---|
{figures}

{notes}

## How to use these files

1. Unpack Pulsar to `{site.distribution}` and copy this folder to `{site.folder}` on every machine.
2. Make the directories that `bookkeeper.conf` and `zookeeper.conf` name, owned by the user `pulsar`.
   Write a ZooKeeper's number into `myid` in its `dataDir`.
3. Start `pulsar-zookeeper` on its machines, then run once `bin/pulsar initialize-cluster-metadata \
--cluster {site.cluster} --metadata-store {site.store} --configuration-metadata-store {site.store} \
--web-service-url http://BROKER:8080 --broker-service-url pulsar://BROKER:6650`.
4. Start `pulsar-bookie` and `pulsar-broker` on {where}, and `pulsar-autorecovery` beside the bookies.
5. Merge `fairlane.toml` into yours, run `fairlane provision`, and then `fairlane doctor`.
"""


def _value(figure: Figure) -> str:
    value = figure.value
    return value if isinstance(value, str) else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
