"""The board of the service: what is sent and how long it takes, and one target's way."""

from typing import Final

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as models

from scripts.boards.alerts import BOOKIE_WRITES, probe_p99
from scripts.boards.installation import Installation
from scripts.boards.panels import WINDOW, Row, board, lines, number

UID: Final = "fairlane-service"


def service_board(installation: Installation) -> models.Dashboard:
    """Return the board."""
    rows = (_now(), _rates(), _waits(), _way(installation), _flows(), _caps(), _retries(), _trouble(), _workers())
    return board("Fairlane: service", UID, "What is sent, how long it takes, and what holds it up.", rows)


def _rate(metric: str, by: str, matcher: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{matcher}[{WINDOW}]))"


def _total(metric: str) -> str:
    return f"sum(rate({metric}[{WINDOW}]))"


def _quantile(share: float, metric: str, by: str) -> str:
    return f"histogram_quantile({share:g}, sum by ({by}, le) (rate({metric}_bucket[{WINDOW}])))"


def _of_all(metric: str, by: str) -> str:
    """Every worker says the same of the whole service."""
    return f"max by ({by}) ({metric})"


def _now() -> Row:
    return Row(
        "Now",
        number("Sent", "Targets a second, all workers", f"sum(rate(fairlane_targets_total[{WINDOW}]))"),
        number("Backlog", "Targets that may be sent now", f"sum({_of_all('fairlane_backlog_targets', 'tier')})"),
        number("Workers", "Workers that serve", "max(fairlane_workers)"),
        number(
            "Workers needed",
            "To send all that capacity and caps allow; 0: demand is the limit",
            "max(fairlane_workers_needed)",
        ),
        number(
            "Paused flows",
            "Apps of which nothing is sent on a channel",
            "count(max by (channel, app) (fairlane_flow_paused)) or vector(0)",
            limit=1,
        ),
        number(
            "No metrics",
            "Workers and guards that do not answer",
            'count(up{job=~"fairlane.*"} == 0) or vector(0)',
            limit=1,
        ),
    )


def _rates() -> Row:
    spare = _of_all("fairlane_spare_targets_per_second", "tier")
    return Row(
        "Rates",
        lines("Sent by tier", "Targets a second", _rate("fairlane_targets_total", "tier")),
        lines("Arriving by tier", "Targets submitted a second", _of_all("fairlane_arrival_targets_per_second", "tier")),
        lines("Outcomes", "Targets a second by outcome", _rate("fairlane_targets_total", "outcome")),
        lines(
            "Shares",
            "Share by weight among the tiers with a backlog, and the share that was sent",
            {
                "{{tier}}: wanted": _of_all("fairlane_share_wanted_ratio", "tier"),
                "{{tier}}: actual": _of_all("fairlane_share_actual_ratio", "tier"),
            },
            unit="percentunit",
        ),
        lines(
            "Room",
            "Targets a second that are sent, and that could be sent beyond; nothing without a limit",
            {"{{tier}}: sent": _of_all("fairlane_service_targets_per_second", "tier"), "{{tier}}: spare": spare},
        ),
    )


def _waits() -> Row:
    return Row(
        "Waits and backlog",
        lines(
            "Wait, p99", "From publishing to sending", _quantile(0.99, "fairlane_queue_wait_seconds", "tier"), unit="s"
        ),
        lines(
            "Wait, median",
            "From publishing to sending",
            _quantile(0.5, "fairlane_queue_wait_seconds", "tier"),
            unit="s",
        ),
        lines("Backlog by tier", "Targets that may be sent now", _of_all("fairlane_backlog_targets", "tier")),
        lines(
            "Time until the backlog is sent",
            "At the recent rate; nothing while none of it is sent",
            _of_all("fairlane_drain_seconds", "tier"),
            unit="s",
        ),
    )


def _way(installation: Installation) -> Row:
    """Stages in their order. A slow broker, bookie or Redis is above the limit in its own panel alone."""
    slow_ms = installation.slow_ms
    unanswered = f"2 * (sum by (broker) (increase(fairlane_estate_probe_failures_total[{WINDOW}])) > bool 0)"
    publish = 'max by (instance) (pulsar_broker_publish_latency{quantile="0.99"} >= 0)'
    return Row(
        "One target's way: p99 of each stage",
        lines(
            "1 Through each broker",
            "A message that the guard publishes and reads; bookies take no part",
            {"{{broker}}": probe_p99(), "{{broker}}: no answer in 2 s": unanswered},
            unit="s",
            span=6,
            limit=slow_ms / 1000,
        ),
        lines(
            "2 Accepted by the broker",
            "From a message's arrival to its receipt: the broker, and the bookies that it waits for",
            publish,
            unit="ms",
            span=6,
        ),
        lines(
            "3 Stored by the bookie",
            "As brokers see it",
            {"{{bookie}}": BOOKIE_WRITES.name},
            unit="ms",
            span=6,
            limit=slow_ms,
        ),
        *_way_in_workers(),
    )


