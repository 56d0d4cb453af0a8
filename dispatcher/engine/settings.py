"""All numeric settings of the engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dispatcher.retry import Backoff
from dispatcher.settle import NamedTargets
from dispatcher.wire.lease import ChannelTerms


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """Settings of one worker's engine. Counts are in targets unless stated otherwise.

    Keep held_targets and unsettled_targets together within budget_targets. An outcome topic that stores nothing takes
    up half of either, and so leaves half of the budget to the tasks of the other topics.
    """

    worker: str
    """Name of the worker in claims; different for every start of a process."""
    budget_targets: int = 200_000
    """Maximum in memory: buffered, in flight and unsettled. A lane that holds nothing may still take
    lane_floor_targets."""
    lane_floor_targets: int = 100
    """Minimum size of a lane's buffer, which otherwise is twice what the lane was granted in the last half second."""
    lane_roomy_targets: int = 1_000
    """Minimum instead of lane_floor_targets, while half the budget is enough for all lanes."""
    lane_ceiling_targets: int = 100_000
    """Maximum size of a lane's buffer."""
    prefetch_targets: int = 2_000
    """Size of the client's queue of each lane."""
    held_envelopes: int = 1_000
    """Maximum envelopes of a task in one lane that wait, unacked, for an answer other than HELD, or until the task's
    outcomes are stored. A lane of one task is not drained beyond this; other lanes give the excess back to the broker.
    """
    held_targets: int = 50_000
    """The same bound over all lanes, shared between outcome topics and tasks (`SharedBound`)."""
    held: Backoff = Backoff(0.25, 2.0)
    """Wait before held envelopes are asked about again."""
    parked_s: float = 2.0
    """Wait before a parked lane is tried again."""
    attach_again_s: float = 10.0
    """Wait before a lane that has delivered nothing yet is attached again."""

    lease_ms: int = 2_000
    """How long a grant may be used."""
    claim_ms: int = 13_000
    """How long its claims last at most: lease, longest channel timeout, margin."""
    demand_ms: int = 300
    """How long announced demand is valid."""
    period_s: float = 0.1
    """Interval between calls while credit is short."""
    spacing_s: float = 0.005
    """Minimum time between two calls for new demand."""
    calls_per_s: float = 50.0
    """Maximum rate of calls for new demand."""
    calls_per_target: float = 0.01
    """The same per target sent; the higher limit applies."""
    calls_burst: int = 10
    """Calls for new demand that may be made at once beyond that rate."""
    horizon_s: float = 0.5
    """A call asks for the targets that can be sent in this time."""
    horizon_floor_targets: int = 1_000
    """Minimum targets that a call asks for."""
    use_by_margin_s: float = 0.1
    """Credit this near its use-by is given back."""
    wants_per_lane: int = 200
    """Maximum runs of envelopes in one lane's ask."""
    repeat: Backoff = Backoff(0.05, 2.0)
    """Wait between attempts of an unanswered call."""
    clock_stop_s: float = 0.5
    """If the ledger's clock advanced this much further than ours, ours had stopped."""

    quantum_targets: int = 50
    """Maximum targets of one pick (at least one envelope)."""
    in_flight_batches: int = 64
    """Maximum batches under way per channel."""
    in_flight_targets: int = 50_000
    """Maximum targets under way per channel."""
    channel_batches: Mapping[str, int] = field(default_factory=dict)
    """Overrides in_flight_batches by channel name."""
    channel_targets: Mapping[str, int] = field(default_factory=dict)
    """Overrides in_flight_targets by channel name."""
    channel_terms: Mapping[str, ChannelTerms] = field(default_factory=dict)
    """How long claims last, and how many targets a request has, by channel name."""
    unsettled_targets: int = 150_000
    """Maximum targets sent whose records are not yet stored, shared between outcome topics and tasks (`SharedBound`).
    Nothing more of a task without room is sent."""

    settle_linger_s: float = 0.005
    """How long outcomes of a task are collected into one record."""
    settle_envelopes: int = 500
    """Maximum envelopes in a record, all of which one call of a fold takes (dispatcher/fold_cost.py)."""
    settle_named_characters: int = 64_000
    """A record is closed once it names targets of this many characters: records are read ahead in thousands."""
    named_targets: NamedTargets = "dead"
    """The targets that records name."""
    store_again: Backoff = Backoff(0.1, 2.0)
    """Wait before something without a receipt is stored again."""
