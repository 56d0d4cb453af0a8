"""After a restart of Redis, which may have lost the claims of its last second."""

from backends.redis.keys import REPORT_MS
from dispatcher.wire.control import FORMAT, NO_EPOCH, EpochStarted
from dispatcher.wire.lease import Status
from dispatcher.wire.outcome import EpochMark
from tests.contract.ledger_worlds import LawWorld, ask_own, fold
from tests.contract.registry_records import epoch_of

OWN_CLAIMS_MS = 13_000


def note_restart(world: LawWorld, run: str = "another run", promotion: str = "") -> int:
    """As if Redis had been started now, with its data. Return 1 if that is news."""
    args: list[str | int] = [world.clock.wall_ms(), run, OWN_CLAIMS_MS, promotion]
    noted: int = world.view.scripts.call("note_restart", [world.view.keys.prefix], args)
    return noted


def restart(world: LawWorld, run: str = "another run") -> str:
    """Return the id that the view has from then on."""
    assert note_restart(world, run) == 1
    return epoch_of(world.epochs).id


def read_to_the_mark(world: LawWorld, epoch: str) -> None:
    """All topics, as they are now."""
    world.apply(EpochMark(1, epoch))
    for partition in (0, 1):
        assert not world.epochs.ready()
        fold(world, EpochMark(1, epoch), partition=partition)
    assert world.epochs.ready()


def test_nothing_is_granted_until_the_longest_claim_that_any_worker_made_has_ended(live: LawWorld) -> None:
    """Workers have channels of their own: a claim is as long as the slowest takes."""
    for number, claim_ms in enumerate((5_000, 63_000, 13_000), 1):
        live.lease(number, ask_own("t", number, 1), claim_ms=claim_ms)
    read_to_the_mark(live, restart(live))
    live.advance(62_999 + REPORT_MS)
    assert not live.lease(4, ask_own("t", 10, 1)).ready
    live.advance(1)
    assert live.statuses(5, ask_own("t", 10, 1)) == [(Status.GRANTED, 1)]


def test_nothing_is_granted_until_the_topics_are_read_as_far_as_they_went(live: LawWorld) -> None:
    epoch = restart(live)
    live.advance(OWN_CLAIMS_MS + REPORT_MS)
    assert not live.lease(1, ask_own("t", 0, 1)).ready
    read_to_the_mark(live, epoch)
    assert live.lease(2, ask_own("t", 0, 1)).ready


def test_a_restart_is_noted_once(world: LawWorld) -> None:
    """By each worker, whenever it notices: the later ones must not make the view wait again."""
    epoch = restart(world)
    assert note_restart(world) == 0
    read_to_the_mark(world, epoch)


def fail_over(world: LawWorld) -> None:
    """As if a replica had taken the place of the server: it has the data and the scripts, and every connection is
    new."""
    world.view.command("HSET", world.view.keys.epoch, "run_id", "the primary")
    world.view.client.connection_pool.disconnect()


def test_a_new_connection_to_another_run_waits_for_the_claims_of_the_one_before(live: LawWorld) -> None:
    """Though the scripts are known, and nobody learns it from them."""
    assert live.lease(1, ask_own("t", 0, 1), claim_ms=63_000).ready
    fail_over(live)
    assert not live.lease(2, ask_own("t", 0, 1)).ready
    found = epoch_of(live.epochs)
    assert (found.ready, found.announced, found.marked, found.read) == (False, False, False, frozenset())
    assert 60_000 < found.wait_ms - REPORT_MS <= 63_000, "from when it was noticed"


def test_more_connections_to_the_same_run_do_not_wait_again(world: LawWorld) -> None:
    fail_over(world)
    epoch, grants_after = world.view.command("HMGET", world.view.keys.epoch, "id", "grants_after_ms")
    for _ in range(2):
        world.view.client.connection_pool.disconnect()
        assert world.view.command("HMGET", world.view.keys.epoch, "id", "grants_after_ms") == [epoch, grants_after]


def test_a_view_that_may_lack_claims_waits_for_the_longest_that_the_control_topic_knows_of(world: LawWorld) -> None:
    """The replica did not get it, nor does the worker that noticed make any as long."""
    fail_over(world)
    found = epoch_of(world.epochs)
    assert 10_000 < found.wait_ms - REPORT_MS <= OWN_CLAIMS_MS
    world.epochs.epoch_announced(found.id, first=False, position="1", claim_ms=63_000)
    assert 60_000 < epoch_of(world.epochs).wait_ms - REPORT_MS <= 63_000


def test_the_longest_claim_of_the_control_topic_is_kept_and_does_not_hold_a_view_that_is_complete(
    world: LawWorld,
) -> None:
    for claim_ms in (63_000, 20_000, 0):
        world.apply(EpochStarted(FORMAT, NO_EPOCH, 0, "", claim_ms))
    found = epoch_of(world.epochs)
    assert (found.claim_ms, found.wait_ms) == (63_000, 0)
    world.epochs.epoch_announced(found.id, first=False, position="1", claim_ms=63_000)
    assert epoch_of(world.epochs).wait_ms == 0


def test_a_primary_that_was_a_replica_meanwhile_waits_though_its_run_is_the_same(live: LawWorld) -> None:
    assert note_restart(live, promotion="history:1") == 1
    read_to_the_mark(live, epoch_of(live.epochs).id)
    assert note_restart(live, promotion="history:1") == 0
    assert note_restart(live) == 0, "it forgot"
    assert note_restart(live, promotion="history:2") == 1
    assert not live.lease(1, ask_own("t", 0, 1)).ready


def test_each_restart_has_a_higher_number_than_the_one_before(world: LawWorld) -> None:
    ids = [restart(world, run) for run in ("r1", "r2", "r3")]
    first, _, _ = ids[0].partition(".")
    assert ids == [f"{first}.1-r1", f"{first}.2-r2", f"{first}.3-r3"]
