"""The provider's ids of messages in an outcome record."""

from dispatcher.engine.runs import envelope_runs
from dispatcher.settle import Draft
from dispatcher.wire.outcome import RETRY, Outcome, Outcomes, Report, Verdict, decode_record, encode_record
from tests.unit.dispatch.test_settle import NOW_MS, deliveries


def kept_ids(record: Outcomes) -> dict[tuple[int, int], str]:
    """Return the provider's ids by sequence and position."""
    return {
        (one.sequence, position): one.prefix + rest
        for one in record.provider_ids
        for position, rest in zip(one.positions or range(len(one.ids)), one.ids, strict=True)
    }


def taken(*ids: str) -> Report:
    """Return the report of targets that the provider took under these ids."""
    return Report(exceptions={i: Verdict(int(Outcome.SENT), provider_id=one) for i, one in enumerate(ids)})


def test_ids_of_the_provider_are_kept_beside_runs_and_rounds_by_the_targets_position() -> None:
    busy = Report(exceptions={0: Verdict(RETRY, "busy"), 1: Verdict(int(Outcome.SENT), provider_id="p/4")})
    draft = Draft("t", "w.1", "null", "shop")
    for part, report in zip(envelope_runs(deliveries(0, [2, 3]))[0], [taken("p/1", "p/2"), taken("p/3")], strict=True):
        draft.add(part, [report], NOW_MS)
    (later,) = envelope_runs(deliveries(2, [2], attempt=1))[0]
    draft.add(later, [busy], NOW_MS)
    plan = draft.finish(NOW_MS)
    record = decode_record(encode_record(plan.record))
    assert isinstance(record, Outcomes)
    assert kept_ids(record) == {(0, 0): "p/1", (0, 1): "p/2", (1, 0): "p/3", (2, 3): "p/4"}
    assert [(run.first, run.count, run.code) for run in record.runs] == [(0, 1, 0), (1, 1, 0)]
    assert plan.counts == {int(Outcome.SENT): 6}


def test_ids_beyond_what_a_record_holds_are_left_out_and_nothing_else() -> None:
    draft = Draft("t", "w.1", "null")
    (part,) = envelope_runs(deliveries(0, [500]))[0]
    draft.add(part, [taken(*(f"{number:03d}" + "x" * 5_000 for number in range(500)))], NOW_MS)
    record = draft.finish(NOW_MS).record
    assert record.provider_ids == []
    assert sum(run.count * run.size for run in record.runs) == 500
