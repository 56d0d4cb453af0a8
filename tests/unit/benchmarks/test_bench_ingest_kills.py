"""How `python -m benchmarks ingest --kills` counts what was sent."""

import asyncio
from pathlib import Path

from benchmarks.counting import DIGITS, Counted, CountingChannel, compare
from benchmarks.ingest_kills import expected
from dispatcher.wire.envelope import Envelope
from tests.unit.dispatch.consumers.envelopes import envelope


def envelope_to(*numbers: int) -> Envelope:
    return envelope(0, [f"some-hash-{number:0{DIGITS}d}" for number in numbers])


async def send(folder: Path, *envelopes: Envelope) -> None:
    channel = CountingChannel({"name": "count", "folder": str(folder), "targets": 6})
    await channel.open()
    await channel.deliver(envelopes, "high")
    await channel.close()


def test_targets_of_all_processes_are_counted(tmp_path: Path) -> None:
    asyncio.run(send(tmp_path, envelope_to(0, 1), envelope_to(3)))
    (tmp_path / "other.counts").write_bytes(bytes([0, 1, 0, 0, 0, 1]))
    assert compare(tmp_path, bytes([1, 1, 1, 1, 1, 0])) == Counted(missing=2, doubled=1, unexpected=1)


def test_what_is_expected_is_what_the_table_has() -> None:
    wanted = expected(1_000)
    assert sum(wanted) == 1_000 - 10 - 5
    assert (wanted[0], wanted[1], wanted[98], wanted[99], wanted[101]) == (1, 0, 1, 0, 1)
