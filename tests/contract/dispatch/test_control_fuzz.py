"""Whatever is written to the control topic: the fold goes on, what cannot be applied is counted and kept, no reader of
the view fails, and tasks that it does not name are as they were."""

import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import LIVE_TASK, TASK_TIMES, TASK_VIEW, LiveTask
from backends.redis.registry.tasks import ANY
from backends.redis.skipped_records import CONTROL, SkippedRecords
from backends.redis.view import RedisView
from backends.redis.view_records import ViewRecords
from consumers.upkeep.folder import ControlFolder, FoldSettings
from dispatcher.analysis.task_times import counted_of
from dispatcher.model.errors import Malformed
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.control import encode_control
from dispatcher.wire.lease import LaneKind
from dispatcher.wire.snapshot import Chunk, Packer, parts_of
from fairlane.figures.signals import ServiceState, SignalMeter, job_of_live
from fairlane.worker.live_lanes import LiveLanes, LiveLaneSettings
from quotas.ledger import RedisLedger
from quotas.snapshots import RedisSnapshots
from tests.contract.ledger_worlds import TOPICS, ask, request, want
from tests.contract.registry_records import ready, sealed, task_record
from tests.formats.samples import CONTROL as SAMPLES
from tests.unit.dispatch.consumers.fakes import ControlTopic, Reader

INNOCENT = ["innocent", "bystander"]
encode = msgspec.msgpack.Encoder().encode
FORMS: list[list[Any]] = [msgspec.msgpack.decode(encode_control(one)) for one in SAMPLES]

values: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([-1, 0, 1, 2**27, 2**31, 2**53, 2**63]),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.sampled_from(["", "urgent", "x:y", "1" * 30, "nan", "1e9", "a,b", "a|b", "../x", "\x1b[31m", "-1", "1:{}"]),
    st.lists(st.one_of(st.integers(-5, 2**40), st.text(max_size=5)), max_size=6),
    st.dictionaries(st.text(max_size=5), st.integers(-5, 5), max_size=3),
)  # fmt: skip


@st.composite
def nearly_sound(draw: st.DrawFn) -> bytes:
    """A record with one field replaced, left out or added."""
    fields = list(draw(st.sampled_from(FORMS)))
    at = draw(st.integers(0, len(fields) - 1))
    match draw(st.sampled_from(["replace", "cut", "add"])):
        case "replace":
            fields[at] = draw(values)
        case "cut":
            fields = fields[:at]
        case "add":
            fields.insert(at, draw(values))
    return encode(fields)


@st.composite
def restated(draw: st.DrawFn) -> bytes:
    """The same, said again."""
    position = draw(st.one_of(st.just(f"{3:020d}:{1:020d}:{0:06d}"), st.text(max_size=30)))
    return encode(["r", 1, position, msgspec.Raw(draw(nearly_sound()))])


bodies = st.one_of(
    st.binary(max_size=60), values.map(encode), st.lists(values, max_size=8).map(encode), nearly_sound(), restated()
)


def fold(topic: ControlTopic, view: RedisView) -> None:
    """To the topic's end, as a worker that holds the job."""
    registry, done = Registry(view), threading.Event()

    class UntilItsEnd(Reader):
        def read(self, max_records: int, timeout_s: float) -> Any:
            if not (found := super().read(max_records, timeout_s)):
                done.set()
            return found

    folder = ControlFolder(
        lambda after: UntilItsEnd(topic, after),
        lambda: True,
        lambda tasks: None,
        FoldSettings(batch=7),
        SkippedRecords(view, "test"),
        lambda: "e",
        registry.control,
    )
    folder.run(done)


def passed_over(topic: ControlTopic) -> list[str]:
    """The positions that no reader can use."""

    def is_passed_over(position: str, body: bytes) -> bool:
        try:
            read_control(position, body)
        except Malformed:
            return True
        return False

    return [record.position for record in topic.records if is_passed_over(record.position, record.body)]


def read_everything(view: RedisView) -> Iterator[object]:
    """As workers, commands and metrics do."""
    registry, records = Registry(view), ViewRecords(view)
    live, stored = registry.tasks.live(LIVE_TASK), registry.service.globals()
    views = registry.tasks.page(ANY, TASK_VIEW, limit=1_000).tasks
    yield registry.service.read_state()
    yield SignalMeter().take(ServiceState(1.0, [job_of_live(task, 5) for task in live], stored, []))
    yield records.settings(), records.of_tasks([task.id for task in views])
    yield live_lanes(live)
    for task in views:
        yield (
            counted_of(""),
            registry.tasks.named([task.id], TASK_TIMES),
            registry.submissions.submission(task.id),
        )
        yield (
            registry.service.channel_pauses(task.channel),
            registry.submissions.admit(task_record("new", app=task.app)),
        )
    yield registry.tasks.in_flight([task.id for task in views])
    packer = Packer(10_000)
    chunks = [one for page in RedisSnapshots(view).parts() for one in packer.add(page)]
    yield [parts_of(one) for one in (*chunks, *packer.end()) if isinstance(one, Chunk)]


