"""Settings of brokers and bookies that follow from a plan, each with its reason."""

from estate.sizing.figures import Figure, mb
from estate.sizing.needs import MIB
from estate.sizing.plan import ClusterPlan

READ_AHEAD_BYTES = 2 * MIB
"""Bytes that a bookie reads ahead at a time. The default of 1,000 entries is 33 MB of large envelopes, and catching up
falls to a tenth of the speed."""
MAX_READ_BYTES = 5 * MIB
INDEX_BYTES = 40
"""RocksDB's cost of an entry's location: two keys of 16 bytes and their share of blocks."""
FEW_BROKERS = 3
"""With more, a bookie that all brokers leave at once, and return to at once, makes the load of the others swing."""
QUARANTINE_RATIO = Figure("0.3", "all brokers at once make the load swing")
PULSAR_AVG = "org.apache.pulsar.broker.loadbalance.impl.AvgShedder"


def broker_settings(plan: ClusterPlan) -> dict[str, Figure]:
    """Return the settings of brokers by their names."""
    return {**_storing(plan), **_caches(plan), **_detection(plan), **_balancing(plan), **BROKER_FIXED}


def _storing(plan: ClusterPlan) -> dict[str, Figure]:
    copies = plan.needs.copies
    spread = f"{copies} of {plan.bookies} bookies: an ensemble of all of them stops every lane when one is lost"
    return {
        "managedLedgerDefaultEnsembleSize": Figure(copies, spread),
        "managedLedgerDefaultWriteQuorum": Figure(copies, "copies of an entry"),
        "managedLedgerDefaultAckQuorum": Figure(copies, "fewer let entries wait in memory for a slow bookie"),
    }


