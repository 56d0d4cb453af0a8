"""Pages while Pulsar does not answer: the last figures with their age, greyed, and nobody waits."""

import threading
from collections.abc import Iterator

import pytest

from dispatcher.model.errors import Unreachable
from producers.fold_watch import SILENT_S, PulsarState
from tests.records import dead_letter
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.dispatch.producers.letter_world import LetterWorld
from tests.unit.web.console.browser import Seen, browsing
from tests.unit.web.console.test_workers import beat
from web.console.pages import PAGES

GONE = Unreachable("Pulsar at pulsar://10.0.0.1 does not answer.")
CAUSE = "Pulsar does not answer: no progress is recorded, and nothing can be changed."
PATHS = [page.path.replace("{id}", "sale") for page in PAGES]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.console.site.PATIENCE_S", 0.05)
    monkeypatch.setattr("web.console.shown.FRESH_S", 0.0)
    monkeypatch.setattr("web.console.shown.WAIT_S", 0.05)


@pytest.fixture
def world(world: DeskWorld) -> DeskWorld:
    world.submit("sale")
    beat(world)
    world.connection.letters.topic.append(dead_letter("sale", ["s1"], app="shop", at_ms=10**13))
    world.book.follow()
    return world


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Once this is set, who reads dead letters waits until the test is over."""
    hangs, is_over, read = threading.Event(), threading.Event(), LetterWorld.marks

    def marks(letters: LetterWorld, since_ms: int = 0) -> object:
        if hangs.is_set():
            is_over.wait(60)
        return read(letters, since_ms)

    monkeypatch.setattr(LetterWorld, "marks", marks)
    yield hangs
    is_over.set()


def silence(world: DeskWorld) -> None:
    """Let Pulsar be silent for a while."""
    world.connection.pulsar = GONE
    world.service.clock.advance(SILENT_S + 1)
    world.book.follow()
    world.connection.folds.follow()


def is_old(seen: Seen) -> bool:
    return seen.status == 200 and 'class="stale"' in seen.html and CAUSE in seen.text and "10.0.0.1" not in seen.text


@pytest.mark.parametrize("path", [path for path in PATHS if path not in ("/workers", "/runbooks")])
async def test_figures_are_greyed_with_their_age_until_pulsar_answers(world: DeskWorld, path: str) -> None:
    async with browsing(world) as browser:
        assert CAUSE not in (await browser.get(path)).text
        silence(world)
        seen = await browser.get(path)
        assert is_old(seen)
        assert "These figures are 6 s old. An operator sees why in fairlane doctor ." in seen.text
        assert "data-live" in seen.html, "it clears by itself"
        world.connection.pulsar = PulsarState(1, 2.0, {"control": (1, -1)})
        world.connection.folds.follow()
        assert CAUSE not in (await browser.get(path)).text


async def test_workers_are_seen_without_pulsar(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        silence(world)
        beat(world, "w2")
        seen = await browser.get("/workers")
    assert CAUSE in seen.text
    assert "w2" in seen.text
    assert 'class="stale"' not in seen.html, "heartbeats are in Redis"


async def test_figures_that_were_read_after_pulsar_was_lost_are_of_unknown_age(world: DeskWorld) -> None:
    world.connection.pulsar = GONE
    async with browsing(world) as browser:
        seen = await browser.get("/tasks")
    assert is_old(seen)
    assert "These figures may be old." in seen.text


async def test_letters_are_shown_as_they_were_while_pulsar_hangs(world: DeskWorld, hanging: threading.Event) -> None:
    async with browsing(world) as browser:
        await browser.get("/dead-letters?since=1d")
        hanging.set()
        silence(world)
        for _ in range(3):
            seen = await browser.get("/dead-letters?since=1d")
            assert is_old(seen)
            assert "s1" in seen.text


async def test_letters_of_which_nothing_is_known_say_what_is_missing(
    world: DeskWorld, hanging: threading.Event
) -> None:
    async with browsing(world) as browser:
        hanging.set()
        silence(world)
        for _ in range(3):
            seen = await browser.get("/dead-letters")
            assert f"{CAUSE} An operator sees why in fairlane doctor . Dead letters Nothing is known yet." in seen.text
        assert (await browser.get("/dead-letters?format=csv")).status == 503


async def test_reader_who_waits_when_pulsar_falls_silent_waits_no_longer(
    world: DeskWorld, hanging: threading.Event
) -> None:
    async with browsing(world) as browser:
        hanging.set()
        timer = threading.Timer(0.3, silence, [world])
        timer.start()
        assert CAUSE in (await browser.get("/dead-letters")).text
        timer.join()


async def test_form_changes_nothing_while_pulsar_is_silent_and_keeps_what_was_typed(
    world: DeskWorld, hanging: threading.Event
) -> None:
    steps = len(world.service.log)
    async with browsing(world) as browser:
        silence(world)
        seen = await browser.confirm("/tasks/sale/change", {"do": "set", "weight": "7"})
        assert seen.status == 503
        assert f"This was not done {CAUSE}" in seen.text
        assert 'name="weight" value="7"' in seen.html
        hanging.set()
        assert "This was not done" in (await browser.send("/dead-letters/drop", {"app": "shop"})).text
    assert len(world.service.log) == steps


async def test_figures_of_a_board_that_lags_are_greyed(world: DeskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    late = world.board.age()._replace(age_s=12.0)
    monkeypatch.setattr(world.board, "age", lambda _app="": late)
    async with browsing(world) as browser:
        for path in ("/", "/tasks", "/limits", "/apps"):
            seen = await browser.get(path)
            assert 'class="stale"' in seen.html, path
            assert "This server is slow to read the tasks. These figures are 12 s old." in seen.text
