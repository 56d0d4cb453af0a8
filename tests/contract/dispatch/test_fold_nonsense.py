"""Whatever is in an outcome topic: the fold goes on, counts it, and changes nothing for other tasks."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.wire.envelope import MAX_SEQUENCE
from dispatcher.wire.outcome import MAX_CLAIMS, MAX_ENVELOPES, RETRY, CloseTask, encode_record
from tests.contract.ledger_worlds import LawWorld, mixed, outcomes, run

encode = msgspec.msgpack.encode
INNOCENT = encode_record(outcomes("innocent", run(0, 3)))


def record(runs: object = (), mixed: object = (), **changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "tag": "o", "format": 1, "task": "t", "claim": "w.1", "at_ms": 5, "channel": "null", "runs": runs,
        "mixed": mixed, "app": "shop", "latency_ms": 3, "named": [], "provider_ids": [],
    }  # fmt: skip
    return encode(list((fields | changes).values()))


GOOD_RUN = ("0", 0, 0, 1, 1, 0)
GOOD_MIXED = ("0", 1, 0, 3, [0, 2], b"\x00\x09", 1)


NONSENSE = [
    record([("0", 0, 1 << 27, 1, 1, 0)]),
    record([("0", 0, MAX_SEQUENCE, 2, 1, 0)]),
    record([("0", 0, 0, 0, 1, 0)]),
    record([("0", 0, 0, MAX_ENVELOPES + 1, 1, 9)]),
    record([("0", 0, 0, 6_000, 500, 9)] * 2),
    record([("0", 0, 0, 1, 1 << 23, 0)]),
    record([("0", 4_096, 0, 1, 1, 0)]),
    record([("w" * 65, 0, 0, 1, 1, 0)]),
    record((), [("0", 0, 0, 1 << 23, None, b"\x00")]),
    record((), [("0", 0, 0, 501, None, b"\x00")]),
    record((), [("0", 0, 0, 500, [500], b"\x00")]),
    record((), [("0", 0, 0, 500, None, b"\x00" * 501)]),
    record([GOOD_RUN], at_ms=2**63),
    record([GOOD_RUN], at_ms=-1),
    record([GOOD_RUN], task="a b"),
    record([GOOD_RUN], task="x" * 1_000_000),
    record([GOOD_RUN]).replace(b"shop", b"sh\xffp"),
    record([GOOD_RUN])[:-1] + b"\x91" * 100_000,
    encode(["e", 1, ["c|t"] * (MAX_CLAIMS + 1)]),
    encode_record(CloseTask(1, "t", RETRY, 5)),
    encode_record(CloseTask(1, "t", -1, 5)),
    encode_record(outcomes("t", run(-1, 2))),
    encode_record(outcomes("t", run(1 << 32, 1))),
    encode_record(outcomes("t", run(0, 1, RETRY))),
    encode_record(outcomes("t", run(0, 1, 200))),
    encode_record(outcomes("t", mixed(0, [0, 200]))),
    encode_record(outcomes("t", mixed(-1, [0]))),
    encode_record(outcomes("t", mixed(0, [0, 0], size=3, positions=[1]))),
]


@pytest.mark.parametrize("body", NONSENSE, ids=range(len(NONSENSE)))
def test_numbers_and_names_that_mean_nothing_are_counted_and_passed_over(live: LawWorld, body: bytes) -> None:
    live.add("innocent")
    assert live.fold.apply(0, None, "a", [body, INNOCENT]).applied
    assert live.stats()["malformed"] == 1
    assert live.counts("innocent")["sent"] == 3
    assert not any(live.counts("t").values())


@pytest.mark.parametrize("later", [{"b": b"\xff"}, [[[1]]], msgspec.msgpack.Ext(5, b"x"), b"bytes", 1.5])
def test_fields_of_a_later_version_are_ignored_whatever_their_type(live: LawWorld, later: object) -> None:
    """Redis' msgpack does not know all types."""
    live.add("innocent")
    bodies = [
        record([GOOD_RUN], later=later),
        encode(["c", 1, "innocent", 4, 9, "", later]),
        encode(["m", 1, "e", later]),
    ]
    assert live.fold.apply(0, None, "a", bodies).applied
    assert live.counts("t")["sent"] == 1
    assert "malformed" not in live.stats()


numbers = st.sampled_from(
    [-1, 0, 1, 2, 9, 499, 500, 501, 4_095, 4_096, 2**23, MAX_SEQUENCE, 2**27, 2**31, 2**53, 2**64 - 1]
)
odd = st.one_of(
    numbers, st.none(), st.text(), st.binary(max_size=3), st.lists(numbers, max_size=3), st.just({}), st.floats()
)


@st.composite
def near_records(draw: st.DrawFn) -> bytes:
    """A good record, some fields replaced."""
    one, other = list(GOOD_RUN), list(GOOD_MIXED)
    for part in (one, other):
        for place in draw(st.sets(st.integers(0, len(part) - 1), max_size=2)):
            part[place] = draw(odd)
    fields = st.sampled_from(["tag", "format", "task", "claim", "at_ms", "channel", "runs", "mixed", "named"])
    runs, mixed = draw(st.sampled_from([([one], []), ([], [other]), ([one], [other])]))
    return record(**({"runs": runs, "mixed": mixed} | draw(st.dictionaries(fields, odd, max_size=1))))


def test_no_record_ever_stops_the_fold_or_changes_another_task(live: LawWorld) -> None:
    """One world for all examples: what each leaves there must not harm the next."""
    live.add("innocent")
    live.fold.apply(0, None, "0", [INNOCENT])
    cursor = 0

    @given(st.lists(near_records() | st.binary(max_size=60), min_size=1, max_size=5))
    def folds(bodies: list[bytes]) -> None:
        nonlocal cursor
        before, cursor = str(cursor), cursor + 1
        assert live.fold.apply(0, before, str(cursor), [*bodies, INNOCENT]).applied
        assert live.counts("innocent") == {"sent": 3, "invalid": 0, "failed": 0, "expired": 0, "cancelled": 0}

    folds()
