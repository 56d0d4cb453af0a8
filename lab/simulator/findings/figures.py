"""Compute the printed figures of a run from its events."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate

from dispatcher.model.pools import TOTAL
from dispatcher.model.tier import TIERS
from dispatcher.wire.outcome import OUTCOME_NAMES, CloseTask, Outcomes, Run, decode_record
from lab import laws
from lab.simulator.findings.result import CapFigure, GapFigure, Result, TaskFigure, TierFigure, Windows
from lab.simulator.findings.run_log import Amount
from lab.simulator.run.run import SimulatedRun
from spark_jobs.journal.first_outcomes import FirstOutcomes

FORMAT = 1
MIN_WINDOW_US = 250_000
"""The minimum length of the windows in which the use of capacity is measured."""
ENVELOPES_EACH = 20
"""Jain's index needs time to send every task this many envelopes: with fewer it says little about fairness."""


class Figures:
    """Computes the figures of one run, which ended at end_us."""

    def __init__(self, run: SimulatedRun) -> None:
        self.run = run
        self.scenario = run.scenario
        self.journal = run.service.journal
        self.end_us = max(1, run.service.agenda.now_us)
        self.window_us = int(run.scenario.window_s * 1e6)
        self.count = -(-self.end_us // self.window_us)
        self.weights = {str(tier): float(weight) for tier, weight in run.scenario.tiers.items()}
        self.by_tier: dict[str, list[Amount]] = {str(tier): [] for tier in TIERS}
        self.by_task: defaultdict[str, list[Amount]] = defaultdict(list)
        for amount in self.journal.sent:
            self.by_tier[amount.tier].append(amount)
            self.by_task[amount.task].append(amount)

    # ------------------------------------------------------------- tiers
    def windows(self) -> Windows:
        sent = {
            tier: laws.sums_by_window(_timed_targets(amounts), self.window_us, self.count)
            for tier, amounts in self.by_tier.items()
        }
        parts = [laws.shares({tier: sent[tier][index] for tier in sent}) for index in range(self.count)]
        return Windows(self.scenario.window_s, sent, {tier: [round(part[tier], 2) for part in parts] for tier in sent})

    def tiers(self) -> dict[str, TierFigure]:
        sent = {tier: sum(amount.targets for amount in amounts) for tier, amounts in self.by_tier.items()}
        published: Counter[str] = Counter()
        for amount in self.journal.published:
            published[amount.tier] += amount.targets
        parts = laws.shares(sent)
        return {
            tier: TierFigure(
                weight=self.weights[tier],
                published=published[tier],
                sent=sent[tier],
                share=round(parts[tier], 2),
                jain=self._lowest_jain(tier),
                longest_gap=self._longest_gap(tier),
            )
            for tier in sent
        }

    def _longest_gap(self, tier: str) -> GapFigure | None:
        turns = [laws.SendTurn(amount.at_us, amount.tier, amount.targets) for amount in self.journal.sent]
        arrivals = _timed_targets(amount for amount in self.journal.published if amount.tier == tier)
        gap = laws.longest_gap(turns, {tier: arrivals}, tier, self.weights)
        return None if gap is None else GapFigure(gap.targets, round(gap.bound, 1), gap.at_us / 1e6)

    # ------------------------------------------------------------- tasks within a tier
    def _lowest_jain(self, tier: str) -> float | None:
        """Return the lowest Jain index of a tier's tasks in any time span that is long enough.

        Only tasks count that had a backlog throughout and have no cap of their own.
        """
        indexes = [
            self._jain_between(tier, since_us, since_us + step_us)
            for step_us in (5_000_000, 20_000_000, 60_000_000)
            for since_us in range(0, self.end_us - step_us + 1, step_us)
        ]
        known = [index for index in indexes if index is not None]
        return min(known) if known else None

    def _jain_between(self, tier: str, from_us: int, to_us: int) -> float | None:
        tasks = [name for name in self._tasks_of(tier) if self._has_backlog(name, from_us, to_us)]
        specs = [self.run.service.tasks[name].spec for name in tasks]
        sums = [sum(each.targets for each in self.by_task[name] if from_us <= each.at_us < to_us) for name in tasks]
        needed = ENVELOPES_EACH * sum(spec.envelope_targets for spec in specs)
        if len(tasks) < 2 or sum(sums) < needed:
            return None
        weights = [self.run.service.views[name].weight for name in tasks]
        return round(laws.jain([total / weight for total, weight in zip(sums, weights, strict=True)]), 4)

    def _tasks_of(self, tier: str) -> list[str]:
        """Return the tasks with lanes of their own, without caps and never changed.

        In a shared lane the law holds for the lane.
        """
        if self.scenario.sharing == "apps":
            return []
        paused = {name for change in self.scenario.changes for name in change.channel_paused or {}}
        changed = [change.task for change in self.scenario.changes if change.task]
        return [
            name
            for name, task in self.run.service.tasks.items()
            if str(task.spec.tier) == tier
            and not (task.shared or task.spec.cap.rate or task.spec.channel in paused or self._is_capped(name))
            and not any(fnmatchcase(name, each) for each in changed)
        ]

    def _is_capped(self, name: str) -> bool:
        return not self.run.service.caps.keys().isdisjoint(self.run.service.tasks[name].spec.pools)

    def _has_backlog(self, name: str, from_us: int, to_us: int) -> bool:
        """Return whether the whole task may be sent at `from`, and is not completely sent at `to`."""
        task = self.run.service.tasks[name]
        if task.arrives_s * 1e6 + 200_000 > from_us and from_us > 0:
            return False
        if task.arrives_s > 0 and task.arrives_s * 1e6 > from_us:
            return False
        if task.spec.publish_rate:
            return False
        sent = sum(each.targets for each in self.by_task[name] if each.at_us < to_us)
        return sent < task.spec.targets

    # ------------------------------------------------------------- caps
    def use(self) -> float | None:
        """Return the part of the capacity that was used while there was demand, after the first second, in which the
        workers start."""
        step_us = max(MIN_WINDOW_US, min(1_000_000, self.window_us))
        count = self.end_us // step_us
        granted = laws.sums_by_window(_timed_targets(self.journal.granted), step_us, count)
        published = laws.sums_by_window(_timed_targets(self.journal.published), step_us, count)
        backlog = list(accumulate(more - less for more, less in zip(published, granted, strict=True)))
        first = -(-laws.SECOND_US // step_us)
        worth = [self._worth(index * step_us, step_us) for index in range(count)]
        used = laws.capacity_used(granted[first:], backlog[first:], worth[first:])
        return None if used is None else round(used, 4)

    def _worth(self, from_us: int, step_us: int) -> int:
        """Return the targets that the capacity allows in a window; 0 without a capacity."""
        rate = 0
        for at_us, cap in self.run.service.caps[TOTAL]:
            rate = cap.rate if at_us <= from_us else rate
        return rate * step_us // laws.SECOND_US

    def caps(self) -> dict[str, CapFigure]:
        """Return the figures of every cap under which something was granted."""
        figures: dict[str, CapFigure] = {}
        for name, history in self.run.service.caps.items():
            figure = self._cap(name, history)
            if figure is not None:
                figures[name] = figure
        return figures

    def _cap(self, name: str, history: Sequence[laws.CapSince]) -> CapFigure | None:
        last = next((since.cap for since in reversed(history) if since.cap.rate), None)
        if last is None:
            return None
        tasks = {
            task for task, each in self.run.service.tasks.items() if name in (TOTAL, f"task/{task}", *each.spec.pools)
        }
        amounts = [amount for amount in self.journal.granted if amount.task in tasks]
        largest: Counter[str] = Counter()
        for amount in amounts:
            largest[amount.tier] = max(largest[amount.tier], amount.size)
        worst = laws.overshoot(_timed_targets(amounts), history, largest.total())
        if worst is None:
            return None
        over = max(0.0, round(worst[0] - worst[1], 3))
        return CapFigure(last.rate, last.allowance, worst[0], round(worst[1], 1), over)

    # ------------------------------------------------------------- tasks
    def tasks(self) -> list[TaskFigure]:
        return [self._task(name) for name in self.run.service.tasks]

    def _task(self, name: str) -> TaskFigure:
        service, amounts = self.run.service, self.by_task[name]
        task, view = service.tasks[name], service.views[name]
        ended_us = service.ended.get(name)
        return TaskFigure(
            task=name,
            entry=task.spec.name,
            tier=view.tier,
            weight=view.weight,
            targets=task.spec.targets,
            sent=sum(amount.targets for amount in amounts),
            arrived_s=task.arrives_s,
            first_sent_s=amounts[0].at_us / 1e6 if amounts else None,
            last_sent_s=amounts[-1].at_us / 1e6 if amounts else None,
            ended_s=None if ended_us is None else ended_us / 1e6,
            sent_by_window=laws.sums_by_window(_timed_targets(amounts), self.window_us, self.count),
        )

    def outcomes(self) -> dict[str, int]:
        """Return targets by outcome; `pending` are those without one."""
        service = self.run.service
        counts: Counter[str] = Counter(dict.fromkeys(OUTCOME_NAMES, 0))
        for task in service.tasks:
            counts.update(service.world.counts(task))
        total = sum(service.accepted.values())
        return {"total": total, **counts, "pending": total - counts.total()}


def check_outcomes(run: SimulatedRun) -> None:
    """Check that each target has exactly one outcome, by the fold and by the topic.

    If the run is over, every target must have one.
    """
    service, journal = run.service, run.service.journal
    records = [body for _, body in service.log.read(0, None)] if run.done else []
    read = _outcomes_in_topic(records, service.accepted)
    for name, total in service.accepted.items():
        counts = list(service.world.counts(name).values())
        if sum(counts) > total:
            journal.violate("one outcome", f"{name}: {sum(counts)} outcomes of {total} targets")
        if run.done and sum(counts) != total:
            journal.violate("one outcome", f"{name} has ended: {sum(counts)} outcomes of {total} targets")
        recorded = [read[name][outcome] for outcome in OUTCOME_NAMES]
        if run.done and recorded != counts:
            journal.violate("one outcome", f"{name}: the fold counts {counts}, the topic says {recorded}")
    if run.scenario.until == "done" and not run.done:
        missing = [name for name in run.expected if name not in service.ended]
        journal.violate("all done", f"{len(missing)} tasks have not ended, such as {', '.join(missing[:3])}")


def _outcomes_in_topic(records: Iterable[bytes], accepted: Mapping[str, int]) -> Mapping[str, Counter[str]]:
    """Count each task's targets by their first final outcome, by the journal's rule and independently of the fold.

    `accepted` holds the targets published, by task.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    first = FirstOutcomes()
    for body in records:
        record = decode_record(body)
        if isinstance(record, CloseTask) and first.close(record):
            of_task = counts[record.task]
            of_task[OUTCOME_NAMES[record.code]] += accepted[record.task] - of_task.total()
        elif isinstance(record, Outcomes):
            for piece in first.of(record):
                codes = {piece.code: piece.count * piece.size} if isinstance(piece, Run) else Counter(piece.codes)
                counts[record.task].update({OUTCOME_NAMES[code]: count for code, count in codes.items()})
    return counts


def result_of(run: SimulatedRun) -> Result:
    """Check the invariants of a run that has ended, and return all its figures."""
    figures = Figures(run)
    check_outcomes(run)
    caps = figures.caps()
    for name, cap in caps.items():
        if cap.overshoot > 0:
            run.service.journal.violate(
                "overshoot", f"{name}: {cap.most_in_1s} granted in a second, {cap.limit} allowed"
            )
    journal, workers = run.service.journal, run.workers
    return Result(
        format=FORMAT,
        scenario=run.scenario.name,
        about=run.scenario.about,
        seed=run.seed,
        ran_s=figures.end_us / 1e6,
        events=run.service.agenda.events,
        capacity=run.scenario.capacity.rate,
        use=figures.use(),
        tiers=figures.tiers(),
        caps=caps,
        windows=figures.windows(),
        tasks=figures.tasks(),
        outcomes=figures.outcomes(),
        repeats=journal.repeats,
        workers={"joined": workers.count, "died": workers.crashes, "stalled": workers.stalls},
        ledger={
            "calls": journal.lease_calls,
            **{name: journal.counts[name] for name in ("granted", "used", "returned", "expired", "held")},
        },
        violations=journal.violations,
        violation_count=sum(count for name, count in journal.counts.items() if name.startswith("violation:")),
        replay=run.replay,
    )


def _timed_targets(amounts: Iterable[Amount]) -> list[laws.TimedTargets]:
    return [(amount.at_us, amount.targets) for amount in amounts]
