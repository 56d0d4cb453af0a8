"""The load of an estate: bytes and entries at each stage, and the CPU they cost.

Costs are measured ones of benchmarks/RESULTS.md, on a core of an AMD EPYC.
"""

import math
from dataclasses import dataclass

from estate.sizing.needs import ClusterNeeds

TARGET_OVERHEAD_BYTES = 2
"""Bytes that a target takes more in an envelope (RESULTS, "Producers": 66.3 bytes on the wire for 64)."""
ENVELOPE_OVERHEAD_BYTES = 150
"""Head of an envelope and of its message: what 33 kB of 500 targets and 78 bytes of a batched one leave, rounded up."""
OUTCOME_BYTES = 200
"""An outcome record, of an envelope whose targets ended alike, with its share of a batch. Assumed."""
BATCHED_BYTES = 16_384
"""Envelopes smaller than this share an entry with others (RESULTS, "Producers": 96 a batch of small ones)."""
BATCH_ENVELOPES = 96
BROKER_US_AN_ENVELOPE = 8.5
BROKER_US_A_BYTE = 0.0093
"""CPU of the brokers for an envelope that is published, stored, dispatched and settled."""
BOOKIE_US_AN_ENVELOPE = 3.9
BOOKIE_US_A_BYTE = 0.0083
"""CPU of one bookie for one copy of it.

Both are from `benchmarks estate-sizes` on warm servers: 10.5, 33 and 316 us for envelopes of 216, 3,450 and 33,150
bytes, and 5.6, 35 and 278 us for a copy. What it costs to begin, 2.1 and 0.9 s a run, is left out.
"""
BUSY_PART = 0.1
"""Part of the day at the busiest rate, for what is kept for days. Assumed."""
OUTCOME_DAYS = 14
"""Days for which outcome records are kept."""
LANE_WRITES = 3
"""Writes to the metadata for a lane: its topic, its ledger, its subscription."""
DAY_S = 86_400


@dataclass(frozen=True, kw_only=True)
class ClusterLoad:
    """The load at the busiest time, over the whole estate."""

    envelopes_per_s: float
    envelope_bytes: int
    entries_per_s: float
    """Entries that are written, each once for each copy."""
    entry_bytes: int
    in_bytes_per_s: float
    """From producers and workers to brokers."""
    stored_bytes_per_s: float
    """From brokers to bookies: all copies."""
    moved_bytes_per_s: float
    """In, out to workers and to bookies: what the brokers' networks carry."""
    broker_cpus: float
    """Cores of all brokers together."""
    bookie_cpus: float
    kept_bytes: float
    """All copies of what waits, and of the outcome records that are kept."""
    kept_entries: float
    """Entries that bookies must find, all copies."""


def load_of(needs: ClusterNeeds) -> ClusterLoad:
    """Return the load that follows from the needs."""
    envelope = needs.chunk * (needs.target_bytes + TARGET_OVERHEAD_BYTES) + ENVELOPE_OVERHEAD_BYTES
    per_entry = 1 if envelope >= BATCHED_BYTES else max(1, min(BATCH_ENVELOPES, BATCHED_BYTES // envelope))
    envelopes = needs.targets_per_s / needs.chunk
    coming_in = envelopes * (envelope + OUTCOME_BYTES)
    kept_outcomes = envelopes * OUTCOME_BYTES * DAY_S * BUSY_PART * OUTCOME_DAYS
    waiting = needs.backlog_targets / needs.chunk
    return ClusterLoad(
        envelopes_per_s=envelopes,
        envelope_bytes=envelope,
        entries_per_s=envelopes / per_entry * 2,  # outcome records are as many
        entry_bytes=envelope * per_entry,
        in_bytes_per_s=coming_in,
        stored_bytes_per_s=coming_in * needs.copies,
        moved_bytes_per_s=coming_in * (2 + needs.copies),
        broker_cpus=envelopes * (BROKER_US_AN_ENVELOPE + BROKER_US_A_BYTE * envelope) / 1e6,
        bookie_cpus=envelopes * (BOOKIE_US_AN_ENVELOPE + BOOKIE_US_A_BYTE * envelope) / 1e6 * needs.copies,
        kept_bytes=(waiting * envelope + kept_outcomes) * needs.copies,
        kept_entries=math.ceil((waiting / per_entry + kept_outcomes / BATCHED_BYTES) * needs.copies),
    )
