"""Envelopes and batches for tests of what consumes them."""

from collections.abc import Sequence
from typing import Any

from dispatcher.ports import Batch, Delivery
from dispatcher.wire.envelope import FORMAT, Envelope, encode_message

MESSAGE = {"title": "Hello", "body": "World"}


def envelope(sequence: int = 0, targets: Sequence[str] = ("a",), **fields: Any) -> Envelope:
    values: dict[str, Any] = {
        "format": FORMAT,
        "task": "task-1",
        "writer": "0",
        "sequence": sequence,
        "attempt": 0,
        "app": "shop",
        "channel": "x",
        "published_ms": 0,
        "not_before_ms": 0,
        "expires_ms": 0,
        "size": len(targets),
        "max_attempts": 5,
        "message": encode_message(MESSAGE),
        "targets": list(targets),
    }
    return Envelope(**(values | fields))


def batch(envelopes: Sequence[Envelope], channel: str = "x", use_by_s: float = 1e9, tier: str = "high") -> Batch:
    return Batch(
        lane="lane",
        claim="w.1",
        channel=channel,
        deliveries=[Delivery(one, None, 0.0) for one in envelopes],
        use_by_s=use_by_s,
        leased_s=0.0,
        targets=sum(len(one.targets) for one in envelopes),
        tier=tier,
    )
