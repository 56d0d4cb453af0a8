"""Which Redis holds the view of an installation, as its workers and the control topic say."""

import pytest

from backends.redis.epochs import Epochs
from backends.redis.registry.registry import Registry
from backends.redis.view import RedisView, open_view
from backends.settings import RedisSettings
from dispatcher.model.errors import Refused
from dispatcher.wire.control import FORMAT, EpochStarted
from tests.contract.registry_records import epoch_of, position


@pytest.fixture
def epochs(view: RedisView) -> Epochs:
    epochs = Epochs(view)
    epochs.begin_epoch("e1", 0, 1)
    epochs.epoch_announced("e1", first=True, position=position(5))
    return epochs


def test_a_view_says_where_it_is(view: RedisView, epochs: Epochs) -> None:
    epoch = epoch_of(epochs)
    assert epoch.address == view.address
    assert ", prefix test" in view.address
    epochs.check_home()


@pytest.mark.parametrize(
    ("at", "epoch", "address"),
    [
        (4, "e0", "old:6379/0"),  # before ours
        (6, "e2", ""),  # of a snapshot
        (6, "e1", "renamed:6379/0"),
        (6, "e1.3f2a", "renamed:6379/0"),
    ],
)
def test_records_of_earlier_views_and_of_our_own_change_nothing(
    registry: Registry, epochs: Epochs, at: int, epoch: str, address: str
) -> None:
    registry.control.apply(position(at), EpochStarted(FORMAT, epoch, 0, address))
    assert epoch_of(epochs).foreign == ""


def test_a_view_that_was_begun_elsewhere_afterwards_closes_this_one(
    view: RedisView, registry: Registry, epochs: Epochs
) -> None:
    registry.control.apply(position(6), EpochStarted(FORMAT, "e2", 0, "new:6379/0"))
    assert epoch_of(epochs).foreign == "new:6379/0"
    for check in (epochs.check_home, epochs.check_form):
        with pytest.raises(Refused, match=r"new:6379/0.*This one is") as refused:
            check()
        assert "fairlane registry adopt" in refused.value.next_step
    assert not registry.control.move_cursor(None, position(7), "e1", marked=False), "nothing is folded any more"


@pytest.mark.parametrize(
    ("at", "epoch", "address", "deposed"),
    [
        (6, "e1.2-run", "name of the service", True),
        (6, "e1.12-run", "name of the service", True),
        (4, "e1.2-run", "name of the service", False),  # before ours: it was replaced by this one
        (6, "e1.1-run", "name of the service", False),  # a restart, announced late
        (6, "e1.2-run", "", False),  # of a snapshot
    ],
)
def test_a_former_primary_grants_nothing_once_it_reads_that_another_took_its_place(
    at: int, epoch: str, address: str, view: RedisView, registry: Registry, epochs: Epochs, *, deposed: bool
) -> None:
    restart(view, "run")
    epochs.epoch_announced("e1.1-run", first=True, position=position(5))
    registry.control.apply(position(at), EpochStarted(FORMAT, epoch, 0, address))
    found = epoch_of(epochs)
    assert (bool(found.deposed), found.foreign) == (deposed, "")
    assert not (deposed and found.grants)
    epochs.check_home()  # its workers do not end: they go to the new primary as soon as they find it


def test_a_former_primary_that_was_restarted_has_a_number_above_that_of_its_successor(
    view: RedisView, registry: Registry, epochs: Epochs
) -> None:
    registry.control.apply(position(6), EpochStarted(FORMAT, "e1.7-other", 0, "name of the service"))
    restart(view, "again")
    found = epoch_of(epochs)
    assert (found.id, found.deposed, found.ready, found.announced) == ("e1.8-again", "", False, False)


def test_a_view_that_is_not_announced_yet_is_not_deposed_by_what_was_before_it(
    view: RedisView, registry: Registry, epochs: Epochs
) -> None:
    """The replica had fallen far behind: it lacks the numbers of several restarts."""
    restart(view, "run")
    registry.control.apply(position(6), EpochStarted(FORMAT, "e1.4-older", 0, "name of the service"))
    found = epoch_of(epochs)
    assert found.deposed == ""
    epochs.renumber(found.id, 4)
    epochs.renumber(found.id, 9)
    renumbered = epoch_of(epochs)
    assert renumbered.id == "e1.5-run"


def restart(view: RedisView, run: str) -> None:
    assert view.scripts.call("note_restart", [view.keys.prefix], [0, run, 0, ""]) == 1


def test_a_refused_view_that_is_adopted_is_open(view: RedisView, epochs: Epochs) -> None:
    epochs.refuse_epoch("e1", "old:6379/0")
    assert epoch_of(epochs).foreign == "old:6379/0"
    view.wipe()
    assert epochs.begin_epoch("e3", 0, 1, adopted=True)
    epoch = epoch_of(epochs)
    assert (epoch.adopted, epoch.foreign) == (True, "")


def test_an_address_has_no_credentials_and_names_this_host_where_the_server_is_on_it() -> None:
    far = open_view(RedisSettings(url="rediss://user:secret@redis.example:7000/3", prefix="p"))
    assert far.address == "redis.example:7000/3, prefix p"
    near = open_view(RedisSettings(url="redis://:secret@127.0.0.1:7000", prefix="p"))
    assert near.address.startswith("127.0.0.1:7000/0 on ")
    assert "secret" not in far.address + near.address


@pytest.mark.parametrize("adopted", [False, True], ids=["begun here", "moved here"])
def test_the_wait_for_earlier_claims_moves_back_with_the_clock(view: RedisView, *, adopted: bool) -> None:
    """In a view that moves here it begins when workers on the other Redis have noticed."""
    epochs = Epochs(view)
    epochs.begin_epoch("e1", 13_000, 1, adopted=adopted)
    begun = epoch_of(epochs)
    assert begun.early_ms == 0
    epochs.move_wait("e1")
    assert 0 <= begun.wait_ms - epoch_of(epochs).wait_ms < 1_000, "only if the clock was set back"
    for name in ("waits_from_ms", "grants_after_ms"):
        view.command("HINCRBY", view.keys.epoch, name, 3_600_000)
    assert 3_599_000 < epoch_of(epochs).early_ms <= 3_600_000
    epochs.move_wait("another")
    assert epoch_of(epochs).early_ms > 0
    epochs.move_wait("e1")
    moved = epoch_of(epochs)
    assert moved.early_ms == 0
    assert abs(begun.wait_ms - moved.wait_ms) < 1_000
