"""A stored record of every kind, with all of its fields."""

from typing import Any

import msgspec

from dispatcher.letters.marks import LetterMark, MarkedLetter, MarkKind
from dispatcher.model.tier import Tier
from dispatcher.model.view import TierStats
from dispatcher.model.view_form import FORM
from dispatcher.wire.control import (
    Announced,
    ControlRecord,
    EpochStarted,
    Restated,
    Sealed,
    TakenOver,
    TaskRecord,
    encode_control,
)
from dispatcher.wire.envelope import encode_message
from dispatcher.wire.groups import TargetGroup
from dispatcher.wire.outcome import ClaimsEnded, CloseTask, EpochMark, Named, OutcomeRecord, ProviderIds
from dispatcher.wire.snapshot import (
    AccessPart,
    AuditPart,
    Begun,
    BitsPart,
    Cursors,
    OpenPart,
    Packer,
    SettingsPart,
    SkippedPart,
    TaskPart,
)
from tests import records
from tests.contract.ledger_worlds import TOPICS, mixed, run
from tests.contract.registry_records import change, position, setting, task_record
from tests.unit.dispatch.consumers.envelopes import envelope

MESSAGE = encode_message({"title": "Sale", "body": "10 % off for {name}", "badge": 3})
AT_MS = 1_700_000_000_000
FAR_MS = 4_102_444_800_000
WAITING = TargetGroup(
    positions="3", tries=1, due_ms=AT_MS + 5_000, first_ms=AT_MS, is_lost=True, waits_for_flow=True, paused_ms=7
)


def task(name: str, **fields: Any) -> TaskRecord:
    return task_record(name, lane=TOPICS.own_lane(name), channel="http", message=MESSAGE, chunk=10, **fields)


RUNNING = task(
    "running", cap=500, cap_burst=100, start_ms=AT_MS, expires_ms=FAR_MS, hold_until_sealed=True, partitions=2,
    submitter="s-1", announced=40, announced_digest="aa" * 16, first=100, gives_up_unknown=True, retry_for_ms=60_000,
)  # fmt: skip
CONTROL: list[ControlRecord] = [
    EpochStarted(1, "3f2a", AT_MS, "redis:6379/0, prefix fairlane", 63_000),
    RUNNING,
    Announced(format=1, task="running", submitter="s-1", first=40, targets=60, refused=1, digest="bb" * 16),
    TakenOver(1, "running", "s-2", AT_MS + 1),
    records.checkpoint("running", 6, targets=60, refused=1, consumed=61, digest="bb" * 16),
    Sealed(format=1, task="running", targets=60, refused=1, digest="bb" * 16, writers=["0", "-Qm_3"], submitter="s-2"),
    change("running", "weight", "1500"),
    change("running", "tier", "high"),
    change("running", "cap", "400:50"),
    change("running", "paused", "1", AT_MS),
    change("running", "cancelled", "1"),
    change("running", "stopped", "no credentials"),
    change("running", "close", "it cannot end"),
    change("running", "override", '1:{"title":"Sale, edited"}'),
    task_record("small", shared=True, tier=Tier.LOW),
    change("small", "lane", TOPICS.own_lane("small")),
    records.finished("running", 18, 1, 1, 0, 0, state="failed", at_ms=AT_MS + 9_000, reason="no credentials"),
    setting("capacity", "5000:1000"),
    setting("tiers", "5000:3000:2000"),
    setting("sharing", "apps"),
    setting("cap:channel:http", "3000"),
    setting("cap:app_channel:news/http", "50"),
    setting("channel_paused:log", "1"),
    setting("app_weight:news", "2500"),
    setting("limit:tasks:shop", "50"),
    setting("limit:targets:*", "10000000"),
    EpochMark(1, "3f2a"),
    Restated(1, position(1), msgspec.Raw(encode_control(task("old")))),
]
OUTCOMES: list[OutcomeRecord] = [
    records.outcomes(
        run(0, 2, size=10),
        mixed(3, [0, 1, 7, 8], positions=[0, 4, 5, 6], attempt=1, size=10, delay_s=5, groups=[WAITING]),
        Named(
            writer="0", attempt=1, sequence=3, positions=[4], targets=["t4"], reasons=["gone"], died_ms=[AT_MS]
        ),
        ProviderIds(writer="0", attempt=1, sequence=3, positions=[0], prefix="projects/p/", ids=["1"]),
        task="running", claim="w-1.7", at_ms=AT_MS, channel="http", app="shop", latency_ms=120,
    ),
    CloseTask(1, "running", 3, AT_MS, "it cannot end"),
    ClaimsEnded(1, ["w-0.1|running", "w-0.2|small"]),
    EpochMark(1, "3f2a"),
]  # fmt: skip
ENVELOPES = [
    envelope(3, ["a", "é"], variables=[{"name": "Ann", "n": [1, 2.5, None]}, None], max_attempts=20),
    envelope(
        4, ["d", "e"], format=2, attempt=2, not_before_ms=AT_MS, expires_ms=FAR_MS, size=10, positions=[0, 1],
        groups=[WAITING], gives_up_unknown=True, retry_for_ms=60_000,
    ),
]  # fmt: skip
LETTERS = [
    records.dead_letter(
        "running", ["t2"], positions=[2], app="shop", variables=[{"name": "Ann"}], first_call_ms=AT_MS, lane="lane",
    ),
    records.dead_letter("", writer="", channel="", body=b"\x93garbage\xff", lane="lane", part=1, parts=2),
]  # fmt: skip
MARKS = [
    LetterMark(
        format=1, id="running.replay-1", kind=kind, at_ms=AT_MS, since_ms=AT_MS - 1, by="desk", part=0, parts=1,
        letters=[MarkedLetter("running", "0", 3, [2, 3])], task=b"{}",
    )
    for kind in MarkKind
]  # fmt: skip
_packer = Packer(1)
SNAPSHOT = [
    Begun(FORM, AT_MS, Cursors(position(9), [position(8), ""])),
    *_packer.add([TaskPart("running", -1, [b"lane", b"x"]), BitsPart("running", "0", 2, b"\xff")]),
    *_packer.add(
        [
            OpenPart("running", [b"0:3", b"state"]),
            SettingsPart([b"capacity", b"5"]),
            AccessPart([b"key:a", b"{}"]),
            AuditPart([b"c:1", b"entry"]),
        ]
    ),
    *_packer.add([SkippedPart("control", [b"position", b"why"])]),
    *_packer.end(),
]
HEARTBEATS = [
    records.beat(
        lanes=7, in_flight=20, buffered=100, rate=12.5, tiers={"high": TierStats(30, 20, 2, [1, 1], 12.5)},
        metrics_port=9100, form=FORM, extra={"holds": ["high"], "newer": ["lane"], "channels": ["http"]},
    )
]  # fmt: skip