def _caches(plan: ClusterPlan) -> dict[str, Figure]:
    direct = plan.broker_memory.direct_bytes
    ten_s = 10 * plan.load.in_bytes_per_s / plan.brokers
    cache = min(max(ten_s, direct / 5), direct / 3)
    envelope = plan.load.entry_bytes
    batch = max(1, min(100, MAX_READ_BYTES // envelope))
    reads = 0.15 * direct
    return {
        "managedLedgerCacheSizeMB": Figure(
            int(cache / MIB), f"10 s of what comes in is {mb(ten_s)}; a fifth to a third of direct memory"
        ),
        "maxMessagePublishBufferSizeInMB": Figure(int(direct / 4 / MIB), "a quarter of direct memory, not the half"),
        "managedLedgerMaxReadsInFlightSizeInMB": Figure(int(reads / MIB), "15 % of direct memory; no bound by default"),
        "dispatcherMaxReadBatchSize": Figure(batch, f"entries of {envelope:,} bytes, at most 5 MiB at a time"),
        "dispatcherMaxReadSizeBytes": Figure(MAX_READ_BYTES, "the largest message"),
    }


def _detection(plan: ClusterPlan) -> dict[str, Figure]:
    few = Figure("1.0", "few brokers cannot overload the others")
    ratio = few if plan.brokers <= FEW_BROKERS else QUARANTINE_RATIO
    return {**BROKER_DETECTION, "bookkeeperClientQuarantineRatio": ratio}


def _balancing(plan: ClusterPlan) -> dict[str, Figure]:
    machines = plan.needs.machines
    return {
        "loadBalancerOverrideBrokerNicSpeedGbps": Figure(
            f"{machines.network_gbps:g}",
            "virtual machines do not report it, and then bandwidth does not count",
            assumed=machines.network_assumed,
        ),
        "loadBalancerLoadSheddingStrategy": Figure(PULSAR_AVG, "the default leaves a restarted broker empty (PIP-220)"),
        "loadBalancerLoadPlacementStrategy": Figure(PULSAR_AVG, "it needs the placement of the same name"),
        "defaultNumberOfNamespaceBundles": Figure(plan.bundles, "as Fairlane's namespaces have"),
    }


BROKER_DETECTION = {
    "bookkeeperClientTimeoutInSeconds": Figure(5, "lanes wait this long when a bookie hangs: 5.5 s, not 30 s"),
    "bookkeeperClientHealthCheckEnabled": Figure("true", "without it, each new lane waits for a bookie that hangs"),
    "bookkeeperClientHealthCheckIntervalSeconds": Figure(
        5, "until the next check, new lanes wait for a bookie that hangs"
    ),
    "bookkeeperClientHealthCheckErrorThresholdPerInterval": Figure(3, "errors in 5 s, not in a minute"),
    "bookkeeperClientHealthCheckQuarantineTimeInSeconds": Figure(120, "half an hour empties a bookie for nothing"),
    "metadataStoreSessionTimeoutMillis": Figure(
        10_000, "lanes of a killed broker wait for it: 13 s, not 31 to 60 s. Needs pauses of Java below it"
    ),
    "bookkeeperClientExposeStatsToPrometheus": Figure("true", "without it a slow bookie cannot be seen"),
    "bookkeeperClientLimitStatsLogging": Figure(
        "false", "figures are kept for each bookie, so that a slow one is named"
    ),
    "managedLedgerPrometheusStatsLatencyRolloverSeconds": Figure(10, "with a minute, a slow bookie is seen late"),
}
"""Broker settings by which a node that is slow or lost is noticed."""
BROKER_FIXED = {
    "managedLedgerCacheEvictionTimeThresholdMillis": Figure(10_000, "what is older is read from the bookies again"),
    "managedLedgerCacheEvictionFrequency": Figure("1.0", "100 times a second costs 0.3 of a core with 10,000 lanes"),
    "allowAutoTopicCreation": Figure("false", "a deleted topic must not come back by itself"),
    "allowAutoSubscriptionCreation": Figure("false", "the same for subscriptions"),
    "preciseDispatcherFlowControl": Figure("true", "without it a busy lane's batches flood the workers"),
    "acknowledgmentAtBatchIndexLevelEnabled": Figure("true", "envelopes of a batch are settled one by one"),
    "managedLedgerMaxUnackedRangesToPersist": Figure(1_000_000, "later acknowledgements are lost at a restart"),
    "managedLedgerMaxBatchDeletedIndexToPersist": Figure(1_000_000, "the same within batches"),
    "managedLedgerPersistIndividualAckAsLongArray": Figure("true", "keeps them small"),
    "loadBalancerAutoBundleSplitEnabled": Figure(
        "false", "a split closes all lanes of a bundle in the middle of a run"
    ),
    "loadBalancerAutoUnloadSplitBundlesEnabled": Figure("false", "the same"),
    "brokerDeleteInactiveTopicsEnabled": Figure("false", "an idle lane may be a paused task"),
    "systemTopicEnabled": Figure("false", "no policies of topics are used: each namespace would have a topic for them"),
    "topicLevelPoliciesEnabled": Figure("false", "the same"),
    "managedLedgerCursorPositionFlushSeconds": Figure(5, "fewer envelopes come again after a broker was killed"),
    "brokerDeduplicationEnabled": Figure("false", "it drops messages where batches are cut differently on a resume"),
    "dispatcherReadFailureBackoffInitialTimeInMs": Figure(100, "a failed read is tried again soon, not after 15 s"),
    "dispatcherReadFailureBackoffMaxTimeInMs": Figure(5_000, "the same"),
    "exposeTopicLevelMetricsInPrometheus": Figure("false", "10,000 lanes would be 10,000 series of each metric"),
    "statsUpdateFrequencyInSecs": Figure(10, "snapshots of the backlog read these statistics"),
}
"""Broker settings that do not depend on the load."""


def bookie_settings(plan: ClusterPlan) -> dict[str, Figure]:
    """Return the settings of bookies by their names."""
    return {**_bookie_memory(plan), **_read_ahead(plan), **BOOKIE_FIXED, **BOOKIE_SHIPPED}


def _bookie_memory(plan: ClusterPlan) -> dict[str, Figure]:
    direct = plan.bookie_memory.direct_bytes
    index = plan.load.kept_entries / plan.bookies * INDEX_BYTES
    blocks = min(max(index, direct / 10), direct / 4)
    return {
        "dbStorage_writeCacheMaxSizeMb": Figure(int(direct / 4 / MIB), "a quarter of direct memory"),
        "dbStorage_readAheadCacheMaxSizeMb": Figure(int(direct / 4 / MIB), "a quarter of direct memory"),
        "dbStorage_rocksDB_blockCacheSize": Figure(
            int(blocks), f"the index of what is kept is {mb(index)}; a tenth to a quarter of direct memory"
        ),
    }


def _read_ahead(plan: ClusterPlan) -> dict[str, Figure]:
    entry = plan.load.entry_bytes
    entries = max(100, min(1_000, READ_AHEAD_BYTES // entry))
    return {
        "dbStorage_readAheadCacheBatchSize": Figure(
            entries, f"entries of {entry:,} bytes; 1,000 are {mb(1000 * entry)}"
        ),
        **BOOKIE_READS,
    }


BOOKIE_READS = {
    "dbStorage_readAheadCacheBatchBytesSize": Figure(READ_AHEAD_BYTES, "bounds it: many lanes are read at once"),
    "readBufferSizeBytes": Figure(131_072, "4 kB at a time are 25 system calls for a batch of large envelopes"),
}
"""How a bookie reads, here and in the local stack."""
PROMETHEUS = {
    "statsProviderClass": Figure(
        "org.apache.bookkeeper.stats.prometheus.PrometheusMetricsProvider", "the figures of boards and alerts"
    ),
}
BOOKIE_FIXED = {
    "journalSyncData": Figure("true", "a power cut loses nothing"),
    "journalAdaptiveGroupWrites": Figure("true", "one sync for many entries: what a RAID card's memory does"),
    "ledgerStorageClass": Figure(
        "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage", "the one that the caches above belong to"
    ),
    "httpServerEnabled": Figure("true", "`doctor`, `estate show` and the guard ask it. It has no authentication"),
    "autoRecoveryDaemonEnabled": Figure("false", "a unit of its own: inside, it ends the bookie with its session"),
    **PROMETHEUS,
    "prometheusStatsLatencyRolloverSeconds": Figure(10, "figures of the last 10 s, not the last minute"),
}


_SHIPPED = "as Pulsar ships it; the program's own default differs"
RECOVERY_SHIPPED = {
    "reppDnsResolverClass": Figure(
        "org.apache.pulsar.zookeeper.ZkBookieRackAffinityMapping", "copies that are made again keep to the racks"
    ),
    "useV2WireProtocol": Figure("true", _SHIPPED),
    "nettyMaxFrameSizeBytes": Figure(5_253_120, "a message of 5 MiB and its head"),
    "rereplicationEntryBatchSize": Figure(100, _SHIPPED),
    "zkTimeout": Figure(30_000, _SHIPPED),
}
"""Settings that Pulsar's bookkeeper.conf has, and BookKeeper's programs would not have without it: auto-recovery's."""
BOOKIE_SHIPPED = {
    **RECOVERY_SHIPPED,
    "httpServerClass": Figure(
        "org.apache.bookkeeper.http.vertx.VertxHttpServer", "without it, a bookie with HTTP does not start"
    ),
    "flushInterval": Figure(60_000, _SHIPPED),
    "flushEntrylogBytes": Figure(33_554_432, _SHIPPED),
    "gcWaitTime": Figure(900_000, _SHIPPED),
    "forceAllowCompaction": Figure("true", _SHIPPED),
    "majorCompactionThreshold": Figure("0.5", _SHIPPED),
    "numAddWorkerThreads": Figure(0, _SHIPPED),
    "numJournalCallbackThreads": Figure(8, _SHIPPED),
    "maxPendingReadRequestsPerThread": Figure(2_500, _SHIPPED),
    "journalMaxGroupWaitMSec": Figure(1, _SHIPPED),
    "journalAlignmentSize": Figure(4_096, _SHIPPED),
    "journalFormatVersionToWrite": Figure(5, _SHIPPED),
    "openFileLimit": Figure(0, _SHIPPED),
    "pageLimit": Figure(0, _SHIPPED),
    "fileInfoFormatVersionToWrite": Figure(0, _SHIPPED),
    "minUsableSizeForIndexFileCreation": Figure(1_073_741_824, _SHIPPED),
}
"""The same of bookies. Brokers need none: their program's defaults are those of Pulsar's broker.conf."""
