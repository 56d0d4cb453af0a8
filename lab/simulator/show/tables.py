"""A run as tables."""

from typing import Any

from dispatcher.model.values import NOTHING, duration, percent
from lab.simulator.findings.result import Result

TIERS = "Tiers"
"""The title of the table that has the gaps."""
MAX_WINDOWS = 20
MAX_TASKS = 15


def note(result: Result) -> str:
    """Return a note on gaps, if the table of tiers has any beyond its bound.

    With a single worker there is no explanation.
    """
    gaps = [tier.longest_gap for tier in result.tiers.values()]
    if result.workers["joined"] < 2 or not any(gap is not None and gap.targets > gap.bound for gap in gaps):
        return ""
    judged = (
        "The rule `gap` checks the grants of all workers together; a tier that waits too long there is listed under "
        "Violated."
        if result.capacity
        else "Without a capacity no gap is checked."
    )
    return (
        "The longest gap may exceed its bound: the bound is for the sends of one worker (law 3 in docs/fairness.md), "
        f"and the sends of several workers interleave. {judged}"
    )


def sections(result: Result) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the tables of a run, each with its title and its rows."""
    return [
        (
            "Violated",
            [
                {"rule": violation.rule, "at": f"{violation.at_s:.3f} s", "what": violation.what}
                for violation in result.violations
            ],
        ),
        (TIERS, _tiers(result)),
        ("Caps: the second closest to the limit", _caps(result)),
        ("Shares by window", _windows(result)),
        ("Tasks", _tasks(result)),
        ("Counts", _counts(result)),
    ]


def headline(result: Result) -> str:
    use = "" if result.use is None else f", {result.use:.1%} of the capacity used while there was demand"
    return f"{result.scenario}, seed {result.seed}: {result.ran_s:,.1f} s{use}"


def _tiers(result: Result) -> list[dict[str, Any]]:
    rows = []
    for name, tier in result.tiers.items():
        gap = tier.longest_gap
        rows.append(
            {
                "tier": name,
                "weight": f"{tier.weight:g}",
                "published": f"{tier.published:,}",
                "sent": f"{tier.sent:,}",
                "share": f"{tier.share:.2f}%",
                "lowest fairness": NOTHING if tier.jain is None else f"{tier.jain:.4f}",
                "longest gap": NOTHING if gap is None else f"{gap.targets:,}",
                "bound for 1 worker": NOTHING if gap is None else f"{gap.bound:,.0f}",
            }
        )
    return rows


def _caps(result: Result) -> list[dict[str, Any]]:
    return [
        {
            "pool": name,
            "rate": f"{cap.rate:,}",
            "burst": f"{cap.burst:,.0f}",
            "granted in 1 s": f"{cap.most_in_1s:,}",
            "limit": f"{cap.limit:,.0f}",
            "overshoot": f"{cap.overshoot:,.0f}",
        }
        for name, cap in list(result.caps.items())[:MAX_TASKS]
    ]


def _windows(result: Result) -> list[dict[str, Any]]:
    windows = result.windows
    count = len(next(iter(windows.sent.values())))
    step = -(-count // MAX_WINDOWS)
    rows = []
    for first in range(0, count, step):
        sums = {tier: sum(sent[first : first + step]) for tier, sent in windows.sent.items()}
        total = sum(sums.values())
        row = {"from": duration(first * windows.window_s), "sent": f"{total:,}"}
        rows.append(row | {tier: percent(sent / total if total else None) for tier, sent in sums.items()})
    return rows


def _tasks(result: Result) -> list[dict[str, Any]]:
    return [
        {
            "task": task.task,
            "tier": task.tier,
            "targets": f"{task.targets:,}",
            "sends": f"{task.sent:,}",
            "arrived": duration(task.arrived_s),
            "first sent": duration(task.first_sent_s),
            "ended": duration(task.ended_s),
        }
        for task in result.tasks[:MAX_TASKS]
    ]


def _counts(result: Result) -> list[dict[str, Any]]:
    named = [
        ("outcomes (targets)", result.outcomes),
        ("ledger (targets; calls)", result.ledger),
        ("workers", result.workers),
        ("repeats (envelopes)", {"repeats": result.repeats}),
    ]
    return [
        {"of": name, "counts": ", ".join(f"{what} {count:,}" for what, count in counts.items())}
        for name, counts in named
    ]
