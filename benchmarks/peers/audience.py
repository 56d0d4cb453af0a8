"""The targets, the same for every peer: a file of lines of 64 hex characters, made from a seed."""

import random
from pathlib import Path

TARGET_CHARACTERS = 64
LINE_BYTES = TARGET_CHARACTERS + 1
BLOCK = 100_000
MESSAGE = {"title": "Side by side", "body": "x" * 200}
"""The message that is pushed."""


def write(path: Path, count: int, seed: int) -> None:
    """Write `count` targets."""
    chance = random.Random(seed)
    with path.open("w") as file:
        for start in range(0, count, BLOCK):
            size = min(BLOCK, count - start)
            text = chance.randbytes(size * TARGET_CHARACTERS // 2).hex()
            file.writelines(f"{text[at : at + TARGET_CHARACTERS]}\n" for at in range(0, len(text), TARGET_CHARACTERS))


def read(path: Path, first: int, count: int) -> list[str]:
    """Return `count` targets from index `first` on."""
    with path.open() as file:
        file.seek(first * LINE_BYTES)
        return file.read(count * LINE_BYTES).split("\n")[:count]


def chunks(targets: list[str], size: int) -> list[list[str]]:
    """Split targets into messages."""
    return [targets[start : start + size] for start in range(0, len(targets), size)]
