"""Lines of uploads: which are targets, which are refused, and that no part of an audience is taken for all of it."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import Target
from dispatcher.wire.control import Sealed
from producers.files.lines import Feed
from producers.submit.report import SubmitResult
from producers.submit.validation import Unreadable
from tests.unit.dispatch.producers.fake_service import FakeService
from tests.unit.dispatch.producers.submitters import delivered_of
from tests.unit.dispatch.producers.test_submit import push, run
from tests.unit.web.received import BROKEN, HEAD, cut, items, members, received, slabs
from web.problems import ProblemError
from web.routes.ndjson import MAX_LINE_BYTES, TaskLines
from web.routes.tasks import UploadedTask

PLACES = st.lists(st.integers(0, 100_000), max_size=20)
LINES = {
    b'"one"': "one",
    b'  "one"\t': "one",
    b'"one"\r': "one",
    '"höhe-\U0001f600"'.encode(): "höhe-\U0001f600",
    b'"\\u00e9\\ud83d\\ude00"': "é\U0001f600",
    b'{"target": "one"}': Target("one", None),
    b'{"target": "one", "vars": null}': Target("one", None),
    b'{"vars": {"name": "Ann", "n": [{"a": null}]}, "target": "x"}': Target("x", {"name": "Ann", "n": [{"a": None}]}),
}  # fmt: skip
BAD_LINES = {
    b"one": "malformed",
    b"1": "got `int`",
    b"null": "got `null`",
    b'["one"]': "got `array`",
    b'"one" "two"': "trailing characters",
    b'"one",': "trailing characters",
    b'"one': "truncated",
    b"{}": "missing required field `target`",
    b'{"target": 1}': "got `int` - at `$.target`",
    b'{"target": "one", "vars": []}': "got `array` - at `$.vars`",
    b'{"target": "one", "token": "two"}': "unknown field `token`",
    b'{"target": "one", "variables": {}}': "unknown field `variables`",
    b'{"target": "one", "target": "two"}': "'target' is in one object twice",
    b'{"target": "one", "vars": {"a": 1, "\\u0061": 2}}': "'a' is in one object twice",
    b'{"target": "one", "vars": {"a": NaN}}': "malformed",
    b'{"target": "one", "vars": {"a": Infinity}}': "malformed",
    b'"\xff"': "not utf-8",
    b'"\\ud800"': "no target",
    b'"\\udc00 \\ud800"': "no target",
    b"\xef\xbb\xbf" + b'"one"': "malformed",
    b"[" * 10_000: "got `array`",
    b'{"target": "one", "vars": {"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}}": "recursion",
    b'"' + b"x" * MAX_LINE_BYTES + b'"': "longer than 65,536 bytes",
    b'"one"' + b" " * MAX_LINE_BYTES + b"x": "longer than 65,536 bytes",
}


def task(source: Feed) -> UploadedTask:
    return TaskLines(source).task(UploadedTask)


def upload(*lines: bytes) -> bytes:
    return HEAD + b"\n".join(lines)


@pytest.mark.parametrize("line", LINES)
def test_line_is_a_target(line: bytes) -> None:
    ((number, item),) = items(received([upload(line)], slabs))
    assert (number, item) == (2, LINES[line])


@pytest.mark.parametrize("line", BAD_LINES)
def test_bad_line_is_refused_alone(line: bytes) -> None:
    first, bad, last = items(received([upload(b'"first"', b"", line, b'"last"')], slabs))
    assert (first, last) == ((2, "first"), (5, "last"))
    assert bad[0] == 4
    assert isinstance(bad[1], Unreadable)
    assert BAD_LINES[line] in bad[1].reason.lower()


def written(pairs: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}"


NAMES = st.sampled_from(["a", "b", "", '\\"', "\\u0061", "target", "vars"])
VALUES = st.recursive(
    st.sampled_from(["1", "null", '"x"', '""', '"a:b"', '"\\""', '"a", "a"']),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(NAMES, inner), max_size=4).map(written),
    ),
    max_leaves=6,
)


def is_doubled(line: str) -> bool:
    found = []
    json.loads(line, object_pairs_hook=lambda pairs: found.append(len(dict(pairs)) < len(pairs)))
    return any(found)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=4), st.booleans())
def test_line_with_a_name_twice_in_any_object_is_refused_and_no_other(own: list[tuple[str, str]], again: bool) -> None:
    line = written([("target", '"one"'), ("vars", written(own)), *([("target", '"two"')] if again else [])])
    try:
        expected = is_doubled(line)
    except ValueError:
        expected = True  # it is no JSON
    ((_, item),) = items(received([upload(line.encode())], slabs))
    assert isinstance(item, Unreadable) is expected


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_line_ends_byte_order_mark_and_blank_lines_mean_nothing(start: bytes, end: bytes) -> None:
    body = start + end.join([HEAD.strip(), b"", b'"one"', b"  ", b'"two"'])
    assert items(received([body], slabs)) == [(3, "one"), (5, "two")]
    assert items(received([body + end], slabs)) == [(3, "one"), (5, "two")]


@given(PLACES, st.booleans())
def test_targets_are_the_same_however_the_body_is_cut(at: list[int], packed: bool) -> None:
    lines = [*LINES, *(line for line in BAD_LINES if len(line) < 100)]
    whole = upload(*lines)
    body = members([whole[:50], whole[50:]]) if packed else whole
    assert items(received(cut(body, at), slabs, packed=packed)) == items(received([whole], slabs))


@pytest.mark.parametrize("body", [b"", b"\n" + HEAD, b"{", b"\xff", HEAD[:-2], b"[" * 10_000])
def test_first_line_must_be_json(body: bytes) -> None:
    with pytest.raises(ProblemError) as refused:
        received([body], task)
    assert refused.value.kind.status == 400


@pytest.mark.parametrize(
    ("field", "name"),
    [
        (b'"targets": ["one"]', "targets"),
        (b'"samples": 1', "samples"),
        (b'"duplicates": "remove"', "duplicates"),
        (b'"channel": "fcm"', "channel"),
        (b'"expected_targets": "many"', "expected_targets"),
    ],
)
def test_first_line_has_the_fields_of_a_task_and_no_other(field: bytes, name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        received([HEAD[:-2] + b", " + field + b"}\n"], task)


def test_first_line_of_more_than_64_kib_is_too_large() -> None:
    for size in (MAX_LINE_BYTES, 4 << 20):
        with pytest.raises(ProblemError, match="first line") as refused:
            received([b'{"message": "' + b"x" * size, b'"}\n"one"'], task)
        assert refused.value.kind.status == 413


@pytest.mark.parametrize("line", [b'"' + b"x" * (MAX_LINE_BYTES - 2) + b'"\n', b'"one"' + b" " * 65_000 + b"\n",
                                  b"x" * (1 << 20) + b"\n", b"x" * (1 << 20)])  # fmt: skip
def test_long_lines_take_little_memory(line: bytes) -> None:
    def count(source: Feed) -> int:
        lines = TaskLines(source)
        lines.task(dict)
        return sum(len(slab.items) for slab in lines.slabs(1))

    tracemalloc.start()
    try:
        number = (64 << 20) // len(line)
        assert received([HEAD, *[line] * number, b"\n"], count) == (number if line.endswith(b"\n") else 1)
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------ submitted

TARGETS = [f"target-{number}" for number in range(60)]
BODY = upload(*(b'"%s"' % target.encode() for target in TARGETS))


def submitted(world: FakeService, body: list[bytes], failure: Exception | None = None, **given: bool) -> SubmitResult:
    def read(source: Feed) -> SubmitResult:
        lines = TaskLines(source)
        lines.task(dict)
        return run(world, push(chunk=3), lines)

    return received(body, read, failure=failure, **given)


@given(st.lists(st.integers(len(HEAD), len(BODY)), min_size=1, max_size=4), PLACES)
def test_upload_that_breaks_off_anywhere_is_never_sealed_and_goes_on_with_the_same_id(
    lengths: list[int], at: list[int]
) -> None:
    world = FakeService(ready=True)
    for length in lengths:
        with pytest.raises(ProblemError, match="broken off"):
            submitted(world, cut(BODY[:length], at), BROKEN)
        assert not world.records_of(Sealed)
    assert submitted(world, cut(BODY, at)).accepted == len(TARGETS)
    assert [seal.targets for seal in world.records_of(Sealed)] == [len(TARGETS)]
    assert delivered_of(world) == TARGETS
