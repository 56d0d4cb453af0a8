"""Snapshots of the fold: restored, and the records behind their cursors folded again, the view is as it was."""

from itertools import chain

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.redis.registry.task_rows import TASK_VIEW
from dispatcher.model.errors import Unreachable
from dispatcher.model.task import DAY_MS, TOMBSTONE_MS
from dispatcher.wire.control import MAIN_WRITER
from dispatcher.wire.lease import Status
from dispatcher.wire.outcome import RETRY, CloseTask, EpochMark, Outcome, OutcomeRecord, encode_record
from dispatcher.wire.snapshot import Chunk, Cursors, OpenPart, Packer, Part, TaskPart, parts_of
from quotas.snapshots import RedisSnapshots
from tests.contract.fold_records import SIZE, parts
from tests.contract.ledger_worlds import LawWorld, Worlds, ask_own, ask_retry, mixed, outcomes, run, statuses, want
from tests.records import checkpoint, finished

PLACE = "{:020d}".format
PART = TaskPart("t", -1, [b"lane", b"x", b"created_ms", b"1", b"app", b"a"])


def snapshot_of(world: LawWorld) -> list[Part]:
    """As it comes back from the topic."""
    packer = Packer(1_000)
    records = [*packer.add(chain.from_iterable(RedisSnapshots(world.view).parts())), *packer.end()]
    return [part for record in records if isinstance(record, Chunk) for part in parts_of(record)]


def empty(world: LawWorld) -> str:
    """A new view that waits for a snapshot; who restores it."""
    world.view.wipe()
    world.advance(0)
    assert world.epochs.begin_epoch("new", 0, 2, restoring=True)
    return RedisSnapshots(world.view).begin_restore("new")


def made_again(world: LawWorld, *dumps: list[Part]) -> str:
    """Fill a new view from a snapshot of this one, or from these, one after the other; who restores it."""
    chosen = dumps or (snapshot_of(world),)
    who = empty(world)
    for dump in chosen:
        assert RedisSnapshots(world.view).restore_parts(who, dump)
    return who


def fold_from(world: LawWorld, start: int, log: list[OutcomeRecord]) -> None:
    for index in range(start, len(log)):
        stored = PLACE(index - 1) if index else None
        assert world.fold.apply(0, stored, PLACE(index), [encode_record(log[index])]).applied


def complete(world: LawWorld) -> None:
    """Grants from now on, whatever the (virtual) time."""
    world.view.client.hset(world.view.keys.epoch, mapping={"ready": "1", "grants_after_ms": "0"})


def state_of(world: LawWorld, task: str) -> object:
    """Counts, and what the ledger says of every envelope."""
    complete(world)
    return world.counts(task), world.statuses(99, ask_own(task, 0, 16, size=SIZE))


records = st.one_of(
    st.lists(parts(), min_size=1, max_size=3).map(lambda some: outcomes("t", *some)),
    st.lists(parts(), min_size=1, max_size=3).map(lambda some: outcomes("u", *some)),
    st.sampled_from(["t", "u"]).map(lambda task: CloseTask(1, task, Outcome.CANCELLED, 5)),
)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(log=st.lists(records, min_size=1, max_size=8), data=st.data())
def test_records_that_are_in_the_snapshot_already_change_nothing(
    worlds: Worlds, log: list[OutcomeRecord], data: st.DataObject
) -> None:
    cursor_at = data.draw(st.integers(0, len(log)))
    dumped_at = data.draw(st.integers(cursor_at, len(log)))
    straight = worlds()
    for task in ("t", "u"):
        straight.add(task)
    fold_from(straight, 0, log)
    wanted = [state_of(straight, task) for task in ("t", "u")]

    restored = worlds()
    for task in ("t", "u"):
        restored.add(task)
    fold_from(restored, 0, log[:dumped_at])
    who = made_again(restored)
    assert RedisSnapshots(restored.view).end_restore(who, Cursors("", [PLACE(cursor_at - 1) if cursor_at else "", ""]))
    fold_from(restored, cursor_at, log)
    assert [state_of(restored, task) for task in ("t", "u")] == wanted


