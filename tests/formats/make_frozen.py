"""Write the stored forms of one version as data files.

Run once, at the release of a version, with that version's code and an empty Redis of its own, and never again:

    PYTHONPATH=CHECKOUT_OF_THE_VERSION python tests/formats/make_frozen.py redis://HOST:PORT/0 tests/formats/VERSION

0.1.0 was made from commit 9d5a78a. The files are what the next versions must read: do not edit them.
"""

import base64
import json
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, cast

import msgspec

from backends.redis.epochs import Epochs
from backends.redis.registry.registry import Registry
from backends.redis.view import RedisView, open_view
from backends.redis.workers import Workers
from backends.settings import RedisSettings
from dispatcher.model.tier import Tier
from dispatcher.model.view import TierStats
from dispatcher.wire.control import (
    MAIN_WRITER,
    Checkpoint,
    ControlChange,
    ControlRecord,
    EpochStarted,
    Finished,
    GlobalChange,
    Restated,
    Sealed,
    TaskRecord,
    encode_control,
)
from dispatcher.wire.envelope import encode_envelope, encode_message
from dispatcher.wire.lease import LaneAsk, LaneKind, Want
from dispatcher.wire.outcome import ClaimsEnded, CloseTask, EpochMark, Named, Outcomes, encode_record
from dispatcher.wire.snapshot import Begun, Packer, encode
from quotas.fold import RedisFold
from quotas.ledger import RedisLedger
from quotas.snapshots import RedisSnapshots
from tests import records
from tests.contract.ledger_worlds import TOPICS, ask, mixed, request, run
from tests.contract.registry_records import position, task_record
from tests.unit.consumers.envelopes import envelope

MESSAGE = encode_message({"title": "Sale", "body": "10 % off for {name}", "badge": 3})
AT_MS = 1_700_000_000_000
FAR_MS = 4_102_444_800_000
SIZE = 10
PREFIX = "frozen"


def task(name: str, **fields: Any) -> TaskRecord:
    plain = {"channel": "http", "message": MESSAGE, "chunk": SIZE, "expected_targets": 60, "digest": "0f1e2d"}
    return task_record(name, **{"lane": TOPICS.own_lane(name), **plain, **fields})


def shared(name: str, **fields: Any) -> TaskRecord:
    return task(name, tier=Tier.LOW, lane=TOPICS.shared_lane_of(name), shared=True, **fields)


def change(name: str, field: str, value: str) -> ControlChange:
    return ControlChange(1, name, field, value, AT_MS + 5)


def checkpoint(name: str, sequence: int = 6, writer: str = MAIN_WRITER) -> Checkpoint:
    counts = {"targets": sequence * SIZE, "refused": 1, "consumed": sequence * SIZE + 1}
    return records.checkpoint(name, sequence, writer=writer, digest="aa" * 16, **counts)


def seal(name: str, targets: int = 60, writers: tuple[str, ...] = (MAIN_WRITER,)) -> Sealed:
    return Sealed(format=1, task=name, targets=targets, refused=1, digest="aa" * 16, writers=list(writers))


def setting(field: str, value: str) -> GlobalChange:
    return GlobalChange(1, field, value, AT_MS + 7)


SENT: dict[str, Any] = {"task": "running", "channel": "http", "published_ms": AT_MS, "message": MESSAGE}
ENVELOPES = {
    "first attempt": envelope(3, ["a", "b", "c"], **SENT),
    "later attempt, with variables": envelope(
        4, ["d", "é"], attempt=2, not_before_ms=AT_MS + 5_000, expires_ms=FAR_MS, size=10, positions=[0, 7],
        variables=[{"name": "Ann", "n": [1, 2.5, None]}, None], **SENT,
    ),
    "of a Spark writer": envelope(
        0, ["x"], max_attempts=20, variables=[{}], **SENT | {"task": "spark", "writer": "-Qm_3x0Zb", "channel": "log"},
    ),
}  # fmt: skip

