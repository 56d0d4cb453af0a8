"""The door follows keys and policies, and for how long it may rely on it."""

from contextlib import suppress

import pytest

from backends.redis.registry.access import Access, AccessTable
from dispatcher.access.app_policy import AppPolicy
from dispatcher.access.keys import AccessKey, NewKey
from dispatcher.access.principal import Principal, Scope
from dispatcher.model.errors import NoKey, NotReady, Unreachable
from producers.desk.access_book import CHANGES_S, READS_S, AccessBook
from tests.integration.worker_crew import eventually
from tests.virtual_clock import VirtualClock

START_MS = VirtualClock().wall_ms()
DAY_MS = 86_400_000


class Table(AccessTable):
    """Keys and policies as a test gives them. number: of changes so far."""

    def __init__(self) -> None:
        self.access, self.number, self.is_gone, self.is_complete = Access(), 1, False, True
        self.reads = 0
        self.uses: list[tuple[str, int]] = []
        self.wiped_by_read = False

    def last(self) -> str:
        if self.is_gone:
            raise Unreachable("cut off")
        return str(self.number)

    def read(self) -> Access:
        self.reads += 1
        if self.wiped_by_read:
            self.is_complete = False
            return Access()
        return self.access

    def note_use(self, key: str, now_ms: int) -> None:
        self.uses.append((key, now_ms))

    def put(self, new: NewKey, key: AccessKey | None = None) -> None:
        self.access = self.access._replace(keys={**self.access.keys, new.id: key or new.key})
        self.number += 1


class World:
    def __init__(self) -> None:
        self.table, self.clock = Table(), VirtualClock()
        self.book = AccessBook(self.table, lambda: self.table.is_complete, self.clock)
        self.new = AccessKey.create("shop", frozenset({Scope.READ}), START_MS, START_MS + DAY_MS)
        self.table.put(self.new)
        self.book.follow()

    def asks(self) -> Principal:
        return self.book.principal(self.new.token)

    def knows(self) -> bool:
        """Or it raises."""
        return self.asks().app == "shop"


@pytest.fixture
def world() -> World:
    return World()


def test_answer_that_cannot_be_read_does_not_end_the_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other = AccessKey.create("news", frozenset({Scope.READ}), START_MS)
    world.table.put(other)
    with monkeypatch.context() as broken:
        broken.setattr(world.table, "read", lambda: 1 // 0)
        world.book.follow()
        with pytest.raises(NoKey):
            world.book.principal(other.token)
    world.book.follow()
    assert world.book.principal(other.token).app == "news"


def test_key_says_who_asks_and_what_it_may(world: World) -> None:
    principal = world.asks()
    assert (principal.kind, principal.name, principal.app) == ("key", world.new.id, "shop")
    assert principal.scopes == {Scope.READ}


@pytest.mark.parametrize("token", ["", "x", "flk_", "Bearer", "flk_000000000000_" + "A" * 43, "\udc80", "flk_" * 500])
def test_text_that_is_no_known_key_is_refused(world: World, token: str) -> None:
    with pytest.raises(NoKey):
        world.book.principal(token)


def test_key_with_another_secret_is_as_unknown_as_one_that_never_was(world: World) -> None:
    other = AccessKey.create("shop", frozenset({Scope.READ}), START_MS).token
    for token in (other, f"flk_{world.new.id}_{'A' * 43}"):
        with pytest.raises(NoKey, match=r"^The key is unknown\."):
            world.book.principal(token)


def test_no_key_is_called_unknown_while_the_view_does_not_answer(world: World) -> None:
    new = AccessKey.create("news", frozenset({Scope.READ}), START_MS)
    world.table.put(new)
    world.table.is_gone = True
    world.clock.advance(1.1)
    world.book.follow()
    with pytest.raises(NotReady, match="not confirmed for 1 s"):
        world.book.principal(new.token)


def test_revoked_key_is_refused_at_the_next_look(world: World) -> None:
    world.table.put(world.new, world.new.key.revoked(START_MS))
    assert world.knows()
    world.book.follow()
    with pytest.raises(NoKey, match="was revoked"):
        world.asks()


def test_key_is_refused_from_its_end_on(world: World) -> None:
    world.clock.advance(DAY_MS / 1000)
    world.book.follow()
    with pytest.raises(NoKey, match="has ended"):
        world.asks()


def test_nothing_is_read_again_while_nothing_has_changed(world: World) -> None:
    for _ in range(5):
        world.book.follow()
    assert world.table.reads == 1


def test_changes_are_refused_after_five_seconds_without_the_view_and_everything_after_a_minute(world: World) -> None:
    world.table.is_gone = True
    world.clock.advance(CHANGES_S)
    world.book.follow()
    world.book.check_age(CHANGES_S)
    world.clock.advance(0.1)
    with pytest.raises(NotReady, match="not confirmed for 5 s"):
        world.book.check_age(CHANGES_S)
    assert world.knows()
    world.clock.advance(READS_S - CHANGES_S)
    with pytest.raises(NotReady, match="not confirmed for 60 s"):
        world.asks()
    world.table.is_gone = False
    world.book.follow()
    assert world.knows()


def test_incomplete_view_confirms_nothing(world: World) -> None:
    """After Redis was emptied it has no keys, and then some."""
    world.table.is_complete, world.table.access = False, Access()
    world.table.number += 1
    world.clock.advance(CHANGES_S + 1)
    world.book.follow()
    assert world.knows(), "the keys known before count"
    with pytest.raises(NotReady):
        world.book.check_age(CHANGES_S)


def test_view_that_is_emptied_while_it_is_read_takes_no_key_away(world: World) -> None:
    world.table.wiped_by_read = True
    world.table.number += 1
    world.book.follow()
    assert world.knows()


def test_process_that_never_reached_the_view_knows_nobody() -> None:
    table = Table()
    table.is_gone = True
    book = AccessBook(table, lambda: True, VirtualClock())
    book.follow()
    with pytest.raises(NotReady, match="not known yet"):
        book.principal(AccessKey.create("shop", frozenset({Scope.READ}), 0).token)


def test_wall_clock_that_jumps_changes_nothing_in_what_is_known(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for wall_ms in (START_MS - 10 * DAY_MS, START_MS + DAY_MS // 2):
        monkeypatch.setattr(world.clock, "wall_ms", lambda wall_ms=wall_ms: wall_ms)
        world.book.check_age(CHANGES_S)
        assert world.knows()


def test_use_of_a_key_is_stored_once_a_minute(world: World) -> None:
    for _ in range(4):  # from 20 s after the minute on
        world.asks()
        world.book.follow()
        world.clock.advance(20)
    assert world.table.uses == [(world.new.id, START_MS), (world.new.id, START_MS + 40_000)]


def test_use_that_could_not_be_stored_is_stored_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.asks()
    with monkeypatch.context() as broken:
        broken.setattr(world.table, "is_gone", True)
        world.book.follow()
    assert world.table.uses == []
    world.book.follow()
    assert world.table.uses == [(world.new.id, START_MS)]


def test_app_without_a_policy_has_the_defaults(world: World) -> None:
    assert world.book.policy("shop") == AppPolicy()


def test_thread_follows_until_it_is_closed(world: World) -> None:
    world.book.start()
    later = AccessKey.create("news", frozenset({Scope.READ}), START_MS)
    world.table.put(later)

    def is_known() -> bool:
        with suppress(NoKey):
            return world.book.principal(later.token).app == "news"
        return False

    eventually(is_known, 10.0, "the key is known")
    world.book.close()
