"""Configuration files of an estate's servers; each setting differs from the shipped one for the reason beside it."""

from collections.abc import Mapping
from pathlib import Path

from estate.sizing.figures import texts_of
from estate.sizing.settings import BROKER_DETECTION
from lab.stack import pulsar_conf
from lab.stack.estate.shape import EstatePorts, EstateShape, host_of
from lab.stack.ports import HOST
from lab.stack.pulsar_conf import BROKER_SETTINGS, loopback_name, merged, write_conf

CLUSTER = "estate"
COPIES = 2
"""Copies of an entry. An ensemble of as many lets any bookie be lost as long as one more is writable."""
_OF_BOOKIES = ("dbStorage_", "journal", "readBufferSizeBytes", "allowEphemeralPorts")
"""Beginnings of the settings of the standalone server that belong to its bookie."""

BOOKIE_SETTINGS: dict[str, str] = {
    **{name: value for name, value in BROKER_SETTINGS.items() if name.startswith(_OF_BOOKIES)},
    "httpServerEnabled": "true",
    # Small memory: several on one developer's machine.
    "dbStorage_writeCacheMaxSizeMb": "32",
    "numReadWorkerThreads": "2",
    "numHighPriorityWorkerThreads": "1",
    "numJournalCallbackThreads": "2",
    "journalPreAllocSizeMB": "4",
    "entryLogFilePreallocationEnabled": "false",
    "logSizeLimit": "134217728",
    # Quantiles of the last ten seconds rather than the last minute: a slow bookie is seen at the next look.
    "prometheusStatsLatencyRolloverSeconds": "10",
}
CLUSTER_SETTINGS: dict[str, str] = {
    "functionsWorkerEnabled": "false",
    # Together below the direct memory that a broker gets here.
    "managedLedgerCacheSizeMB": "64",
    "maxMessagePublishBufferSizeInMB": "64",
    **texts_of(BROKER_DETECTION),
    # The loopback interface has no speed.
    "loadBalancerOverrideBrokerNicSpeedGbps": "1",
}


def write_zookeeper(directory: Path, ports: EstatePorts) -> Path:
    """Write ZooKeeper's configuration; return its path."""
    lines = {
        "tickTime": "2000",
        "dataDir": "data",
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "autopurge.purgeInterval": "1",
        "metricsProvider.className": "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
        "clientPort": str(ports.zookeeper),
        "clientPortAddress": HOST,
        "metricsProvider.httpHost": HOST,
        "metricsProvider.httpPort": str(ports.zookeeper_http),
    }
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    return write_conf(directory / "zookeeper.conf", text)


def write_bookie(distribution: Path, directory: Path, name: str, ports: EstatePorts, more: Mapping[str, str]) -> Path:
    """Write the configuration of a bookie; return its path. `more`: settings that replace ours."""
    required = {
        **BOOKIE_SETTINGS,
        **more,
        "bookiePort": str(ports.bookie),
        "advertisedAddress": host_of(name),
        "listeningInterface": loopback_name(),
        "allowLoopback": "true",
        "zkServers": f"{HOST}:{ports.zookeeper}",
        "httpServerHost": host_of(name),
        "httpServerPort": str(ports.bookie_http),
        "journalDirectory": "data/journal",
        "ledgerDirectories": "data/ledgers",
    }
    shipped = (distribution / "conf" / "bookkeeper.conf").read_text()
    return write_conf(directory / "bookkeeper.conf", merged(shipped, required))


def write_broker(
    distribution: Path, directory: Path, name: str, ports: EstatePorts, shape: EstateShape, more: Mapping[str, str]
) -> Path:
    """Write the configuration of a broker; return its path. `more`: settings that replace ours."""
    copies = str(min(COPIES, shape.bookies))
    settings = {
        **CLUSTER_SETTINGS,
        "clusterName": CLUSTER,
        **dict.fromkeys(("metadataStoreUrl", "configurationMetadataStoreUrl"), metadata_store(ports)),
        "managedLedgerDefaultEnsembleSize": copies,
        "managedLedgerDefaultWriteQuorum": copies,
        "managedLedgerDefaultAckQuorum": copies,
        **more,
    }
    numbers = ports.of(name)
    return pulsar_conf.write(distribution, directory, numbers["broker"], numbers["web"], "broker.conf", settings)


def metadata_store(ports: EstatePorts) -> str:
    return f"zk:{HOST}:{ports.zookeeper}"
