"""How far a consumer reads ahead in a lane, and so how large a producer's batch may be: permits count messages, but a
batch goes to one consumer whole."""

from dispatcher.wire.envelope import MAX_CHUNK

LEAST_QUEUE = 24
MOST_QUEUE = 400
"""Envelopes."""
BATCHES = 4
"""Producer batches that a consumer's queue holds at least: with fewer it starves between two of them."""
_QUEUE_BYTES = 512 * 1024
_ENVELOPE_BYTES = 300
_TARGET_BYTES = 70


def envelope_bytes(chunk: int, message_bytes: int = 0) -> int:
    """About the size of an envelope with so many targets, in bytes; message_bytes: of the encoded message."""
    return _ENVELOPE_BYTES + message_bytes + _TARGET_BYTES * min(max(1, chunk), MAX_CHUNK)


def receiver_queue(chunk: int) -> int:
    """Envelopes of so many targets that the consumer of a busy lane holds at least (400 of 1 target, 24 of 500)."""
    return max(LEAST_QUEUE, min(MOST_QUEUE, _QUEUE_BYTES // envelope_bytes(chunk)))


def largest_batch(chunk: int) -> int:
    """Envelopes of so many targets that a producer puts into one batch at most."""
    return receiver_queue(chunk) // BATCHES
