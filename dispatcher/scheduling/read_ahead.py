"""How far a consumer reads ahead in a lane, and so how large a producer's batch may be.

Permits count messages, but a whole batch goes to one consumer.
"""

from dispatcher.wire.envelope import MAX_CHUNK

MIN_QUEUE = 24
MAX_QUEUE = 400
"""Bounds of a consumer's queue, in envelopes."""
BATCHES = 4
"""Minimum producer batches in a consumer's queue: with fewer, it runs empty between two batches."""
_QUEUE_BYTES = 512 * 1024
_ENVELOPE_BYTES = 300
_TARGET_BYTES = 70


def envelope_bytes(chunk: int, message_bytes: int = 0) -> int:
    """Return the approximate bytes of an envelope with `chunk` targets and `message_bytes` of encoded message."""
    return _ENVELOPE_BYTES + message_bytes + _TARGET_BYTES * min(max(1, chunk), MAX_CHUNK)


def receiver_queue(chunk: int) -> int:
    """Return the minimum queue in envelopes for the consumer of a busy lane (400 of 1 target, 24 of 500)."""
    return max(MIN_QUEUE, min(MAX_QUEUE, _QUEUE_BYTES // envelope_bytes(chunk)))


def largest_batch(chunk: int) -> int:
    """Return the maximum envelopes in a producer's batch."""
    return receiver_queue(chunk) // BATCHES
