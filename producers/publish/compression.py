"""Compression of a submission's batches: push tokens are random, and envelopes full of them do not shrink."""

import zlib
from collections.abc import Sequence

from backends.settings import Compression
from producers.settings import CompressionRule

SAMPLE_BYTES = 64 * 1024
MIN_BYTES = 4 * 1024
"""Less data is not enough to judge by: what envelopes have in common (the message) shows only in several of them."""
WORTH = 0.8
"""LZ4 saves a tenth or more where Deflate leaves less than this part (benchmarks/RESULTS.md, Producers)."""


def compression_for(rule: CompressionRule, first: Sequence[bytes]) -> Compression:
    """Return the compression to use. first: the first envelopes, encoded; `auto` judges by them."""
    if rule == "auto":
        return "lz4" if worth_compressing(first) else "none"
    return rule


def worth_compressing(envelopes: Sequence[bytes]) -> bool:
    """Return whether LZ4 saves something; true if there is too little to judge by.

    Deflate's matches, without codes built for them, find the same redundancy as LZ4, and come with Python.
    """
    sample = _sample(envelopes)
    if len(sample) < MIN_BYTES:
        return True
    deflate = zlib.compressobj(1, strategy=zlib.Z_FIXED)
    return len(deflate.compress(sample) + deflate.flush()) < WORTH * len(sample)


def _sample(envelopes: Sequence[bytes]) -> bytes:
    """Return a sample of the beginning and the end: an envelope's variables come after its targets."""
    some = b"".join(envelopes[: 1 + SAMPLE_BYTES // len(envelopes[0])] if envelopes else ())
    half = SAMPLE_BYTES // 2
    return some if len(some) <= SAMPLE_BYTES else some[:half] + some[-half:]
