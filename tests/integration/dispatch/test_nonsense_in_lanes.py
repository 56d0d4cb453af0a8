"""Nonsense in lanes that are being served: no worker dies, no other task waits, and everything is among the letters."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pulsar

from dispatcher.ports import DeadLetter
from dispatcher.wire.envelope import FORMAT, MAX_FORMAT, ROUNDS_FORMAT
from dispatcher.wire.topics import Topics
from fairlane import PushClient, PushTask, Settings
from fairlane.checks.view_checks import view_findings
from tests.integration.lane_helpers import publish
from tests.integration.pulsar_helpers import stored_in
from tests.integration.worker_crew import audience, crew, eventually

FIELDS = (
    "format", "task", "writer", "sequence", "attempt", "app", "channel", "published_ms", "not_before_ms", "expires_ms",
    "size", "max_attempts", "message", "targets", "positions", "variables",
)  # fmt: skip
MESSAGE = {"title": "hello", "body": "world"}
ODD: tuple[tuple[str, Any], ...] = (
    ("format", 0), ("format", -1), ("format", MAX_FORMAT + 1), ("task", ""), ("task", "../x"), ("task", "a|b"),
    ("writer", "a:b"), ("writer", ""), ("sequence", 2**33), ("sequence", -1), ("sequence", 2**27),
    ("sequence", 2**64 - 1),
    ("attempt", 4096), ("attempt", -1), ("app", "../../etc"), ("app", ""), ("channel", "a/b"), ("channel", None),
    ("published_ms", -1), ("published_ms", 2**62), ("not_before_ms", 2**62), ("expires_ms", -1), ("size", 2**23),
    ("size", 0), ("size", 1), ("max_attempts", 0), ("max_attempts", 2**31), ("targets", []), ("targets", ["t"] * 501),
    ("targets", [1, 2]), ("positions", [1, 0]), ("positions", [0, 2**40]), ("positions", []), ("variables", [None]),
    ("variables", [1, 2]), ("message", None),
)  # fmt: skip


def nonsense(task: str) -> list[bytes]:
    """Forty messages that are all different."""
    good = dict(
        zip(
            FIELDS,
            (FORMAT, task, "0", 7, 0, "shop", "log", 1, 0, 0, 2, 5, MESSAGE, ["a", "b"], None, None),
            strict=True,
        )
    )
    encode = msgspec.msgpack.encode
    whole = encode(list(good.values()))
    bodies = [encode(list((good | {field: value}).values())) for field, value in ODD[:-1]]
    bodies += [
        b"",
        b"hello",
        whole[:-3],
        whole.replace(b"\xa1a", b"\xa1\xff"),
        encode(list(good.values())[:12]) + b"\x91" * 9_000,
    ]
    assert len(bodies) == len(set(bodies)) == 40
    return bodies


def letters(client: pulsar.Client, topic: str) -> list[DeadLetter]:
    return [msgspec.msgpack.decode(body, type=DeadLetter) for body in stored_in(client, topic)]


def test_nonsense_in_live_lanes_ends_no_worker_and_no_task_but_its_own(
    fresh_settings: Settings, client: pulsar.Client, names: Topics, tmp_path: Path
) -> None:
    with crew(fresh_settings, tmp_path, "w1", "w2") as members, PushClient.connect(fresh_settings) as push:
        push.set_capacity(2_000)
        sizes = {"high": 6_000, "medium": 3_000, "low": 1_000}
        tasks = {
            tier: push.submit(
                PushTask(app="shop", tier=tier, channel="log", message=MESSAGE, chunk=10, expected_targets=size),
                audience(size, tier),
            )
            for tier, size in sizes.items()
        }
        live, shared = names.own_lane(tasks["high"].id), names.shared_lane_of(tasks["low"].id)
        for lane in (live, shared, names.retry_lanes()[0].topic):
            publish(client, lane, nonsense(tasks["high"].id))
        newer = names.own_lane(tasks["medium"].id)
        publish(client, newer, [msgspec.msgpack.encode([ROUNDS_FORMAT + 1, "of a later version"])])
        named = "doctor names the lane with the later version"
        eventually(lambda: any(newer in finding.what for finding in view_findings(fresh_settings)), 30, named)
        for tier, size in sizes.items():
            members.check_sent_once(tasks[tier], audience(size, tier), 90)
        eventually(lambda: len(letters(client, names.dead_letters)) >= 120, 30, "all are among the dead letters")
        kept = Counter(letter.lane for letter in letters(client, names.dead_letters))
        assert set(kept.values()) == {40}
        assert len(kept) == 3
        for name in members.members:
            assert members.members[name].poll() is None, "no worker died"
            assert members.leave(name) == 0
