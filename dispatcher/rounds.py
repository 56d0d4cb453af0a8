"""One round of an envelope: which of its open targets are sent, and what the next round holds of it."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from dispatcher.retry import JITTER, NextStep, TargetState, next_step, step_of_waiting, step_without_call
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.groups import MAX_DUES, TargetGroup, pack_positions, unpack_positions
from dispatcher.wire.outcome import OPEN_NAMES, Report
from dispatcher.wire.topics import RETRY_STEPS_S

Groups = Sequence[TargetGroup] | None


def targets_due(groups: Sequence[TargetGroup], due_ms: int) -> int:
    """Return the number of targets that are due at this time."""
    return sum(group.count for group in groups if group.due_ms <= due_ms)


def turn_of(groups: Sequence[TargetGroup], wall_ms: int, *, reopened: bool) -> int:
    """Return the latest due time of the targets that may be sent now; -1 if none may.

    reopened: whether a pause of their flow was ended before its time. Then targets that wait for it may be sent, up to
    the first that waits for a time of its own: the targets of a round are told from the others by their due times.
    """
    turn_ms = -1
    for group in sorted(groups, key=lambda group: (group.due_ms, group.waits_for_flow)):
        if group.due_ms > wall_ms and not (reopened and group.waits_for_flow):
            break
        turn_ms = group.due_ms
    return turn_ms


def states_of(envelope: Envelope, groups: Groups) -> list[TargetState]:
    """Return the state of each target. Without groups, none has been tried and all are due."""
    if groups is None:
        return [TargetState()] * len(envelope.targets)
    states: dict[int, TargetState] = {}
    for group in groups:
        state = TargetState(
            tries=group.tries,
            due_ms=group.due_ms,
            first_ms=group.first_ms,
            is_lost=group.is_lost,
            waits_for_flow=group.waits_for_flow,
            paused_ms=group.paused_ms,
        )
        states.update(dict.fromkeys(unpack_positions(group.positions), state))
    return [states.get(envelope.position(i), TargetState()) for i in range(len(envelope.targets))]


def called_targets(envelope: Envelope, groups: Groups, due_ms: int) -> list[int]:
    """Return the indexes of the targets that are sent in this round."""
    if groups is None:
        return list(range(len(envelope.targets)))
    states = enumerate(states_of(envelope, groups))
    return [i for i, state in states if state.due_ms <= due_ms and step_without_call(envelope, state) is None]


def steps_after(envelope: Envelope, groups: Groups, due_ms: int, report: Report, at_ms: int) -> list[NextStep]:
    """Return the next step of each target of the envelope, after a report on those that were sent."""
    states = states_of(envelope, groups)
    if groups is None:
        return _steps_of_called(envelope, states, report, at_ms)
    called = called_targets(envelope, groups, due_ms)
    steps = [
        step_of_waiting(envelope, state)
        if state.due_ms > due_ms
        else step_without_call(envelope, state) or step_of_waiting(envelope, state)
        for state in states
    ]
    after = _steps_of_called(envelope, [states[i] for i in called], report, at_ms)
    for i, step in zip(called, after, strict=True):
        steps[i] = step
    return steps


def _steps_of_called(envelope: Envelope, states: Sequence[TargetState], report: Report, at_ms: int) -> list[NextStep]:
    known: dict[TargetState, NextStep] = {}
    steps: list[NextStep] = []
    for state in states:
        if state not in known:
            known[state] = next_step(envelope, state, report.verdict, at_ms)
        steps.append(known[state])
    for index, verdict in (report.exceptions or {}).items():
        if 0 <= index < len(steps):
            steps[index] = next_step(envelope, states[index], verdict, at_ms)
    return steps


def open_indexes(steps: Sequence[NextStep]) -> list[int]:
    """Return the indexes of the targets without an outcome."""
    return [i for i, step in enumerate(steps) if step.code in OPEN_NAMES]


def groups_after(envelope: Envelope, steps: Sequence[NextStep], indexes: Sequence[int]) -> list[TargetGroup]:
    """Return the groups of the targets at `indexes`, earliest first.

    There are at most MAX_DUES due times: one in between is rounded up. Targets with as many tries and the same due time
    that all wait for their flow, or none, share the time of their first call.
    """
    dues = _rounded_up(sorted({steps[i].state.due_ms for i in indexes}))
    members: dict[tuple[int, int, bool], list[int]] = {}
    for i in indexes:
        state = steps[i].state
        members.setdefault((dues[state.due_ms], state.tries, state.waits_for_flow), []).append(i)
    return [
        TargetGroup(
            positions=pack_positions([envelope.position(i) for i in group], envelope.size),
            tries=tries,
            due_ms=due_ms,
            first_ms=min((first_ms for i in group if (first_ms := steps[i].state.first_ms)), default=0),
            waits_for_flow=waits_for_flow,
        )
        for (due_ms, tries, waits_for_flow), group in sorted(members.items())
    ]


def _rounded_up(dues: list[int]) -> Mapping[int, int]:
    """Return for each due time, in order, the time to which it is rounded up. The first and the last are kept."""
    kept = list(dues)
    while len(kept) > MAX_DUES:
        gaps = [later - due for due, later in pairwise(kept[1:])]
        del kept[1 + gaps.index(min(gaps))]
    return {due: next(later for later in kept if later >= due) for due in dues}


class RetryWait(NamedTuple):
    """A stay in a retry lane."""

    step_s: int
    """Delay of the lane."""
    leaves_ms: int
    """Wall time when it ends. A target may be due later: then the envelope goes round the lane again."""


def retry_wait(groups: Sequence[TargetGroup], at_ms: int) -> RetryWait:
    """Return where an envelope waits for its earliest target: the lane with the next longer delay, jitter included."""
    wait_ms = max(0, min(group.due_ms for group in groups) - at_ms)
    step_s = next((step for step in RETRY_STEPS_S if wait_ms <= longest_stay_ms(step)), RETRY_STEPS_S[-1])
    return RetryWait(step_s, at_ms + min(wait_ms, longest_stay_ms(step_s)))


def longest_stay_ms(step_s: int) -> int:
    """Return the longest stay in the retry lane of a step."""
    return int(step_s * 1000 * (1 + JITTER))
