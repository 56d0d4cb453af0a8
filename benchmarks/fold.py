"""The largest calls of Redis' scripts under mixed outcomes, and how long they take on an idle Redis."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import mixed_channel
from benchmarks.script_calls import Recording, recording, replay
from benchmarks.stage import Stage, stage, targets
from dispatcher.model.task import PushTask
from fairlane.settings import Settings

WORKERS = 2
REPLAYS = 3
SHOWN = 4
"""Number of scripts whose longest call is shown."""
SHAPES = {500: 1, 50: 10, 1: 50}
"""Targets per envelope -> part of all targets: one task for each."""


@dataclass(frozen=True)
class Outcomes:
    """Size and seed of the audience."""

    count: int
    """Targets of the largest task."""
    seed: int


def send(scene: Stage, load: Outcomes) -> None:
    """Send all tasks; return once they are completed."""
    audience = targets(load.count, load.seed)
    handles = []
    for chunk, part in SHAPES.items():
        some = audience[: load.count // part]
        task = PushTask(
            app="bench", tier="high", channel=mixed_channel.NAME, message={"body": "x"},
            expected_targets=max(len(some), 5_001), chunk=chunk,
        )  # fmt: skip
        handles.append(scene.client.submit(task, some))
    scene.start_workers(WORKERS)
    for handle in handles:
        done = handle.wait(300).targets
        scene.say(f"{done.sent:,} sent, {done.invalid:,} invalid, {done.failed:,} failed")


def figures(recorded: Recording) -> dict[str, float]:
    """Return the largest calls, and the longest of each script; for each call, the shortest of several replays."""
    folds = recorded.of("fold")
    sizes = [call.envelopes() for call in folds]
    took_ms = map(min, zip(*(replay(recorded.calls) for _ in range(REPLAYS)), strict=True))
    longest: dict[str, float] = {}
    for call, ms in zip(recorded.calls, took_ms, strict=True):
        longest[call.name] = max(ms, longest.get(call.name, 0.0))
    slowest = sorted(longest, key=lambda name: longest[name], reverse=True)
    return {
        "fold_calls": len(folds),
        "fold_commands": max(call.commands for call in folds),
        "fold_envelopes_one_by_one": max(each for each, _ in sizes),
        "fold_envelopes_in_runs": max(run for _, run in sizes),
        **{f"longest_ms_{name}": longest[name] for name in slowest[:SHOWN]},
    }


def run(settings: Settings, load: Outcomes, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run: a backlog with three sizes of envelopes, two workers, and a provider with mixed outcomes.

    The provider refuses a fifth of all first attempts and reports a tenth of all targets as dead.
    """
    with stage(settings, say) as scene:
        scene.crew.environment.update(mixed_channel.environment())
        with recording(scene.settings.redis) as recorded:
            send(scene, load)
    return figures(recorded)