CONTROL: list[ControlRecord] = [
    EpochStarted(1, "3f2a", AT_MS),
    task("running", tier=Tier.MEDIUM, cap=500, cap_burst=100, partitions=2, weight=2_500),
    checkpoint("running"),
    seal("running"),
    change("running", "weight", "1500"),
    change("running", "tier", "high"),
    change("running", "cap", "400:50"),
    change("running", "override", '1:{"title":"Sale, edited"}'),
    task("scheduled", start_ms=FAR_MS, expires_ms=FAR_MS + 1_000),
    task("paused", app="news"),
    checkpoint("paused", 2),
    change("paused", "paused", "1"),
    task("expired", expires_ms=AT_MS + 60_000),
    checkpoint("expired"),
    task("cancelling"),
    change("cancelling", "cancelled", "1"),
    task("held", hold_until_sealed=True, expected_targets=-1),
    task("spark", expected_targets=-1),
    checkpoint("spark", 2, "-Qm_3x0Zb"),
    checkpoint("spark", 1, "_k9-Zy1aW"),
    seal("spark", 30, ("-Qm_3x0Zb", "_k9-Zy1aW")),
    shared("small"),
    checkpoint("small", 1),
    seal("small", 10),
    shared("moved"),
    checkpoint("moved", 1),
    change("moved", "lane", TOPICS.own_lane("moved")),
    change("moved", "paused", "1"),
    change("moved", "paused", "0"),
    task("completed"),
    seal("completed", 20),
    Finished(format=1, task="completed", state="completed", counts=[18, 1, 1, 0, 0], at_ms=AT_MS + 9_000),
    task("cancelled"),
    change("cancelled", "cancelled", "1"),
    Finished(format=1, task="cancelled", state="cancelled", counts=[5, 0, 0, 0, 55], at_ms=AT_MS + 9_500),
    task("lapsed", expires_ms=AT_MS + 60_000),
    Finished(format=1, task="lapsed", state="expired", counts=[5, 0, 0, 55, 0], at_ms=AT_MS + 60_500),
    change("unknown", "weight", "3000"),
    setting("capacity", "5000:1000"),
    setting("tiers", "5000:3000:2000"),
    setting("sharing", "apps"),
    setting("cap:channel:http", "3000"),
    setting("cap:app:news", "100:10"),
    setting("cap:app_channel:news/http", "50"),
    setting("channel_paused:log", "1"),
    setting("channel_paused:null", "1"),
    setting("channel_paused:null", "0"),
    setting("app_weight:news", "2500"),
    setting("limit:tasks:shop", "50"),
    setting("limit:targets:*", "10000000"),
    EpochMark(1, "3f2a"),
    Restated(1, position(1), msgspec.Raw(encode_control(task("old")))),
]


def outcomes(number: int, *parts: Any, **fields: Any) -> Outcomes:
    return records.outcomes(*parts, task="running", claim=f"w-1.{number}", channel="http", **fields)


OUTCOMES = [
    outcomes(7, run(0, 2, size=SIZE), run(2, 1, 9, size=SIZE), at_ms=AT_MS + 900),
    outcomes(
        8,
        mixed(3, [0, 0, 1, 2, 9, 9, 0, 0, 0, 0], delay_s=5),
        Named(writer="0", attempt=0, sequence=3, positions=[2, 3], targets=["t2", "t3"], reasons=["gone", "refused"]),
        Named(writer="0", attempt=0, sequence=3, positions=None, targets=["t0"]),
        at_ms=AT_MS + 950,
        app="shop",
        latency_ms=120,
    ),
    outcomes(9, mixed(3, [0, 9], attempt=1, size=SIZE, positions=[4, 5], delay_s=30), at_ms=AT_MS + 990),
    CloseTask(1, "expired", 3, AT_MS + 61_000),
    ClaimsEnded(1, ["w-0.1|running", "w-0.2|small"]),
    EpochMark(1, "3f2a"),
]

LETTERS = {
    "targets": records.dead_letter(
        "running", ["t2", "t3"], sequence=3, at_ms=AT_MS, channel="http", positions=[2, 3], outcomes=[1, 2],
        reasons=["gone", "refused"],
    ),
    "unknown task": records.dead_letter(
        "", writer="", at_ms=AT_MS, channel="", reasons=["not an envelope"], body=b"\x93garbage\xff",
    ),
}  # fmt: skip


def text(body: bytes) -> str:
    return base64.b64encode(body).decode()


