"""A stop at any step leaves a journal that undoes exactly, and a move that keeps failing holds up no other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput
from estate.balance import Move
from estate.journal import JournalEntry, MoveEvent, journal_line, parse_journal
from estate.moves import MoveWindow, WindowSettings, undo_of

BROKERS = ("a", "b", "c")
moves = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from(BROKERS), st.sampled_from(BROKERS)).filter(lambda m: m[1] != m[2]),
    unique_by=lambda move: move[0],
    max_size=10,
).map(lambda found: [Move(f"t/n/{number}", source, target) for number, source, target in found])


@dataclass
class Cluster:
    """Owners of bundles, and a journal that is written as lines of a file."""

    owners: dict[str, str]
    content: bytes = b""
    begun: list[Move] = field(default_factory=list)

    def record(self, entry: JournalEntry) -> None:
        self.content += journal_line(entry, 1_000)

    def unload(self, move: Move, where: str) -> None:
        """Let Pulsar put a bundle where it likes."""
        self.begun.append(move)
        self.owners[move.bundle] = where


def run(
    cluster: Cluster, window: MoveWindow, where: Callable[[Move], str | None], steps: int = 10_000, stop_at: int = -1
) -> None:
    """Carry out moves, each tried at once, for some steps. where: the owner after an unload; None: nothing happens."""
    now_ms = 0.0
    under_way: list[Move] = []
    for step in range(steps):
        if step == stop_at:
            window.stop()
        move = window.next_move(now_ms)
        if move is not None:
            under_way.append(move)
            owner = move.target if cluster.owners[move.bundle] == move.target else where(move)
            if owner is not None:
                cluster.unload(move, owner)
        elif under_way:
            ended = under_way.pop(0)
            window.report(ended.bundle, cluster.owners[ended.bundle], now_ms, "elsewhere")
        elif window.ended:
            return
        else:
            now_ms += window.wait_ms(now_ms)


@given(moves, st.integers(0, 60), st.randoms(use_true_random=False), st.integers(1, 4))
def test_a_death_at_any_step_leaves_a_journal_that_undoes_exactly(
    planned: list[Move], dies_at: int, random: Random, at_once: int
) -> None:
    before = {move.bundle: move.source for move in planned}
    cluster = Cluster(dict(before))
    settings = WindowSettings(at_once=at_once, tries=3)
    run(cluster, MoveWindow(planned, cluster.record, settings), lambda _: random.choice([*BROKERS, None]), dies_at)
    undo = undo_of(parse_journal(cluster.content + b'[1,2,{"event":"pl'))
    moved = {bundle for bundle, owner in cluster.owners.items() if owner != before[bundle]}
    assert moved <= {move.bundle for move in undo}
    again = MoveWindow(undo, cluster.record)
    run(cluster, again, lambda move: move.target)
    assert cluster.owners == before
    assert {one.state for one in again.progress} <= {"verified"}


@given(moves, st.integers(0, 30), st.integers(1, 4))
def test_after_a_stop_nothing_new_is_begun_and_what_was_begun_is_finished(
    planned: list[Move], stop_at: int, at_once: int
) -> None:
    cluster = Cluster({move.bundle: move.source for move in planned})
    window = MoveWindow(planned, cluster.record, WindowSettings(at_once=at_once))
    run(cluster, window, lambda move: move.target, stop_at=stop_at)
    assert window.ended
    states = {one.move.bundle: one.state for one in window.progress}
    begun = {move.bundle for move in cluster.begun}
    assert {bundle for bundle, state in states.items() if state == "verified"} == begun
    assert {bundle for bundle, state in states.items() if state == "skipped"} == set(states) - begun


@given(moves, st.integers(1, 8))
def test_no_more_moves_are_under_way_than_allowed(planned: list[Move], at_once: int) -> None:
    window = MoveWindow(planned, lambda _: None, WindowSettings(at_once=at_once))
    begun = 0
    while window.next_move(0) is not None:
        begun += 1
    assert begun <= at_once


@given(moves)
def test_the_journal_has_every_transition_before_it_happens(planned: list[Move]) -> None:
    entries: list[JournalEntry] = []
    window = MoveWindow(planned, entries.append)
    while (move := window.next_move(0)) is not None:
        assert (entries[-1].event, entries[-1].bundle) == (MoveEvent.SUBMIT, move.bundle)
        window.report(move.bundle, move.target, 0)
        assert (entries[-1].event, entries[-1].owner) == (MoveEvent.FOUND, move.target)


def test_a_move_is_tried_again_with_growing_pauses_and_then_given_up() -> None:
    move = Move("t/n/0", "a", "b")
    window = MoveWindow([move], lambda _: None, WindowSettings(tries=3))
    now_ms, pauses = 0.0, []
    while not window.ended:
        assert window.next_move(now_ms) == move
        assert window.next_move(now_ms) is None
        window.report(move.bundle, "c", now_ms, "Pulsar put it on c")
        if not window.ended:
            pauses.append(window.wait_ms(now_ms))
            now_ms += pauses[-1]
    assert pauses == [100, 200]
    [one] = window.progress
    assert (one.state, one.tries, one.owner, one.reason) == ("given up", 3, "c", "Pulsar put it on c")


def test_a_target_that_hangs_takes_only_its_part_of_the_window() -> None:
    stuck = [Move(f"t/n/s{number}", "a", "b") for number in range(8)]
    others = [Move(f"t/n/o{number}", "a", "c") for number in range(8)]
    window = MoveWindow([*stuck, *others], lambda _: None, WindowSettings(at_once=4))
    ended = 0
    while (move := window.next_move(0)) is not None:
        if move.target == "c":
            window.report(move.bundle, "c", 0)
            ended += 1
    assert ended == 8
    assert sum(one.state == "submitted" for one in window.progress) == 4  # the only target left may take it all


def test_a_report_about_a_move_that_is_not_under_way_is_an_error() -> None:
    window = MoveWindow([Move("t/n/0", "a", "b")], lambda _: None)
    with pytest.raises(ValueError, match="planned cannot found"):
        window.report("t/n/0", "b", 0)


def test_a_bundle_that_is_moved_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match="twice"):
        MoveWindow([Move("t/n/0", "a", "b"), Move("t/n/0", "b", "c")], lambda _: None)


@pytest.mark.parametrize("bounds", [{"at_once": 0}, {"at_once": 65}, {"tries": 0}])
def test_bounds_that_cannot_be_are_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        WindowSettings(**bounds)


@pytest.mark.parametrize("line", [b"", b"{}", b"[1]", b'[2,1,{"event":"plan","bundle":"x","source":"a","target":"b"}]'])
def test_what_is_no_journal_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidInput, match="line 1"):
        parse_journal(line + b"\n")


@given(moves)
def test_entries_are_read_as_they_were_written(planned: list[Move]) -> None:
    entries: list[JournalEntry] = []
    MoveWindow(planned, entries.append)
    assert parse_journal(b"".join(journal_line(entry, 5) for entry in entries)) == entries
