"""A death at any step leaves a log that undoes exactly, and a move that keeps failing holds up no other."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.settings import PulsarSettings
from dispatcher.model.errors import InvalidInput, NotFound, Refused
from estate.cli.handlers.moves import summary_of
from estate.facts.bundles import BundleAdmin
from estate.moves.logs import MoveLogs
from estate.moves.runner import FIRST_PAUSE_S, TRIES, Attempt, MoveProgress, MoveRunner, MoveState, move_bundle
from estate.plans.balance import Move, MovePlan
from fairlane.cli.base import exit_codes
from tests.unit.command_line import CommandLine
from tests.unit.dispatch.backends.estate_site import serving

BROKERS = ("a", "b", "c")
moves = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from(BROKERS), st.sampled_from(BROKERS)).filter(lambda m: m[1] != m[2]),
    unique_by=lambda move: move[0],
    max_size=10,
).map(lambda found: [Move(f"t/n/{number}", source, target) for number, source, target in found])


class Died(Exception):
    """The process was killed."""


class Cluster:
    """Owners of bundles, as attempts change them, and a process that is killed after some steps."""

    def __init__(self, owners: dict[str, str], where: Callable[[Move], str | None], dies_after: int = 10_000) -> None:
        """where: the owner after an unload; None: nothing happens."""
        self.owners, self._where, self._steps_left = owners, where, dies_after
        self.begun: list[Move] = []
        self._lock = threading.Lock()

    def step(self) -> bool:
        """Return True, unless the process dies at this step."""
        with self._lock:
            self._steps_left -= 1
            if self._steps_left < 0:
                raise Died
        return True

    def attempt(self, move: Move) -> Attempt:
        self.step()
        self.begun.append(move)
        if self.owners[move.bundle] != move.target:
            self.owners[move.bundle] = self._where(move) or self.owners[move.bundle]
        self.step()
        return Attempt(self.owners[move.bundle], "elsewhere")


def run(
    planned: list[Move], attempt: Callable[[Move], Attempt], at_once: int = 4, **more: Callable[..., object]
) -> list[MoveProgress]:
    """Carry out moves, each tried again at once."""
    return MoveRunner(planned, attempt, at_once, **{"sleep": lambda _: None, **more}).run()  # type: ignore[arg-type]


@given(moves, st.integers(0, 60), st.randoms(use_true_random=False), st.integers(1, 4))
def test_a_death_at_any_step_leaves_a_log_that_undoes_exactly(
    planned: list[Move], dies_after: int, random: Random, at_once: int
) -> None:
    before = {move.bundle: move.source for move in planned}
    cluster = Cluster(dict(before), lambda _: random.choice([*BROKERS, None]), dies_after)
    with TemporaryDirectory() as folder:
        logs = MoveLogs(Path(folder))
        try:
            with logs.log() as record:
                run(planned, cluster.attempt, at_once, record=lambda move: cluster.step() and record(move))
        except Died:
            [path] = Path(folder).glob("*.jsonl")
            path.write_bytes(path.read_bytes() + b'[2,2,"t/n')
        try:
            undo = logs.last()[1]
        except NotFound:
            undo = []
    moved = {bundle for bundle, owner in cluster.owners.items() if owner != before[bundle]}
    assert moved <= {move.bundle for move in undo}
    again = run(undo, Cluster(cluster.owners, lambda move: move.target).attempt)
    assert cluster.owners == before
    assert {each.state for each in again} <= {MoveState.VERIFIED}


@given(moves, st.integers(0, 20), st.integers(1, 4))
def test_after_a_stop_nothing_new_is_begun_and_what_was_begun_is_finished(
    planned: list[Move], looks: int, at_once: int
) -> None:
    cluster, seen = Cluster({move.bundle: move.source for move in planned}, lambda move: move.target), Counter[str]()

    def must_stop() -> bool:
        seen["looks"] += 1
        return seen["looks"] > looks

    states = {each.move.bundle: each.state for each in run(planned, cluster.attempt, at_once, must_stop=must_stop)}
    begun = {move.bundle for move in cluster.begun}
    assert states == {move.bundle: "verified" if move.bundle in begun else "skipped" for move in planned}


@given(moves, st.integers(1, 8))
def test_no_more_moves_are_under_way_than_allowed(planned: list[Move], at_once: int) -> None:
    under_way, most = Counter[str](), Counter[str]()

    def attempt(move: Move) -> Attempt:
        under_way["moves"] += 1
        most["moves"] = max(most["moves"], under_way["moves"])
        under_way["moves"] -= 1
        return Attempt(move.target)

    run(planned, attempt, at_once)
    assert most["moves"] <= at_once


@given(moves)
def test_a_move_is_recorded_before_it_is_begun(planned: list[Move]) -> None:
    recorded: list[Move] = []

    def attempt(move: Move) -> Attempt:
        assert move in recorded
        return Attempt(move.target)

    run(planned, attempt, record=recorded.append)
    assert sorted(recorded, key=planned.index) == planned


def test_a_move_is_tried_again_with_growing_pauses_and_then_given_up() -> None:
    pauses: list[float] = []
    [progress] = run([Move("t/n/0", "a", "b")], lambda _: Attempt("c", "Pulsar put it on c"), 1, sleep=pauses.append)
    assert pauses == [FIRST_PAUSE_S * 2**number for number in range(TRIES - 1)]
    assert (progress.state, progress.tries, progress.owner) == ("given up", TRIES, "c")
    assert progress.reason == "Pulsar put it on c"


def test_a_target_that_hangs_takes_only_its_part_of_the_moves() -> None:
    stuck = [Move(f"t/n/s{number}", "a", "b") for number in range(8)]
    others = [Move(f"t/n/o{number}", "a", "c") for number in range(8)]
    ended, hanging, goes_on = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

    def attempt(move: Move) -> Attempt:
        if move.target == "c":
            ended.release()
        else:
            hanging.release()
            goes_on.wait(10)
        return Attempt(move.target)

    runner = threading.Thread(target=run, args=([*stuck, *others], attempt, 4))
    runner.start()
    assert all(ended.acquire(timeout=10) for _ in others)
    assert all(hanging.acquire(timeout=10) for _ in range(4))  # the only target left takes the others' part
    goes_on.set()
    runner.join(10)
    assert not runner.is_alive()


@pytest.mark.timeout(20)
def test_an_interrupt_finishes_what_was_begun_and_is_raised() -> None:
    begun = threading.Event()

    def attempt(move: Move) -> Attempt:
        begun.set()
        assert released.wait(10)
        return Attempt(move.target)

    released = threading.Event()
    runner = MoveRunner([Move("t/n/0", "a", "b"), Move("t/n/1", "a", "b")], attempt, 1)
    threading.Thread(target=interrupt, args=(begun, released)).start()
    with pytest.raises(KeyboardInterrupt):
        runner.run()
    assert [(each.state, each.tries) for each in runner.progress] == [("verified", 1), ("skipped", 0)]


def interrupt(begun: threading.Event, released: threading.Event) -> None:
    """Press Ctrl-C while a move is under way."""
    begun.wait(10)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    time.sleep(0.1)
    released.set()


def test_a_log_that_cannot_be_written_ends_the_run_before_a_move_is_begun() -> None:
    def record(_: Move) -> None:
        raise OSError("the disk is full")

    runner = MoveRunner([Move("t/n/0", "a", "b")], lambda move: Attempt(move.target), record=record)
    with pytest.raises(OSError, match="disk is full"):
        runner.run()
    assert [each.tries for each in runner.progress] == [0]


# ---------------------------------------------------------------- logs
def test_the_last_run_is_undone_last_move_first_and_an_empty_one_is_none(tmp_path: Path) -> None:
    logs = MoveLogs(tmp_path)
    with logs.log() as record:
        record(Move("t/n/0", "a", "b"))
        record(Move("t/n/1", "a", "c"))
    path, undo = logs.last()
    assert undo == [Move("t/n/1", "c", "a"), Move("t/n/0", "b", "a")]
    (tmp_path / f"{path.stem}-later.jsonl").touch()
    assert logs.last() == (path, undo)
    path.unlink()
    with pytest.raises(NotFound):
        logs.last()


def test_a_run_is_stopped_by_another_process_and_holds_up_a_second_one(tmp_path: Path) -> None:
    logs, others = MoveLogs(tmp_path), MoveLogs(tmp_path)
    with pytest.raises(NotFound):
        others.stop()
    with logs.run() as must_stop:
        assert not must_stop()
        with pytest.raises(Refused, match="under way on this machine"), others.run():
            pass
        others.stop()
        assert must_stop()
    with logs.run() as must_stop:
        assert not must_stop()


@pytest.mark.parametrize("line", [b"", b"{}", b"[1]", b'[1,1,"x","a","b"]'])
def test_what_is_no_log_is_refused(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_bytes(line + b"\n")
    with pytest.raises(InvalidInput, match="line 1"):
        MoveLogs(tmp_path).last()


# ---------------------------------------------------------------- attempts
NOBODY = "127.0.0.1:1"
TARGET = "127.0.0.9:8080"
BUNDLE = "fairlane/tasks/0x00000000_0x80000000"
TOPIC = "persistent://fairlane/tasks/one"


def a_source(owners: Iterator[str]) -> dict[str, Any]:
    return {
        "lookup/v2/topic/persistent/fairlane/tasks/one": lambda _: {"httpUrl": f"http://{next(owners)}"},
        f"PUT namespaces/{BUNDLE}/unload?destinationBroker={TARGET.replace(':', '%3A')}": "",
    }


def try_to_move(configured: str, source: str, answered: list[str]) -> Attempt:
    settings = PulsarSettings(admin_url=f"http://{configured}")
    with BundleAdmin(settings) as admin:
        move = Move(BUNDLE, source, TARGET)
        return move_bundle(admin, {BUNDLE: [TOPIC]}, answered, move)


def test_a_move_succeeds_while_the_broker_at_the_configured_address_is_gone() -> None:
    with serving(a_source(iter(["source", TARGET]))) as source:
        assert try_to_move(NOBODY, source, [source]) == Attempt(TARGET)


def test_a_source_that_did_not_answer_is_not_asked() -> None:
    with serving(a_source(iter(["source", TARGET]))) as configured:
        assert try_to_move(configured, NOBODY, []) == Attempt(TARGET)


def test_topics_that_were_given_up_did_not_begin_new_ledgers(cli: CommandLine) -> None:
    command = ["--pulsar-admin-url", f"http://{NOBODY}", "estate", "spread", "--at-once", "64"]
    printed = cli(command, exit_codes.FAILURE)
    assert "0 of 29 topics began new ledgers." in printed.err
    assert printed.out.count("given up") == 29


def test_the_summary_of_a_run_counts_the_moves_that_were_made() -> None:
    plan = MovePlan((), {"a": 2.0, "b": 0.0}, {"a": 1.0, "b": 1.0})
    rows = [{"state": "verified"}, {"state": "given up"}]
    assert summary_of(plan, rows, "").startswith("1 of 2 moves were made; the spread is 200% of the mean load, 0%")
    assert summary_of(plan, [{}, {}], "").startswith("2 moves; the spread is")
