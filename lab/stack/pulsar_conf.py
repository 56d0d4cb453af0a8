"""The broker settings of the local stack: those of every cluster, and those of a small one on a developer's machine."""

import socket
from collections.abc import Mapping
from pathlib import Path

from estate.sizing.figures import texts_of
from estate.sizing.settings import BOOKIE_READS, BROKER_FIXED
from lab.stack.ports import HOST

BROKER_SETTINGS: dict[str, str] = {
    **texts_of(BROKER_FIXED),
    "transactionCoordinatorEnabled": "false",
    # Small memory: one developer's machine, not a broker's.
    "webSocketServiceEnabled": "false",
    "managedLedgerCacheSizeMB": "128",
    "dbStorage_writeCacheMaxSizeMb": "64",
    "dbStorage_readAheadCacheMaxSizeMb": "32",
    # Read ahead no more than the cache can hold for several lanes: the default of 1,000 entries is 128 MB of large
    # envelopes, each miss reads them again, and catching up falls to a tenth of the speed.
    "dbStorage_readAheadCacheBatchSize": "100",
    **texts_of(BOOKIE_READS),
    "dbStorage_rocksDB_blockCacheSize": "16777216",
    "numHttpServerThreads": "8",
    "numExecutorThreadPoolSize": "4",
    "numCacheExecutorThreadPoolSize": "2",
    "numOrderedExecutorThreads": "2",
    "topicOrderedExecutorThreadNum": "4",
    "bookkeeperNumberOfChannelsPerBookie": "4",
    "numWorkerThreadsForNonPersistentTopic": "1",
    "statsUpdateInitialDelayInSecs": "10",
    # A clean stop unloads topics one by one; topics not unloaded by then are safe on disk all the same.
    "brokerShutdownTimeoutMs": "15000",
    # A power cut loses nothing. Measured: 2.4 ms instead of 2.0 for a single message, no difference in bulk.
    "journalSyncData": "true",
    # The bookie's port is part of the name that identifies its data.
    "allowEphemeralPorts": "true",
}

LOG4J = """\
Configuration:
  status: ERROR
  name: fairlane-local-stack
  Appenders:
    RollingFile:
      name: File
      fileName: "${sys:pulsar.log.dir}/pulsar.log"
      filePattern: "${sys:pulsar.log.dir}/pulsar-%i.log"
      PatternLayout:
        Pattern: "%d{ISO8601_OFFSET_DATE_TIME_HHMM} [%t] %-5level %logger{36} - %msg%n"
      Policies:
        SizeBasedTriggeringPolicy:
          size: 32 MB
      DefaultRolloverStrategy:
        max: 4
  Loggers:
    Root:
      level: info
      AppenderRef:
        ref: File
    Logger:
      # A line for every REST call, topic and cursor: megabytes a minute when lanes come and go.
      - {name: org.eclipse.jetty.server.RequestLog, level: warn}
      - {name: org.apache.bookkeeper.mledger, level: warn}
      - {name: org.apache.bookkeeper.client, level: warn}
      - {name: org.apache.pulsar.broker.service, level: warn}
"""


def write(
    distribution: Path,
    directory: Path,
    broker_port: int,
    web_port: int,
    base: str = "standalone.conf",
    more: Mapping[str, str] | None = None,
) -> Path:
    """Write `base` with our settings, and `log4j2.yaml`, into `directory`; return the path of the former.

    `more`: additional settings.
    """
    required = {**BROKER_SETTINGS, **(more or {}), **addresses(broker_port, web_port)}
    return write_conf(directory / base, merged((distribution / "conf" / base).read_text(), required))


def write_conf(conf: Path, text: str) -> Path:
    """Write the configuration of a server and, beside it, that of its log; return the path of the former."""
    conf.write_text(text)
    conf.with_name("log4j2.yaml").write_text(LOG4J)
    return conf


def addresses(broker_port: int, web_port: int) -> dict[str, str]:
    """Return the settings that make a broker of this machine reachable from it alone."""
    return {
        "brokerServicePort": str(broker_port),
        "webServicePort": str(web_port),
        "bindAddress": HOST,
        "advertisedAddress": HOST,
        "listeningInterface": loopback_name(),
    }


def merged(shipped: str, required: dict[str, str]) -> str:
    """Return a properties file in which the wanted values replace the shipped ones; new ones are appended."""
    lines = [line for line in shipped.splitlines() if line.partition("=")[0].strip() not in required]
    return "\n".join([*lines, "", "# The local stack's own:", *(f"{k}={v}" for k, v in required.items()), ""])


def loopback_name() -> str:
    """Return the name of the loopback network interface: `lo`, or `lo0` on a Mac."""
    names = {name for _, name in socket.if_nameindex()}
    return "lo0" if "lo0" in names and "lo" not in names else "lo"
