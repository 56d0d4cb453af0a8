"""The alerts of the service itself: whether Fairlane sends, and what becomes of targets and tasks.

All workers show the same figures of the whole service, so `max` takes any of them.
"""

from typing import Final

from scripts.boards.alert import Alert, Level

DRAIN_S: Final = 600
FAILED_SHARE: Final = 0.05
INVALID_SHARE: Final = 0.2
LETTERS_SHARE: Final = 0.01
FEW_TARGETS: Final = 100
"""Shares of fewer targets say nothing."""
BACKLOG: Final = "max by (tier) (fairlane_backlog_targets)"


def service_alerts() -> tuple[Alert, ...]:
    """Return the alerts in the order in which one cause hides the next."""
    return (*_of_sending(), *_of_outcomes(), *_of_ends())


def _of_sending() -> tuple[Alert, ...]:
    no_worker = "absent(fairlane_worker_lanes) or max(fairlane_workers) < 1"
    # A worker shows figures of the service only while Redis answers and the view is complete.
    blind = "count(fairlane_worker_lanes unless on (instance) fairlane_workers) > 0"
    moving = "sum by (tier) (increase(fairlane_targets_total[10m])) > 0"
    high = f'max(fairlane_drain_seconds{{tier="high"}}) > {DRAIN_S}'
    return (
        Alert(
            title="No worker",
            levels=(Level(severity="critical", expr=no_worker, held="1m"),),
            summary="No worker serves: nothing is sent",
        ),
        Alert(
            title="View does not grant",
            levels=(Level(severity="critical", expr=blind, held="2m"),),
            summary="{{ $value }} workers get no answer from the view in Redis: what they have leased is sent, and "
            "nothing more",
        ),
        Alert(
            title="Backlog does not move",
            levels=(Level(severity="critical", expr=f"{BACKLOG} > 0 unless on (tier) ({moving})", held="5m"),),
            summary="{{ $value }} targets of tier {{ $labels.tier }} may be sent, and none had an outcome for 10 min",
        ),
        Alert(
            title="High tier not drained",
            levels=(Level(severity="warning", expr=high, held="10m"),),
            summary="At the present rate, tier high takes {{ $value | humanizeDuration }} to send what waits",
        ),
        Alert(
            title="Paused flow",
            levels=(
                Level(severity="critical", expr=_paused("credentials|suspect"), held="5m"),
                Level(severity="warning", expr=_paused("down|limit"), held="10m"),
            ),
            summary="App {{ $labels.app }} is paused on channel {{ $labels.channel }}: {{ $labels.kind }}",
        ),
        Alert(
            title="Forgotten pause",
            levels=(Level(severity="warning", expr=_paused("hand"), held="24h"),),
            summary="App {{ $labels.app }} has been paused by hand on channel {{ $labels.channel }} for a day",
        ),
    )


def _paused(kinds: str) -> str:
    # A pause ends for an attempt, and begins again if that fails.
    return f'max by (channel, app, kind) (max_over_time(fairlane_flow_paused{{kind=~"{kinds}"}}[2m])) > 0'


def _of_outcomes() -> tuple[Alert, ...]:
    share = "{{ $value | humanizePercentage }} of the targets of channel {{ $labels.channel }}"
    bad = f"({_share('failed')} > {FAILED_SHARE}) or ({_share('invalid')} > {INVALID_SHARE})"
    letters, acked = (f'sum(increase(fairlane_envelopes_total{{event="{name}"}}[15m]))' for name in _ENDS)
    return (
        Alert(
            title="Outcomes not stored",
            levels=(Level(severity="critical", expr="fairlane_worker_unrecorded_targets > 0", held="2m"),),
            summary="Worker {{ $labels.instance }} holds outcomes of {{ $value }} targets that Pulsar has not stored",
        ),
        Alert(
            title="Failing targets",
            levels=(Level(severity="warning", expr=bad, held="5m"),),
            summary=f"{share} end as {{{{ $labels.outcome }}}}",
        ),
        Alert(
            title="Growing dead letters",
            levels=(Level(severity="warning", expr=f"{letters} > {LETTERS_SHARE} * {acked}", held="30m"),),
            summary="{{ $value | humanize }} envelopes have left dead letters in 15 min",
        ),
    )


_ENDS = ("dead_lettered", "acked")


def _share(outcome: str) -> str:
    """Return the share of one outcome by channel, if there are more than a few targets."""

    def ended(labels: str, matcher: str = "") -> str:
        return f"sum by ({labels}) (increase(fairlane_targets_total{matcher}[15m]))"

    part = ended("channel, outcome", f'{{outcome="{outcome}"}}')
    return f"{part} / on (channel) group_left () ({ended('channel')} > {FEW_TARGETS})"


def _of_ends() -> tuple[Alert, ...]:
    return (
        Alert(
            title="Stuck task",
            levels=(Level(severity="warning", expr="max(fairlane_stuck_tasks) > 0", held="5m"),),
            summary="{{ $value }} tasks cannot end by themselves",
        ),
    )
