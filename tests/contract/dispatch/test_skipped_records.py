"""Outcome records that a version cannot read are kept by their positions, and applied by one that can."""

import msgspec

from backends.redis.skipped_records import SkippedRecords
from consumers.upkeep.folder import FoldSettings, OutcomeFolder
from dispatcher.wire.outcome import encode_record
from quotas.fold import RedisFold
from tests.actors import running
from tests.contract.ledger_worlds import LawWorld, outcomes, run
from tests.contract.registry_records import position
from tests.unit.dispatch.consumers.fakes import Topic, eventually

LATER = msgspec.msgpack.encode(["o", 2, "t", "w.1", 5, "null", [], []])
"""A record in a format that this version does not read."""


def folded(world: LawWorld, topic: Topic, reader: str) -> None:
    """To the topic's end, by a worker of a version."""
    fold = RedisFold(world.view, reader=reader)
    folder = OutcomeFolder(
        topic.open,
        lambda: True,
        lambda tasks: None,
        FoldSettings(poll_s=0.001, idle_check_s=0.002, pause_s=0.01),
        SkippedRecords(world.view, reader),
        0,
        fold,
    )
    with running(folder.run):
        eventually(lambda: fold.cursor(0) == topic.records[-1].position and len(topic.opened) > 0)
        eventually(lambda: not SkippedRecords(world.view, reader).of_others("0"))


def test_a_record_of_a_later_version_is_kept_and_the_fold_goes_on(live: LawWorld) -> None:
    topic = Topic()
    topic.store(LATER)
    topic.store(encode_record(outcomes("t", run(0, 2))))
    folded(live, topic, "1")
    (kept,) = SkippedRecords(live.view).kept("0")
    assert (kept.position, kept.reader, kept.reason) == (position(0), "1", "it has format 2; this version reads 1")
    assert live.counts("t")["sent"] == 2
    assert live.stats() == {"malformed": 1}


def test_a_record_that_is_passed_over_at_every_reading_is_counted_once(world: LawWorld) -> None:
    for reader in ("1", "1", "2"):
        SkippedRecords(world.view, reader).keep("0", {position(0): "unknown"})
    assert world.stats() == {"malformed": 1}
    assert [(kept.position, kept.reader) for kept in SkippedRecords(world.view).kept("0")] == [(position(0), "2")]


def test_a_version_that_can_read_it_applies_it_and_first_outcomes_stay(live: LawWorld) -> None:
    """The record failed three targets, of which two were recorded as sent behind it meanwhile."""
    topic = Topic()
    topic.store(encode_record(outcomes("t", run(0, 3, code=2))))
    topic.store(LATER)
    topic.store(encode_record(outcomes("t", run(1, 2))))
    live.fold.apply(0, None, position(2), [topic.records[2].body])
    SkippedRecords(live.view, "1").keep("0", {position(0): "unknown", position(1): "unknown"})
    folded(live, topic, "2")
    assert {name: count for name, count in live.counts("t").items() if count} == {"sent": 2, "failed": 1}
    assert [(kept.position, kept.reader) for kept in SkippedRecords(live.view).kept("0")] == [(position(1), "2")]
    folded(live, topic, "3")
    assert [(kept.position, kept.reader) for kept in SkippedRecords(live.view).kept("0")] == [(position(1), "3")]
    assert live.counts("t")["failed"] == 1
