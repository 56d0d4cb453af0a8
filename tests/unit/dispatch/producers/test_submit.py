"""A submission: every accepted target is in the lane, whatever dies on the way, and nothing else is."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.model.errors import AudienceMismatch, InvalidInput, TaskEnded, Unreachable
from dispatcher.model.task import PushTask
from dispatcher.wire.control import Checkpoint, Sealed, TaskRecord
from dispatcher.wire.envelope import decode_message
from dispatcher.wire.topics import Topics
from producers.files.targets_file import TargetsFile
from producers.ports import CheckpointPace, WindowPace
from producers.submit.cutter import Slab
from producers.submit.intake import AudienceRules
from producers.submit.report import SubmitProgress, SubmitResult, Watchers
from producers.submit.submit import submit
from producers.submit.validation import Refusal
from tests.unit.dispatch.producers.fake_service import LANE, Died, FakeService, breaking, slabs
from tests.unit.dispatch.producers.submitters import delivered_of

SMALL = WindowPace(first_targets=4, targets=8)


def push(**fields: Any) -> PushTask:
    return PushTask(
        **{"id": "t", "app": "shop", "tier": "high", "channel": "log", "message": "Hi", "chunk": 2, **fields}
    )


def sent(world: FakeService, lane: str = LANE) -> list[str]:
    return [target for envelope in world.envelopes(lane) for target in envelope.targets]


def run(
    world: FakeService,
    task: PushTask,
    targets: Any,
    watchers: Watchers | None = None,
    windows: WindowPace = SMALL,
    rules: AudienceRules = AudienceRules(),
) -> SubmitResult:
    return submit(world.services(windows=windows), task, targets, watchers or Watchers(), rules)


def test_the_record_and_the_lane_come_before_the_first_envelope_and_the_seal_after_the_last(world: FakeService) -> None:
    result = run(world, push(), ["a", "b", "c"])
    order = {step: number for number, step in enumerate(world.steps)}
    assert max(order["append TaskRecord"], order["create"]) < order["apply TaskRecord"]
    steps = ["create", "open", "send", "flush", "append Sealed", "apply Sealed"]
    assert sorted(steps, key=order.__getitem__) == steps
    assert sent(world) == ["a", "b", "c"]
    assert (result.task, result.accepted, result.refused, result.envelopes, result.stopped) == ("t", 3, 0, 2, "")


def test_what_is_sent_is_what_was_given(world: FakeService) -> None:
    run(world, push(message={"title": "T"}, ttl_s=60, max_attempts=3, channel="http"), ["a"])
    envelope = world.envelopes(LANE)[0]
    now_ms = world.services().clock.wall_ms()
    assert decode_message(envelope.message) == {"title": "T"}
    assert (envelope.app, envelope.channel, envelope.max_attempts) == ("shop", "http", 3)
    assert envelope.expires_ms == now_ms + 60_000


def test_targets_are_sent_and_compared_in_their_canonical_form(world: FakeService) -> None:
    tokens = [("ab" if number % 3 else "AB") * 31 + f"{number:02X}" for number in range(10, 26)]
    remove = AudienceRules(duplicates="remove")
    result = run(world, push(channel="apns"), [*tokens, f" {tokens[0].swapcase()}"], rules=remove)
    assert (result.accepted, result.duplicates) == (16, 1)
    assert sent(world) == [token.lower() for token in tokens]
    assert run(world, push(channel="apns"), [token.upper() for token in tokens], rules=remove).accepted == 16


def test_of_an_audience_that_comes_gradually_one_target_is_taken_before_its_task_is_known(world: FakeService) -> None:
    steps: list[list[str]] = []

    def audience() -> Iterator[str]:
        for target in ("a a", "b", "c"):
            steps.append(list(world.steps))
            yield target

    run(world, push(), audience())
    assert steps[:2] == [[], []]
    assert "apply TaskRecord" in steps[2]
    assert "open" not in steps[2]
    assert sent(world) == ["b", "c"]


def test_a_small_low_task_goes_to_its_shared_lane_and_creates_none(world: FakeService) -> None:
    run(world, push(tier="low", expected_targets=3), ["a", "b", "c"])
    assert sent(world, Topics().shared_lane_of("t")) == ["a", "b", "c"]
    assert "create" not in world.steps


def test_the_length_of_the_audience_is_its_expected_size(world: FakeService) -> None:
    run(world, push(tier="low", id="sized"), ["a"])
    run(world, push(tier="low", id="streamed"), iter(["a"]))
    sized, streamed = world.records_of(TaskRecord)
    assert (sized.expected_targets, sized.shared) == (1, True)
    assert (streamed.expected_targets, streamed.shared) == (-1, False)


def test_a_task_without_an_id_is_given_one_at_each_submit(world: FakeService) -> None:
    services, task = world.services(), push(id=None)
    ids = [submit(services, task, ["a"], Watchers()).task for _ in range(2)]
    assert ids == ["made-1", "made-2"]


def test_refused_targets_are_told_with_their_lines_and_do_not_stop_the_rest() -> None:
    world, reported = FakeService(), list[Refusal]()
    result = run(world, push(), ["a", "b b", "c", ""], Watchers(on_refused=reported.append))
    assert sent(world) == ["a", "c"]
    assert [refusal.line for refusal in reported] == [2, 4]
    assert result.refusals == tuple(reported)
    assert result.refused == 2


def test_only_the_first_refusals_are_kept_but_all_are_counted() -> None:
    result = run(FakeService(), push(), ["x x"] * 1_000 + ["good"])
    assert (result.refused, len(result.refusals)) == (1_000, 100)


def test_progress_is_told_at_the_end() -> None:
    reported: list[SubmitProgress] = []
    run(FakeService(), push(), ["a", "b b"], Watchers(on_progress=reported.append))
    assert (reported[-1].accepted, reported[-1].refused) == (1, 1)


def test_a_start_that_is_past_or_far_ahead_is_refused_for_a_new_task_only(world: FakeService) -> None:
    now_s = world.clock.wall_ms() / 1000
    past, soon = (datetime.fromtimestamp(now_s + after_s, UTC) for after_s in (-120, 30))
    for start_at, complaint in ((past, r"20\S+\+00:00 is past"), ("2099-01-01T00:00:00Z", "")):
        with pytest.raises(InvalidInput, match=f"start_at: {complaint}"):
            run(world, push(start_at=start_at), ["a"])
    assert world.steps == []
    run(world, push(start_at=soon), ["a"])
    world.clock.advance(3_600)
    assert run(world, push(start_at=soon), ["a"]).accepted == 1


@pytest.mark.parametrize(
    ("name", "text", "where", "expected"),
    [
        ("a.txt", "a\nb\n\n\nc\n\n", None, 5),
        ("a.csv", "token,n\na,1\nb,2\nc,3", None, 3),
        ("a.csv", "token,n\r\na,1\r\nb,2\r\n", None, 2),
        ("a.txt", "a\rb\rc\r", None, 3),
        ("a.csv", "token,n\na,1\nb,2\nc,3", {"n": "1"}, -1),
        ("a.jsonl", '"a"\n"b"\n', None, 2),
        ("a.json", '["a",\n"b"]', None, -1),
    ],
)
def test_the_lines_of_a_file_are_its_expected_size(
    world: FakeService, tmp_path: Path, name: str, text: str, where: dict[str, str] | None, expected: int
) -> None:
    """So that limits of its app apply to it, and chunk and lane suit it."""
    (tmp_path / name).write_text(text)
    run(world, push(), TargetsFile(tmp_path / name, where=where))
    assert [record.expected_targets for record in world.records_of(TaskRecord)] == [expected]


def test_a_limit_of_rows_and_a_known_size_count_before_the_lines(world: FakeService, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\nb\nc\n")
    run(world, push(id="limited"), TargetsFile(tmp_path / "a.txt", limit=2))
    run(world, push(id="known", expected_targets=7), TargetsFile(tmp_path / "a.txt"))
    assert [record.expected_targets for record in world.records_of(TaskRecord)] == [2, 7]


# ----------------------------------------------------------------- resuming


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["a", "bb", "ccc", "bad one"]), max_size=40),
    st.integers(1, 5),
    st.integers(1, 9),
    st.lists(st.integers(0, 30), max_size=3),
)
def test_a_submission_that_died_anywhere_any_number_of_times_is_completed_by_submitting_again(
    words: list[str], chunk: int, slab: int, deaths: list[int]
) -> None:
    audience = [f"{word}{number}" for number, word in enumerate(words)]
    good = [target for target in audience if " " not in target]
    world = FakeService()
    for at in deaths:
        world.die_after(at)
        with suppress(Died):
            run(world, push(chunk=chunk), slabs(audience, slab), rules=AudienceRules(allow_empty=True))
    world.recover()
    result = run(world, push(chunk=chunk), slabs(audience, slab), rules=AudienceRules(allow_empty=True))
    assert (result.accepted, result.refused) == (len(good), len(audience) - len(good))
    assert delivered_of(world) == good
    assert [record.targets for record in world.records_of(Sealed)] == [len(good)]


def test_only_what_came_after_the_last_checkpoint_is_sent_again() -> None:
    world, audience = FakeService(), [f"t{number}" for number in range(40)]

    cut_short = SimpleNamespace(slabs=lambda unit: breaking(slabs(audience, 4).slabs(unit), Died()))
    with pytest.raises(Died):
        run(world, push(), cut_short)
    point = world.records_of(Checkpoint)[-1]
    before = len(world.lanes[LANE])
    result = run(world, push(), slabs(audience, 4))
    assert result.resumed_from == point.sequence > 0
    assert len(world.lanes[LANE]) == before + 20 - point.sequence


def test_the_caller_is_told_how_to_go_on() -> None:
    with pytest.raises(ValueError, match="source") as caught:
        run(FakeService(), push(), breaking(["a"], ValueError("the source broke")))
    assert "id='t' again" in caught.value.__notes__[0]


def submitted_in_part(audience: list[str]) -> FakeService:
    """Died before the seal, everything else stored."""
    world = FakeService()
    world.fail_at("append Sealed", Died())
    with pytest.raises(Died):
        run(world, push(), slabs(audience, 4))
    world.recover()
    assert world.records_of(Checkpoint)
    return world


@pytest.mark.parametrize(
    "other",
    [["x", *"bcdefghijklm"], list("bacdefghijklm"), list("abc"), [], [*"abcdefgh", *"zzzzzzzz"][1:]],
)
def test_another_audience_under_the_same_id_is_refused(other: list[str]) -> None:
    world = submitted_in_part(list("abcdefghijklm"))
    before = len(world.lanes[LANE])
    with pytest.raises(AudienceMismatch):
        run(world, push(), other)
    assert len(world.lanes[LANE]) == before


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("message", "Other"), ("tier", "low"), ("app", "news"), ("channel", "http"), ("chunk", 3), ("ttl_s", 9),
        ("weight", 2), ("cap", 5), ("max_attempts", 2), ("hold_until_sealed", True),
    ],
)  # fmt: skip
def test_another_task_under_the_same_id_is_refused_and_what_differs_is_named(field: str, value: object) -> None:
    world = FakeService()
    run(world, push(), ["a"])
    with pytest.raises(AudienceMismatch, match=field):
        run(world, push(**{field: value}), ["a"])


def test_another_expected_size_is_no_other_task(world: FakeService) -> None:
    run(world, push(), ["a"])
    assert run(world, push(expected_targets=9), ["a"]).accepted == 1


def test_a_complete_submission_is_only_verified(world: FakeService) -> None:
    first = run(world, push(), ["a", "b b", "c"])
    world.steps.clear()
    again = run(world, push(), ["a", "b b", "c"])
    assert world.steps == []
    assert (again.accepted, again.refused) == (first.accepted, first.refused) == (2, 1)
    assert again.resumed_from == again.envelopes
    for other in (["a"], ["a", "c", "d"], ["c", "a"]):
        with pytest.raises(AudienceMismatch):
            run(world, push(), other)


def test_a_finished_task_is_still_verified(world: FakeService) -> None:
    run(world, push(), ["a"])
    world.finish("t")
    assert run(world, push(), ["a"]).accepted == 1


# ----------------------------------------------------------------- cancelled, and servers that are away


def test_a_cancelled_task_takes_no_more_targets() -> None:
    world = submitted_in_part(list("abcdefgh"))
    world.cancel("t")
    with pytest.raises(TaskEnded, match="cancelled"):
        run(world, push(), list("abcdefgh"))


def test_a_submission_notices_that_its_task_is_cancelled(world: FakeService) -> None:
    class Endless:
        def slabs(self, unit: int) -> Iterator[Any]:
            for number in range(1, 10**7):
                if number == 50:
                    world.cancel("t")
                yield Slab(["a", "b"], number)

    result = run(world, push(), Endless())
    assert result.stopped == "cancelled"
    assert not world.records_of(Sealed)


def test_a_lane_that_vanishes_under_a_cancelled_task_is_no_failure(world: FakeService) -> None:
    def fault(step: str) -> None:
        if step == "flush":
            world.cancel("t")
            raise Unreachable("The topic is gone.")

    world.fault = fault
    assert run(world, push(), ["a"]).stopped == "cancelled"


def test_of_a_cancelled_task_those_targets_are_accepted_that_get_outcomes() -> None:
    """It counts what was published when the last checkpoint was stored, and drops the rest."""
    world = submitted_in_part(list("abcd"))

    def fault(step: str) -> None:
        if step == "flush":
            world.cancel("t")
            raise Unreachable("The topic is gone.")

    world.fault = fault
    never = CheckpointPace(first_s=3_600, shortest_s=3_600, longest_s=3_600)
    result = submit(replace(world.services(SMALL), pace=never), push(), list("abcdefgh"), Watchers())
    assert sent(world) == list("abcdefgh")
    counted = world.services().registry.tasks.task("t")
    assert counted is not None
    assert (result.stopped, result.accepted, counted.targets.total) == ("cancelled", 4, 4)