def test_tasks_controls_and_settings_come_back_as_they_were(world: LawWorld) -> None:
    world.add("own")
    world.add("shared", shared=True, tier="low")
    world.add("done")
    world.set_capacity(500)
    world.apply(checkpoint("own", 3, targets=30, refused=1, consumed=31, digest="d"))
    world.change("own", "weight", "2500")
    world.change("shared", "paused", "1")
    world.seal("done", 0)
    world.end("done")
    world.record("own", run(0, 2, size=10))
    before, keys = world.registry.tasks.named(["own", "shared", "done"], TASK_VIEW), world.view.keys
    shared = world.view.client.hgetall(keys.lane(before[1].lane))
    listed = [world.view.client.zrange(name, 0, -1, withscores=True) for name in (keys.tasks, keys.ended, keys.index)]
    dump = snapshot_of(world)
    who = made_again(world, dump, dump)  # a worker that died in the middle is followed by another
    assert RedisSnapshots(world.view).end_restore(who, Cursors("c", ["p", ""]))
    assert world.registry.control.cursor() == "c"
    assert [world.fold.cursor(partition) for partition in (0, 1)] == ["p", None]
    after = world.registry.tasks.named(["own", "shared", "done"], TASK_VIEW)
    assert [view_without_rate(view) for view in after] == [view_without_rate(view) for view in before]
    assert world.registry.service.globals().capacity == 500
    assert world.view.client.hgetall(keys.lane(before[1].lane)) == shared
    assert [
        world.view.client.zrange(name, 0, -1, withscores=True) for name in (keys.tasks, keys.ended, keys.index)
    ] == listed
    assert 0 < world.view.client.pttl(keys.task("done")) <= TOMBSTONE_MS
    assert world.view.client.pttl(keys.task("own")) == -1


@pytest.mark.parametrize(
    ("ended_days_ago", "kept_days", "wanted_days"),
    [(1, 15, 15), (9, 12, 12)],
    ids=["as it ended", "restated late"],
)
def test_a_tombstone_comes_back_for_as_long_as_its_records_are_kept(
    world: LawWorld, ended_days_ago: int, kept_days: int, wanted_days: int
) -> None:
    ended_ms = world.view.now_ms() - ended_days_ago * DAY_MS  # the scripts of snapshots go by Redis' own time
    world.add("done")
    world.apply(finished("done", at_ms=ended_ms))
    world.view.client.pexpire(world.view.keys.task("done"), kept_days * DAY_MS)
    made_again(world)
    left_ms = world.view.client.pttl(world.view.keys.task("done"))
    assert abs(left_ms - wanted_days * DAY_MS) < 60_000


def view_without_rate(view: object) -> object:
    return {name: getattr(view, name) for name in ("id", "state", "weight", "targets", "lane", "sealed", "refused")}


def test_claims_are_not_in_a_snapshot(live: LawWorld) -> None:
    live.record("t", mixed(0, [0, RETRY]))
    live.lease(1, ask_own("t", 1, 5))
    assert live.claims("t") > 0
    who = made_again(live)
    assert live.claims("t") == 0
    assert RedisSnapshots(live.view).end_restore(who, None)
    complete(live)
    assert [count for _, count in live.statuses(1, ask_own("t", 1, 5))] == [5]


def restore(world: LawWorld) -> None:
    """Make the view again from a snapshot of it."""
    assert RedisSnapshots(world.view).end_restore(made_again(world), Cursors("", ["", ""]))
    complete(world)


def test_an_attempt_that_was_claimed_is_granted_after_a_restore(live: LawWorld) -> None:
    """Its claim is not in the snapshot, and has ended before the view grants."""
    live.record("t", mixed(0, [0, RETRY]))
    retry = ask_retry(want("t", 0, 1, attempt=1))
    assert live.statuses(1, retry) == [(Status.GRANTED, 1)]
    restore(live)
    assert live.statuses(1, retry, worker="x") == [(Status.GRANTED, 1)]


@pytest.mark.parametrize("known", ["by its checkpoint", "by the seal"])
def test_what_a_writer_has_sent_is_not_sent_again_after_a_restore(live: LawWorld, known: str) -> None:
    """An outcome topic may be read ahead of the seal."""
    if known == "by the seal":
        live.seal("t", 3, ["0", "s1"])
    else:
        live.apply(checkpoint("t", 3, writer="s1", targets=3))
    live.record("t", run(0, 2, writer="s1"))
    restore(live)
    live.seal("t", 3, ["0", "s1"])
    answer = live.lease(1, ask_own("t", 0, 3, writer="s1"))
    assert statuses(answer) == [(Status.DROP, 2), (Status.GRANTED, 1)]


