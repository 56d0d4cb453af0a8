"""Connection, scripts, epoch, job locks, heartbeats and feed on a real Redis or Valkey."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest

from backends.redis.client import assemble, lua_texts
from backends.redis.epochs import Epochs
from backends.redis.registry.access import AccessTable
from backends.redis.registry.audit import AuditTable
from backends.redis.registry.registry import Feed, Registry
from backends.redis.registry.task_rows import TASK_VIEW
from backends.redis.view import RedisView, open_view
from backends.redis.workers import JobLocks, Workers
from backends.settings import RedisSettings
from backends.system_clock import SystemClock
from benchmarks.redis_server import RedisServer, binaries, free_port, running
from dispatcher.access.keys import AccessKey
from dispatcher.access.principal import Caller, Scope
from dispatcher.model.errors import FairlaneError, InvalidInput, NoKey, Unreachable
from dispatcher.model.view import FeedEntry, TierStats, WorkerBeat
from dispatcher.wire.control import GlobalChange
from producers.desk.access_book import AccessBook
from producers.outcomes.replay import Replays
from tests.contract.ledger_worlds import task_record
from tests.contract.registry_records import change, epoch_of, setting
from tests.integration.worker_crew import eventually
from tests.records import beat, dead_letter
from tests.unit.dispatch.producers.letter_world import LetterWorld

BINARIES = sorted(binaries().items())


@pytest.fixture(scope="module", params=BINARIES, ids=lambda named: named[0])
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with running(binary=request.param[1]) as server:
        yield server


@pytest.fixture
def view(server: RedisServer) -> Iterator[RedisView]:
    view = open_view(RedisSettings(url=server.url, prefix="test"))
    yield view
    view.wipe()
    view.close()


class Open(Protocol):
    def __call__(self, url: str, **settings: Any) -> RedisView: ...


@pytest.fixture
def open_at() -> Iterator[Open]:
    """Opens views that are closed when the test has ended."""
    with ExitStack() as opened:

        def open_at(url: str, **settings: Any) -> RedisView:
            return opened.enter_context(closing(open_view(RedisSettings(url=url, **settings))))

        yield open_at


def capacity(targets_per_s: int) -> GlobalChange:
    return setting("capacity", str(targets_per_s))


# ------------------------------------------------------------------------------------------- the connection


@pytest.mark.parametrize("binary", [path for _, path in BINARIES], ids=[name for name, _ in BINARIES])
def test_a_password_is_wanted(binary: str, open_at: Open) -> None:
    with running("--requirepass", "sesame", binary=binary) as server:
        with pytest.raises(Unreachable, match=r"requires a password and none is set\. Set the Redis password"):
            open_at(server.url).ping()
        with pytest.raises(Unreachable, match=r"refuses the user name or password\. Correct the Redis user"):
            open_at(server.url, password="wrong").ping()
        open_at(server.url, password="sesame").ping()
        in_url = server.url.replace("//", "//:wrong@")
        open_at(in_url, password="sesame").ping()


def test_a_user_needs_the_rights(view: RedisView, server: RedisServer, open_at: Open) -> None:
    view.command("ACL", "SETUSER", "bob", "on", ">pw", "~other:*", "+@all")
    bob = open_at(server.url, prefix="test", username="bob", password="pw")
    with pytest.raises(Unreachable, match="lacks a right"):
        Registry(bob).control.apply("1", capacity(1))


@pytest.fixture
def full(view: RedisView) -> Iterator[Callable[[bool], object]]:
    """Makes Redis full, or gives it room again; room in any case when the test has ended."""

    def full(is_full: bool) -> object:
        return view.command("CONFIG", "SET", "maxmemory", "1" if is_full else "0")

    yield full
    full(False)


def test_a_full_redis_refuses_new_tasks_and_goes_on_with_the_others(
    view: RedisView, full: Callable[[bool], object]
) -> None:
    registry, known, new = Registry(view), task_record("known"), task_record("new")
    registry.control.apply("1", known)
    full(True)
    with pytest.raises(Unreachable, match="out of memory"):
        registry.submissions.admit(new)
    with pytest.raises(Unreachable, match="out of memory"):
        view.count("repeats")
    registry.control.apply("2", change("known", "weight", "2500"))
    registry.control.apply("3", capacity(7))
    assert [task.weight for task in registry.tasks.named(["known"], TASK_VIEW)] == [2.5]
    assert registry.service.globals().capacity == 7
    full(False)
    registry.submissions.admit(new)
    view.count("repeats")


def test_keys_are_followed_while_redis_is_full(view: RedisView, full: Callable[[bool], object]) -> None:
    registry, table, clock = Registry(view), AccessTable(view), SystemClock()
    new, other = (AccessKey.create("shop", frozenset({Scope.READ}), clock.wall_ms()) for _ in range(2))
    for number, each in enumerate((new, other)):
        registry.control.apply(str(number), setting(f"key:{each.id}", each.key.text))
    book = AccessBook(table, lambda: True, clock)
    book.start()
    with closing(book):
        full(True)
        for each in (new, other):
            book.principal(each.token)
        registry.control.apply("2", setting(f"key:{new.id}", new.key.revoked(clock.wall_ms()).text))
        eventually(lambda: not knows(book, new.token), 10, "it is refused")
        assert table.last_uses() == {}
        full(False)
        eventually(lambda: table.last_uses().keys() == {new.id, other.id}, 10, "uses are stored after all")
        assert knows(book, other.token)


def knows(book: AccessBook, token: str) -> bool:
    try:
        return book.principal(token).app == "shop"
    except NoKey:
        return False


def test_dead_letters_are_sent_again_although_redis_goes_away(open_at: Open) -> None:
    """Their marks in Pulsar say who did it; only the list of changes lacks it."""
    letters, gone = LetterWorld(), open_at(f"redis://127.0.0.1:{free_port()}/0")
    letters.topic.append(dead_letter("sale", ["a", "b"]))
    audit = AuditTable(gone)
    with pytest.raises(Unreachable):
        list(audit.entries(1))
    replays = Replays(letters, SystemClock(), letters.submit, letters.task_of, Caller("cli:ana@ops"), audit.keep_mark)
    assert [replay.state for replay in replays.replay(letters.rows())] == ["replayed"]
    assert letters.sent_again() == ["a", "b"]
    assert {mark.by for mark in letters.marks()} == {"cli:ana@ops"}


def test_a_redis_that_comes_back_is_used_again(open_at: Open) -> None:
    port = free_port()
    view = open_at(f"redis://127.0.0.1:{port}/0")
    for _ in range(2):
        with pytest.raises(Unreachable, match="cannot be reached"):
            view.scripts.check()
        with running(port=port):
            Registry(view).control.apply("1", capacity(1))
            assert Registry(view).service.globals().capacity == 1


def test_what_is_no_redis_is_told_from_one(open_at: Open) -> None:
    def answer() -> None:
        connection, _address = listener.accept()
        with connection:
            connection.recv(1_000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(Unreachable, match="does not speak Redis"):
            open_at(f"redis://127.0.0.1:{listener.getsockname()[1]}/0").ping()
        thread.join()


def test_tls_files_want_a_tls_url() -> None:
    with pytest.raises(InvalidInput, match="rediss://"):
        open_view(RedisSettings(url="redis://127.0.0.1:1/0", tls_ca=Path("ca.pem")))


def test_foreign_keys_are_a_defect_not_an_outage(view: RedisView) -> None:
    view.command("SET", view.keys.globals, "foreign")
    with pytest.raises(FairlaneError, match="no other program writes keys") as caught:
        Registry(view).control.apply("1", capacity(1))
    assert not isinstance(caught.value, Unreachable)


# ------------------------------------------------------------------------------------------- scripts


def test_calls_are_observed(server: RedisServer) -> None:
    seen: list[tuple[str, float]] = []
    view = open_view(RedisSettings(url=server.url, prefix="seen"), observe=lambda *call: seen.append(call))
    Registry(view).control.cursor()
    Registry(view).control.apply("1", capacity(1))
    view.wipe()
    view.close()
    assert [name for name, _ in seen] == ["apply_global", "wipe"]
    assert all(seconds > 0 for _, seconds in seen)


def test_an_included_file_comes_once(tmp_path: Path) -> None:
    (tmp_path / "a.lua").write_text("-- include: b.lua\n-- include: c.lua\nreturn b + c\n")
    (tmp_path / "b.lua").write_text("-- include: c.lua\nlocal b = 1\n")
    (tmp_path / "c.lua").write_text("local c = 2\n")
    assert assemble("a", lua_texts(tmp_path)) == "local c = 2\n\nlocal b = 1\n\n\nreturn b + c\n"
    (tmp_path / "c.lua").unlink()
    with pytest.raises(FileNotFoundError, match=r"c\.lua"):
        assemble("a", lua_texts(tmp_path))


def test_a_script_has_the_constants_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "a.lua").write_text("-- constants: MILLI, TIERS, MAIN_WRITER\nreturn MILLI\n")
    assert assemble("a", lua_texts(tmp_path)) == (
        "local MILLI, TIERS, MAIN_WRITER = 1000, { 'high', 'medium', 'low' }, '0'\nreturn MILLI\n"
    )
    (tmp_path / "a.lua").write_text("-- constants: MILLIS\n")
    with pytest.raises(KeyError, match="MILLIS"):
        assemble("a", lua_texts(tmp_path))


def test_forgotten_scripts_are_loaded_again(view: RedisView) -> None:
    Epochs(view).begin_epoch("e", 0, 1)
    before = view.command("HGETALL", view.keys.epoch)
    view.command("SCRIPT", "FLUSH")
    Registry(view).control.apply_all([("1", capacity(1)), ("2", capacity(2))])
    assert Registry(view).service.globals().capacity == 2
    view.command("SCRIPT", "FLUSH")
    assert not view.scripts.check()
    assert view.scripts.check()
    assert view.command("HGETALL", view.keys.epoch) == before, "Redis was not restarted, so nothing is lost"


def test_an_empty_redis_gets_no_epoch_from_a_restart(view: RedisView) -> None:
    view.command("SCRIPT", "FLUSH")
    Registry(view).control.apply("1", capacity(1))
    assert Epochs(view).epoch() is None


def grants_after_ms(view: RedisView) -> int:
    return int(view.command("HGET", view.keys.epoch, "grants_after_ms"))


def test_a_restart_with_data_waits_for_old_claims_and_reads_on(tmp_path: Path, open_at: Open) -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always", "--dir", str(tmp_path))
    port = free_port()
    view = open_at(f"redis://127.0.0.1:{port}/0")
    epochs, registry = Epochs(view), Registry(view)
    with running(*options, port=port):
        epochs.begin_epoch("e", 0, 1)
        epochs.epoch_announced("e", first=True, position="1")
        epochs.epoch_marked("e")
        view.command("HSET", view.keys.epoch, "read:0", "1")
        assert registry.control.move_cursor(None, "1", "e", marked=True)
        assert epochs.ready()
    with running(*options, port=port):
        before_ms = view.now_ms()
        registry.control.apply("1", capacity(1))
        found = epoch_of(epochs)
        assert found.id.startswith("e.")
        assert (found.announced, found.marked, found.ready, found.read) == (False, False, False, frozenset())
        assert found.wait_ms > 0
        assert grants_after_ms(view) - before_ms > 10_000
        assert grants_after_ms(view) - view.now_ms() <= 18_000
        assert registry.control.cursor() == "1"

        view.command("SCRIPT", "FLUSH")
        registry.control.apply("2", capacity(2))
        again = epoch_of(epochs)
        assert again.id == found.id


# ------------------------------------------------------------------------------------------- job locks


def test_a_job_has_one_holder(view: RedisView) -> None:
    locks = JobLocks(view)
    names = ["a", "b", "c", "d"]
    assert locks.hold(names, "w1", 60_000, 2, []) == {"a": "w1", "b": "w1"}
    assert locks.hold(names, "w2", 60_000, 1, []) == {"a": "w1", "b": "w1", "c": "w2"}
    assert locks.hold(names, "w2", 60_000, 1, ["b", "d"]) == {"a": "w1", "b": "w1", "c": "w2", "d": "w2"}
    locks.release(["a", "b", "d"], "w1")
    assert locks.hold(names, "w2", 60_000, 3, []) == {"a": "w2", "c": "w2", "d": "w2"}


def test_a_job_lock_that_is_not_renewed_is_free_again(view: RedisView) -> None:
    locks = JobLocks(view)
    locks.hold(["a"], "w1", 30, 1, [])
    eventually(lambda: locks.hold(["a"], "w2", 60_000, 1, []) == {"a": "w2"}, 10, "the lock is free")
    assert locks.hold(["a"], "w1", 60_000, 1, []) == {"a": "w2"}


# ------------------------------------------------------------------------------------------- heartbeats
def beat_of(worker: str, state: str = "serving") -> WorkerBeat:
    tiers = {"high": TierStats(1, 2, 3, [4])}
    return beat(worker, state, started_ms=1, lanes=3, buffered=5, rate=6.5, tiers=tiers, metrics_port=9, extra={"a": 1})


def test_heartbeats_are_judged_by_their_age(view: RedisView) -> None:
    workers = Workers(view)
    seen_ms = workers.beat(beat_of("fresh", "draining"))
    assert view.command("ZSCORE", view.keys.workers, "fresh") == seen_ms
    for name, state in (("quiet", "serving"), ("gone", "serving"), ("done", "stopped")):
        workers.beat(beat_of(name, state))
    now_ms = view.now_ms()
    ages_ms = {"fresh": -5_000, "quiet": 3_500, "gone": 11_000, "done": 11_000}
    view.command("ZADD", view.keys.workers, *(part for name, age in ages_ms.items() for part in (now_ms - age, name)))
    assert {beat.id: beat.state for beat in workers.workers()} == {
        "fresh": "draining",
        "quiet": "suspect",
        "gone": "lost",
        "done": "stopped",
    }
    assert {beat.id: beat.rate for beat in workers.workers()} == {"fresh": 6.5, "quiet": 6.5, "gone": 0.0, "done": 0.0}
    fresh = workers.workers()[1]
    assert fresh == msgspec.structs.replace(beat_of("fresh", "draining"), seen_ms=now_ms + 5_000)

    view.command("DEL", view.keys.worker("gone"), view.keys.worker("quiet"))
    assert [beat.id for beat in workers.workers()] == ["done", "fresh"]
    assert view.command("ZCARD", view.keys.workers) == 2


# ------------------------------------------------------------------------------------------- the feed


def test_a_waiting_reader_is_woken_by_a_change(view: RedisView) -> None:
    feed, registry = Feed(view, max_block_s=20), Registry(view)
    place, changes = feed.watch(None, 1)
    assert changes == []
    version = registry.service.read_state().version

    thread = threading.Thread(target=lambda: registry.control.apply("1", capacity(1)))
    thread.start()
    place, changes = feed.watch(place, 20_000)
    thread.join()
    assert changes == [FeedEntry("globals")]
    assert registry.service.read_state().version > version

    registry.control.apply("1", capacity(1))
    Epochs(view).begin_epoch("e", 0, 1)
    place, changes = feed.watch(place, 1)
    assert changes == [FeedEntry("epoch")]
    assert feed.watch(place, 1) == (place, [])
    feed.close()
