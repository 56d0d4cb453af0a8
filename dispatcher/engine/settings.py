"""Every number the engine goes by."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dispatcher.settle import NamedTargets


@dataclass(frozen=True)
class EngineSettings:
    """Numbers of one worker's engine; counts are of targets unless they say else.

    worker: names the worker in claims; different for every start of a process.

    Buffers. budget_targets: held in all (buffered, in flight and unsettled); a lane that holds nothing may still take
    lane_floor_targets. A lane's buffer follows what it was granted in the last half second, twice over, between
    lane_floor_targets (lane_roomy_targets while half the budget is enough for all) and lane_ceiling_targets.
    prefetch_targets: for the client's queue of each lane.
    held_envelopes: most envelopes of a task in one lane that wait, unacked, for an answer other than HELD, or until
    the task's outcomes are stored. held_targets: the same of all lanes, shared between outcome topics and tasks
    (`SharedBound`). A lane of one task is not drained beyond them; from other lanes the broker is given back what is
    beyond them. held_first_s and held_longest_s: until they are asked about again. parked_s: until a lane is tried that
    we were kept out of. attach_again_s: until a lane is attached again that has brought nothing yet.

    Leases. lease_ms: how long a grant may be used. claim_ms: how long its claims last: lease, longest channel timeout,
    margin. demand_ms: how long announced demand is good for. period_s: between calls while credit is short;
    spacing_s and calls_per_s bound the calls made at once for new demand; of a worker that sends much, calls_per_target
    instead of calls_per_s. horizon_s: asked for is what can be sent in
    this time, at least horizon_floor_targets. use_by_margin_s: credit this near its use-by is given back.
    wants_per_lane: most runs of envelopes in one lane's ask.
    repeat_*: between attempts of a call that was not answered. stood_still_s: if the ledger's clock went on further
    than ours by this, ours stood still.

    Sending. quantum_targets: most targets of one pick (at least one envelope). in_flight_batches and
    in_flight_targets: under way per channel; channel_batches overrides the former by channel name.
    unsettled_targets: sent, their records not yet stored; shared between outcome topics and tasks (`SharedBound`).
    Nothing more is sent of a task that has no room. With held_targets it is at most three quarters of budget_targets,
    so that a topic that stores nothing leaves more than half of the budget to the tasks of the others.

    Settling. settle_linger_s: how long outcomes of a task are gathered into one record; settle_envelopes: maximum
    envelopes in it, which one call of a fold takes (dispatcher/wire/fold_cost.py). It is closed once it names targets
    of this many characters (settle_named_characters: records are read ahead in thousands). named_targets: which targets
    records name. store_again_*: between attempts to store something whose receipt is missing.
    """

    worker: str
    budget_targets: int = 200_000
    lane_floor_targets: int = 100
    lane_roomy_targets: int = 1_000
    lane_ceiling_targets: int = 100_000
    prefetch_targets: int = 2_000
    held_envelopes: int = 1_000
    held_targets: int = 50_000
    held_first_s: float = 0.25
    held_longest_s: float = 2.0
    parked_s: float = 2.0
    attach_again_s: float = 10.0

    lease_ms: int = 2_000
    claim_ms: int = 13_000
    demand_ms: int = 300
    period_s: float = 0.1
    spacing_s: float = 0.005
    calls_per_s: float = 50.0
    calls_per_target: float = 0.01
    calls_burst: int = 10
    horizon_s: float = 0.5
    horizon_floor_targets: int = 1_000
    use_by_margin_s: float = 0.1
    wants_per_lane: int = 200
    repeat_first_s: float = 0.05
    repeat_longest_s: float = 2.0
    stood_still_s: float = 0.5

    quantum_targets: int = 50
    in_flight_batches: int = 64
    in_flight_targets: int = 50_000
    channel_batches: Mapping[str, int] = field(default_factory=dict)
    unsettled_targets: int = 100_000

    settle_linger_s: float = 0.005
    settle_envelopes: int = 500
    settle_named_characters: int = 64_000
    named_targets: NamedTargets = "dead"
    store_again_first_s: float = 0.1
    store_again_longest_s: float = 2.0