def live_lanes(live: list[LiveTask]) -> LiveLanes:
    lanes = LiveLanes(LiveLaneSettings(me="w"))
    lanes.put(live, 5, is_reported=True)
    lanes.choose(1.0, rotate=True)
    return lanes


def lease(view: RedisView, number: int) -> object:
    kinds = {True: LaneKind.SHARED, False: LaneKind.OWN}
    live = Registry(view).tasks.live(LIVE_TASK)
    asks = [ask(task.lane, want(task.id, 0, 1), kind=kinds[task.shared], demand=10) for task in live]
    return RedisLedger(view, TOPICS).lease(request(number, *asks))


def innocent(view: RedisView) -> list[Any]:
    """Return the state that records of other tasks must not change."""
    found = Registry(view).tasks.named(INNOCENT, TASK_VIEW)
    return [(one.id, one.state, one.tier, one.weight, one.cap, one.lane, one.targets, one.app) for one in found]


KILLERS = [
    encode(["x", 1, "running", "override", "{}", 0]),
    encode(["x", 1, "running", "cap", "x:y", 0]),
    encode(["x", 1, "running", "weight", "heavy", 0]),
    encode(["x", 1, "running", "tier", "urgent", 0]),
    encode(["x", 1, "running", "lane", "no topic", 0]),
    encode(["g", 1, "capacity", "1" * 30, 0]),
    encode(["g", 1, "tiers", "a:b", 0]),
    encode(["f", 1, "running", "completed", [1, 2], 0]),
    encode(["r", 1, "nowhere", FORMS[1]]),
    encode(["r", 1, f"{3:020d}:{1:020d}:{0:06d}", ["r", 1, f"{3:020d}:{1:020d}:{0:06d}", FORMS[1]]]),
]
"""Each once ended a fold, a watch or an engine."""


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(log=st.lists(bodies, min_size=1, max_size=12))
@example(log=[encode(FORMS[1]), *KILLERS])
def test_nothing_in_the_control_topic_stops_a_reader(view: RedisView, log: list[bytes]) -> None:
    view.wipe()
    ready(view)
    topic = ControlTopic()
    for task in INNOCENT:
        for record in (task_record(task, app="quiet"), sealed(task, 10)):
            topic.store(encode_control(record))
    fold(topic, view)
    before = innocent(view)

    for body in log:
        topic.store(body)
    fold(topic, view)

    kept = SkippedRecords(view, "test").kept(CONTROL)
    assert [one.position for one in kept] == passed_over(topic)
    assert view.stats().get("malformed", 0) == len(kept)
    assert Registry(view).control.cursor() == topic.records[-1].position
    for _ in read_everything(view):
        pass
    for number in (1, 2):
        lease(view, number)
    assert innocent(view) == before


def test_of_too_many_the_oldest_are_kept_and_the_rest_counted(view: RedisView) -> None:
    topic = ControlTopic()
    ready(view)
    for _ in range(1_003):
        topic.store(b"nonsense")
    fold(topic, view)
    kept = SkippedRecords(view).kept(CONTROL)
    assert [one.position for one in kept] == [record.position for record in topic.records[:1_000]]
    assert view.stats() == {"malformed": 1_003, "malformed_not_kept": 3}


def test_what_was_passed_over_survives_a_snapshot(view: RedisView) -> None:
    topic = ControlTopic()
    ready(view)
    view.command("HSET", view.keys.epoch, "partitions", "2")
    topic.store(b"nonsense")
    fold(topic, view)
    before = SkippedRecords(view).kept(CONTROL)
    snapshots = RedisSnapshots(view)
    parts = [part for page in snapshots.parts() for part in page]
    view.wipe()
    view.command("HSET", view.keys.epoch, "id", "new", "restoring", "1")
    assert snapshots.restore_parts(snapshots.begin_restore("new"), parts)
    assert before
    assert SkippedRecords(view).kept(CONTROL) == before


@pytest.mark.parametrize("text", ["x:y", "1" * 30, "none", "", "\u0663", "nan"])
def test_settings_that_this_version_cannot_read_are_as_if_not_set(view: RedisView, text: str) -> None:
    for field in ("capacity", "tiers", "sharing", "cap:app:shop", "app_weight:shop", "limit:tasks:shop"):
        view.command("HSET", view.keys.globals, field, text)
    stored = Registry(view).service.globals()
    assert stored == Registry(view).service.globals()
    assert (stored.capacity, stored.sharing, stored.caps, stored.app_weights) == (0, "tasks", {}, {})
    assert stored.tier_weights == {"high": 6, "medium": 3, "low": 1}