def _way_in_workers() -> tuple[Builder[models.Panel], ...]:
    stage = _quantile(0.99, "fairlane_stage_seconds", "stage")
    return (
        lines(
            "4 Allowed by Redis",
            "Calls by script",
            _quantile(0.99, "fairlane_redis_call_seconds", "script"),
            unit="s",
            span=6,
            limit=0.1,
        ),
        lines(
            "5 Inside the workers",
            "From the stage before: received (since published), leased, sent, settled",
            stage,
            unit="s",
            span=12,
        ),
        lines(
            "6 Answered by the provider",
            "From a request to its answer",
            _quantile(0.99, "fairlane_flow_answer_seconds", "channel, app"),
            unit="s",
            span=12,
        ),
    )


def _flows() -> Row:
    flow = "channel, app"
    failed = '{verdict!="sent"}'
    return Row(
        "Delivery by flow: an app on a channel",
        lines("Requests", "To the provider, a second", _rate("fairlane_flow_requests_total", flow), unit="reqps"),
        lines(
            "Answers that are no success",
            "A second, by verdict",
            {"{{channel}} {{app}}: {{verdict}}": _rate("fairlane_flow_answers_total", f"{flow}, verdict", failed)},
            unit="reqps",
        ),
        lines(
            "In flight",
            "Requests without an answer, and how many there may be",
            {
                "{{channel}} {{app}}": f"sum by ({flow}) (fairlane_flow_in_flight)",
                "{{channel}} {{app}}: limit": f"sum by ({flow}) (fairlane_flow_limit)",
            },
        ),
    )


def _caps() -> Row:
    used = f"{_rate('fairlane_cap_used_total', 'pool, unit')} / {_of_all('fairlane_cap_per_second', 'pool, unit')}"
    return Row(
        "Quotas: caps that pace requests",
        lines("Used", "Part of the present rate that is used", {"{{pool}}": used}, unit="percentunit"),
        lines(
            "Present rate",
            "Less than the cap while it is halved or ramps up",
            {"{{pool}}: {{unit}}/s": _of_all("fairlane_cap_per_second", "pool, unit")},
        ),
        lines(
            "Lost",
            "Granted and not sent in time, a second",
            {"{{pool}}: {{unit}}/s": _rate("fairlane_cap_lost_total", "pool, unit")},
        ),
    )


def _retries() -> Row:
    flow_paused = "max by (channel, app, kind) (fairlane_flow_paused)"
    return Row(
        "Retries and pauses",
        lines(
            "Retries",
            "Targets a second",
            {
                "put into a retry lane": _total("fairlane_retried_targets_total"),
                "sent without an answer": _total("fairlane_unanswered_targets_total"),
                "returned unsent": _total("fairlane_given_back_targets_total"),
            },
        ),
        lines("Envelopes", "A second by event; dead_lettered: given up", _rate("fairlane_envelopes_total", "event")),
        lines(
            "Paused flows",
            "1 while nothing is sent, by the kind of pause",
            {"{{channel}} {{app}}: {{kind}}": flow_paused},
        ),
    )


def _trouble() -> Row:
    return Row(
        "Trouble",
        lines(
            "Lease calls that fail",
            "A second",
            {"failed": _total("fairlane_lease_errors_total"), "all": _total("fairlane_lease_calls_total")},
            unit="reqps",
        ),
        lines(
            "Clocks that stopped",
            "Workers that stood for half a second or more, in two minutes",
            f"sum by (instance) (increase(fairlane_standstills_total[{WINDOW}]))",
        ),
        lines(
            "Credit that could not be returned",
            "Returns a second that the ledger could not apply",
            {"refused": _total("fairlane_given_back_refused_total")},
        ),
    )


def _workers() -> Row:
    return Row(
        "Workers",
        lines("Granted", "Targets leased a second", _rate("fairlane_granted_targets_total", "instance")),
        lines(
            "Lanes",
            "Attached, and left alone because their task waits",
            {"{{instance}}": "fairlane_worker_lanes", "{{instance}}: parked": "fairlane_worker_parked_lanes"},
        ),
        lines("Buffered", "Targets received and not yet sent", "fairlane_worker_buffered_targets"),
        lines("Credit", "Targets leased and not yet sent", "fairlane_worker_credit_targets"),
        lines("In calls to channels", "Targets", "fairlane_worker_in_flight_targets"),
        lines(
            "Not settled",
            "Targets whose outcome record is not confirmed, and envelopes that wait for others",
            {
                "{{instance}}": "fairlane_worker_unsettled_targets",
                "{{instance}}: envelopes held": "fairlane_worker_held_envelopes",
            },
        ),
    )
