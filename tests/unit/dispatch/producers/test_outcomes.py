"""The outcomes of a task's targets, as its records have them: names, ids and positions belong together."""

from dispatcher.channels.apns import apns_id
from dispatcher.wire.outcome import RETRY, Mixed, Named, Outcome, ProviderIds, Run
from producers.outcomes.record import TargetRecord
from producers.outcomes.recorded import outcomes
from tests.records import outcomes as record

SENT, INVALID = int(Outcome.SENT), int(Outcome.INVALID)


def ran(first: int, count: int, size: int, code: int = SENT) -> Run:
    return Run(writer="0", attempt=0, first=first, count=count, size=size, code=code)


def kept(sequence: int, *ids: str, positions: list[int] | None = None, attempt: int = 0) -> ProviderIds:
    return ProviderIds(writer="0", attempt=attempt, sequence=sequence, positions=positions, prefix="p/", ids=list(ids))


LATER = Mixed(
    writer="0", attempt=2, sequence=1, size=4, positions=[1, 2, 3], codes=bytes((SENT, RETRY, INVALID)), groups=[]
)
NAMED = Named(writer="0", attempt=2, sequence=1, positions=[1, 3], targets=["b", "d"], reasons=["", "gone"])


def brief(found: list[TargetRecord]) -> list[tuple[int, int, str, str, str]]:
    return [(one.sequence, one.position, one.outcome, one.target, one.provider_id) for one in found]


def test_each_final_outcome_comes_with_its_name_and_id_where_the_record_has_them() -> None:
    records = [
        record(ran(0, 2, 2), kept(1, "c", "d")),
        record(ran(0, 1, 1), task="another"),
        record(LATER, NAMED, kept(1, "x", positions=[1], attempt=2)),
    ]
    found = list(outcomes(records, "t"))
    assert brief(found) == [
        (0, 0, "sent", "", ""),
        (0, 1, "sent", "", ""),
        (1, 0, "sent", "", "p/c"),
        (1, 1, "sent", "", "p/d"),
        (1, 1, "sent", "b", "p/x"),
        (1, 3, "invalid", "d", ""),
    ]
    assert (found[-1].reason, found[-1].attempt, found[-1].at_ms, found[-1].channel) == ("gone", 3, 5, "null")


def test_of_one_target_only_what_names_it_is_read() -> None:
    found = list(outcomes([record(ran(0, 2, 2)), record(LATER, NAMED)], "t", "d"))
    assert brief(found) == [(1, 3, "invalid", "d", "")]
    assert list(outcomes([record(LATER, NAMED)], "t", "nobody")) == []


def test_a_target_is_found_in_any_of_its_spellings() -> None:
    token = "ab" * 32
    named = Named(writer="0", attempt=2, sequence=1, positions=[1, 3], targets=[token, "another"], reasons=[])
    found = outcomes([record(LATER, named, channel="apns")], "t", token.upper())
    assert [one.target for one in found] == [token]


def test_the_id_of_apns_follows_from_the_targets_place() -> None:
    found = list(outcomes([record(LATER, channel="apns")], "t"))
    assert brief(found) == [(1, 1, "sent", "", apns_id("t", "0", 1, 1)), (1, 3, "invalid", "", "")]


def test_codes_that_are_not_final_are_no_outcomes() -> None:
    assert list(outcomes([record(ran(0, 3, 2, RETRY))], "t")) == []