def plain(value: Any) -> Any:
    """As JSON can hold it."""
    if isinstance(value, bytes):
        return {"bytes": text(value)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return {name: plain(item) for name, item in value.items()} if isinstance(value, dict) else value


def form(name: str, body: bytes) -> dict[str, Any]:
    """A record's bytes, and beside them the same for a reader of this file."""
    return {"name": name, "body": text(body), "says": plain(msgspec.msgpack.decode(body))}


def make_view(view: RedisView) -> RedisSnapshots:
    """A small service in which everything there is has happened at least once."""
    registry, epochs, fold = Registry(view), Epochs(view), RedisFold(view)
    assert epochs.begin_epoch("3f2a", 0, TOPICS.outcome_partitions)
    for number, record in enumerate(CONTROL):
        if not isinstance(record, Restated | EpochMark):
            registry.control.apply(position(number), record)
    epochs.epoch_announced("3f2a", first=True, position="1")
    epochs.epoch_marked("3f2a")
    assert registry.control.move_cursor(None, position(len(CONTROL) - 1), "3f2a", marked=True)
    for partition in range(TOPICS.outcome_partitions):
        bodies = [encode_record(record) for record in OUTCOMES if belongs(record, partition)]
        assert fold.apply(partition, None, position(99), bodies).applied
    registry.sides.add(TOPICS.side_lane("news", "log"))
    lease(view)
    beat(view)
    view.call("hold_job_locks", "w-1", 4_500, 3, 2, "control", "rebuild")
    view.command("SET", view.keys.restated, AT_MS, "PX", 8 * 86_400_000)
    registry.submissions.admit(task("soon"))
    return RedisSnapshots(view)


def belongs(record: Any, partition: int) -> bool:
    return not hasattr(record, "task") or TOPICS.partition_of(record.task) == partition


def own_lane(task: str, demand: int, *wants: Want) -> LaneAsk:
    """Without wants nobody is attached to it."""
    return ask(TOPICS.own_lane(task), *wants, demand=demand, waiting=not wants)


def want(task: str, first: int, count: int = 1, attempt: int = 0) -> Want:
    return Want(task=task, writer="0", attempt=attempt, first=first, count=count, size=SIZE, total=SIZE)


def lease(view: RedisView) -> None:
    """Ask for leases that are granted, parked, moved and announced. Ask twice: a new cap grants nothing at first."""
    small = [want("small", 0), want("moved", 0)]
    again = want("running", 2, attempt=1)
    asks = [
        own_lane("running", 30, want("running", 4, 2)),
        own_lane("paused", 20, want("paused", 0, 2)),
        ask(TOPICS.shared_lane_of("small"), *small, kind=LaneKind.SHARED, demand=10),
        ask(TOPICS.retry_lane(Tier.HIGH, 5), again, kind=LaneKind.RETRY, tier="high", demand=10),
        own_lane("cancelling", 10, want("cancelling", 0)),
        own_lane("spark", 30),
    ]
    for number in (1, 2):
        asked = request(number, *asks, worker="w-1", lease_ms=2_000, claim_ms=13_000)
        assert RedisLedger(view, TOPICS).lease(asked).ready
        time.sleep(0.2)
    assert view.command("ZCARD", view.keys.claims)


def beat(view: RedisView) -> None:
    worker = records.beat(
        "w-1", pid=4711, started_ms=AT_MS, seen_ms=AT_MS, lanes=7, in_flight=20, buffered=100, rate=12.5,
        tiers={"high": TierStats(30, 20, 2, [1, 1], 12.5)}, metrics_port=9100, extra={"holds": ["high", "low"]},
    )  # fmt: skip
    Workers(view).beat(worker)


def dumped(view: RedisView) -> Iterator[dict[str, Any]]:
    """Every key, with its kind, its value and how long it is kept (ms, -1: for ever)."""
    client = view.client
    for name in sorted(cast("list[bytes]", client.keys(f"{PREFIX}:*"))):
        kind = view.command("TYPE", name).decode()
        kept_ms = client.pttl(name)
        key = name.decode().removeprefix(PREFIX)
        yield {"key": key, "kind": kind, "kept_ms": kept_ms, "value": plain(VALUE_OF[kind](client, name))}


def words(value: dict[bytes, bytes]) -> list[list[bytes]]:
    return [list(pair) for pair in sorted(value.items())]


VALUE_OF: dict[str, Any] = {
    "string": lambda client, name: client.get(name),
    "hash": lambda client, name: words(client.hgetall(name)),
    "set": lambda client, name: sorted(client.smembers(name)),
    "zset": lambda client, name: [[member, score] for member, score in client.zrange(name, 0, -1, withscores=True)],
    "stream": lambda client, name: [words(fields) for _, fields in client.xrange(name)],
}


def snapshot(snapshots: RedisSnapshots) -> list[bytes]:
    """The records of its topic."""
    packer, cursors = Packer(2_000), snapshots.cursors(TOPICS.outcome_partitions)
    parts = packer.add(chain.from_iterable(snapshots.parts()))
    return [encode(record) for record in (Begun(1, AT_MS, cursors), *parts, *packer.end())]


def write(folder: Path, name: str, forms: list[Any]) -> None:
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in forms)
    (folder / f"{name}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def main(url: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    view = open_view(RedisSettings(url=url, prefix=PREFIX))
    snapshots = make_view(view)
    write(folder, "snapshot", [{"name": str(i), "body": text(body)} for i, body in enumerate(snapshot(snapshots))])
    write(folder, "view", list(dumped(view)))
    write(folder, "envelopes", [form(name, encode_envelope(one)) for name, one in ENVELOPES.items()])
    write(folder, "control", [form(type(one).__name__, encode_control(one)) for one in CONTROL])
    write(folder, "outcomes", [form(type(one).__name__, encode_record(one)) for one in OUTCOMES])
    letter = msgspec.msgpack.Encoder().encode
    write(folder, "dead_letters", [form(name, letter(one)) for name, one in LETTERS.items()])
    view.wipe()
    view.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
