"""Limit the part of an outcome topic that is folded in one call of the view's script.

Redis is blocked during a call, and a lease lasts 2 s, so a call should take at most 20 ms. Costs are counted in
envelopes folded one by one, which take 8 us each and 35 us at most (`python -m benchmarks fold`).
"""

from collections.abc import Iterator
from math import ceil

from msgspec.structs import replace

from dispatcher.wire.outcome import UNSENT, ClaimsEnded, Mixed, OutcomeRecord, Outcomes, Run

CALL_COST = 550
"""Maximum cost of the records in a call; workers write no record that costs more."""
CALL_COMMANDS = 4_000
"""Maximum commands of a call: 8 for a mixed envelope of a new writer, 20 for a record of a new task, and 15
for a refund."""
_RECORD_COST = 3
"""Cost of the counts of a record's task, which are read and written once per call."""
_REFUND_COST = 3
"""Cost of the refund of a record's targets that were not sent."""
_RUN_ENVELOPES = 5
"""Envelopes of a run that cost as much as one mixed envelope."""
_CLAIM_COST = 100
"""Cost of the end of a claim, which covers everything that a lease granted at once."""


def cost_of(record: OutcomeRecord) -> int:
    """Return the cost of folding the record."""
    if isinstance(record, Outcomes):
        return _fixed_cost(record) + sum(map(_cost_of_part, record.runs)) + len(record.mixed)
    if isinstance(record, ClaimsEnded):
        return _RECORD_COST + _CLAIM_COST * len(record.claims)
    return _RECORD_COST


def cut(record: OutcomeRecord) -> Iterator[OutcomeRecord]:
    """Split a record into parts that each fit into a call.

    Any channel can cause a larger one. Folding a part twice changes nothing.
    """
    if cost_of(record) <= CALL_COST:
        yield record
    elif isinstance(record, Outcomes):
        yield from _cut_outcomes(record)
    elif isinstance(record, ClaimsEnded):
        at_once = (CALL_COST - _RECORD_COST) // _CLAIM_COST
        for at in range(0, len(record.claims), at_once):
            yield replace(record, claims=record.claims[at : at + at_once])


def _cut_outcomes(record: Outcomes) -> Iterator[Outcomes]:
    runs: list[Run] = []
    mixed: list[Mixed] = []
    cost = fixed_cost = _fixed_cost(record)
    parts: list[Run | Mixed] = [piece for run in record.runs for piece in _cut_run(run)]
    for part in [*parts, *record.mixed]:
        cost += _cost_of_part(part)
        if cost > CALL_COST:
            yield replace(record, runs=runs, mixed=mixed)
            runs, mixed, cost = [], [], fixed_cost + _cost_of_part(part)
        if isinstance(part, Run):
            runs.append(part)
        else:
            mixed.append(part)
    yield replace(record, runs=runs, mixed=mixed)


def _cut_run(run: Run) -> Iterator[Run]:
    at_once = _RUN_ENVELOPES * (CALL_COST - _RECORD_COST - _REFUND_COST)
    for at in range(0, run.count, at_once):
        yield replace(run, first=run.first + at, count=min(at_once, run.count - at))


def _fixed_cost(record: Outcomes) -> int:
    """Return the cost of a record apart from its envelopes."""
    unsent = any(UNSENT in each.codes for each in record.mixed)
    return _RECORD_COST + _REFUND_COST * unsent


def _cost_of_part(part: Run | Mixed) -> int:
    return ceil(part.count / _RUN_ENVELOPES) if isinstance(part, Run) else 1
