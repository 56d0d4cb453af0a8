"""Batches are compressed where that saves something."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from dispatcher.wire.envelope import encode_envelope, encode_message
from producers.publish.compression import MIN_BYTES, compression_for, worth_compressing
from tests.unit.consumers.envelopes import envelope

MESSAGE = encode_message({"title": "Half price", "body": "x" * 200})
CHANCE = random.Random(7)  # targets, not secrets


def token(_: int) -> str:
    return f"{CHANCE.getrandbits(256):064x}"


def user(number: int) -> str:
    return f"user-{number}"


def envelopes(chunk: int, count: int, target: Callable[[int], str], variables: bool = False) -> list[bytes]:
    made = []
    for number in range(count):
        targets = [target(number * chunk + place) for place in range(chunk)]
        own: list[dict[str, Any] | None] = [{"name": "Anna", "points": place} for place in range(chunk)]
        fields = {"channel": "fcm", "message": MESSAGE, "variables": own if variables else None}
        made.append(encode_envelope(envelope(number, targets, **fields)))
    return made


@pytest.mark.parametrize(
    ("chunk", "target", "variables", "wanted"),
    [
        (500, token, False, False),
        (100, token, False, False),
        (500, token, True, True),
        (500, user, False, True),
        (1, token, False, True),
        (10, token, False, True),
    ],
)
def test_envelopes_full_of_random_tokens_are_not_compressed_all_others_are(
    chunk: int, target: Callable[[int], str], variables: bool, wanted: bool
) -> None:
    assert worth_compressing(envelopes(chunk, max(1, 64 // chunk), target, variables)) == wanted


def test_as_much_is_looked_at_as_tells() -> None:
    """A single small envelope does not show that the next one has the same message."""
    (few,) = envelopes(MIN_BYTES // 80, 1, token)
    assert len(few) < MIN_BYTES
    assert worth_compressing([few])
    assert worth_compressing([])


def test_what_is_set_is_done() -> None:
    tokens = envelopes(500, 1, token)
    assert compression_for("auto", tokens) == "none"
    assert compression_for("lz4", tokens) == "lz4"
    assert compression_for("zstd", []) == "zstd"
    assert compression_for("none", []) == "none"