def test_many_open_envelopes_are_read_in_pages(live: LawWorld) -> None:
    for first in range(0, 7_000, 500):
        live.record("t", *(mixed(first + at, [0, RETRY]) for at in range(500)))
    dump = snapshot_of(live)
    assert isinstance(dump[0], TaskPart)
    assert sum(len(part.envelopes) // 2 for part in dump if isinstance(part, OpenPart)) == 7_000
    assert not list(live.view.client.scan_iter(f"{live.view.keys.prefix}:dump:*"))
    before = live.view.client.hgetall(live.view.keys.open("t"))
    touched = live.view.client.bitcount(live.view.keys.touched("t", MAIN_WRITER))
    made_again(live, dump)
    assert live.view.client.hgetall(live.view.keys.open("t")) == before
    assert live.view.client.bitcount(live.view.keys.touched("t", MAIN_WRITER)) == touched == 7_000


def test_a_copy_that_goes_while_it_is_read_makes_no_snapshot(live: LawWorld) -> None:
    """Another snapshot was made of the same task (by hand, say), or this one took too long."""
    for first in range(0, 7_000, 500):
        live.record("t", *(mixed(first + at, [0, RETRY]) for at in range(500)))
    pages = RedisSnapshots(live.view).parts()
    while not any(isinstance(part, OpenPart) for part in next(pages)):
        pass
    live.view.client.delete(live.view.keys.dump("t"))
    with pytest.raises(Unreachable, match="open envelopes of task t"):
        list(pages)


def test_thousands_of_settings_and_of_writers_come_back(world: LawWorld) -> None:
    client, keys = world.view.client, world.view.keys
    world.add("t")
    client.hset(keys.globals, mapping={f"app_weight:app{number}": "2000" for number in range(5_000)})
    client.hset(keys.task("t"), mapping={f"ckpt_pos:w{number}": "0" for number in range(5_000)})
    before = [client.hgetall(key) for key in (keys.globals, keys.task("t"))]
    made_again(world)
    assert [client.hgetall(key) for key in (keys.globals, keys.task("t"))] == before


def test_nothing_is_folded_while_a_snapshot_is_restored(world: LawWorld) -> None:
    who, snapshots = empty(world), RedisSnapshots(world.view)
    body = encode_record(EpochMark(1, "new"))
    assert not world.fold.apply(0, None, "a", [body]).applied
    assert snapshots.end_restore(who, None)
    assert not snapshots.restore_parts(who, [PART])
    assert snapshots.begin_restore("new") == ""
    assert world.fold.apply(0, None, "a", [body]).applied


def test_one_at_a_time_restores_a_view_and_no_other_view(world: LawWorld) -> None:
    first, snapshots = empty(world), RedisSnapshots(world.view)
    assert snapshots.restore_parts(first, [PART])
    second = snapshots.begin_restore("new")
    assert not snapshots.restore_parts(first, [PART])
    assert not snapshots.end_restore(first, None)
    assert snapshots.restore_parts(second, [PART])
    assert snapshots.begin_restore("another") == ""
    world.view.wipe()
    assert world.epochs.begin_epoch("newer", 0, 2, restoring=True)
    assert not snapshots.end_restore(second, None)


def test_what_a_newer_snapshot_left_half_restored_is_replaced_by_the_older_one(live: LawWorld) -> None:
    log: list[OutcomeRecord] = [
        outcomes("t", run(0, 2, size=SIZE), mixed(2, [0, RETRY, RETRY])),
        outcomes("t", mixed(2, [0, 0], attempt=1, size=SIZE, positions=[1, 2])),
        outcomes("t", run(20, 5, Outcome.INVALID, size=SIZE), mixed(7, [0, RETRY, RETRY])),
    ]
    fold_from(live, 0, log[:1])
    older = snapshot_of(live)
    fold_from(live, 1, log)
    newer, wanted = snapshot_of(live), live.counts("t")
    who = made_again(live, newer, older)
    assert RedisSnapshots(live.view).end_restore(who, Cursors("", [PLACE(0), ""]))
    fold_from(live, 1, log)
    assert live.counts("t") == wanted
    assert (wanted["sent"], wanted["invalid"]) == (3 * SIZE + 1, 5 * SIZE)


def stored_settings(world: LawWorld) -> dict[bytes, bytes]:
    return dict(world.view.command("HGETALL", world.view.keys.globals))


def test_settings_that_a_newer_snapshot_left_go_with_the_rest_of_it(world: LawWorld) -> None:
    world.set_capacity(500)
    older, wanted = snapshot_of(world), stored_settings(world)
    world.set_global("channel_paused:null", "1")
    made_again(world, snapshot_of(world), older)
    assert (stored_settings(world), world.registry.service.read_state().paused) == (wanted, frozenset())


def test_large_tasks_come_back_to_the_last_envelope(world: LawWorld) -> None:
    """Their bits are more than one answer, and more than one part, may have."""
    last = 5_000_000
    for task in ("a", "b", "c"):
        world.add(task)
        world.record(task, run(0, 2), run(last, 1))
    restore(world)
    for task in ("a", "b", "c"):
        answer = world.lease(1, ask_own(task, 0, 3), ask_own(task, last - 1, 3), worker=task)
        assert statuses(answer) == [(Status.DROP, 2), (Status.GRANTED, 1)]
        assert statuses(answer, 1) == [(Status.GRANTED, 1), (Status.DROP, 1), (Status.GRANTED, 1)]
