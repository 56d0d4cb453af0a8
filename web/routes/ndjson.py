"""A task and its audience as NDJSON: the task in the first line, then a target in each."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, TypeVar, cast

import msgspec

from dispatcher.model.errors import DECODING_ERRORS, InvalidInput
from dispatcher.model.task import Target
from producers.files.audience_rows import made
from producers.files.lines import Feed, Lines
from producers.submit.cutter import Slab, slabs_of_bursts
from producers.submit.validation import Unreadable
from web.bodies import distinct, parse_json
from web.problems import ProblemError, of_status
from web.routes.inputs import Input

MAX_LINE_BYTES: Final = 1 << 16
T = TypeVar("T")


class TargetIn(Input):
    """A target with variables of its own."""

    target: str
    vars: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(str | TargetIn).decode


class TaskLines:
    """Reads the lines of an upload. It is an audience for `submit`, in one pass."""

    waits = True

    def __init__(self, body: Feed) -> None:
        self._lines = Lines(body, body, MAX_LINE_BYTES)

    def task(self, model: type[T]) -> T:
        """Return the first line. Raises ProblemError if it is no JSON, InvalidInput if it does not fit."""
        line = self._lines.first().encode(errors="surrogateescape")
        if len(line) > MAX_LINE_BYTES:
            raise ProblemError(of_status(413), f"The first line, the task, has more than {MAX_LINE_BYTES:,} bytes.")
        return parse_json(line, model)

    def slabs(self, unit: int) -> Iterator[Slab]:
        """Yield the targets of the other lines. Raises what broke the upload off."""
        for slab in slabs_of_bursts(self._targets(), unit):
            rows = enumerate(map(str.strip, cast("list[str]", slab.items)), slab.first_line + 1)
            items, lines = made(rows, _target)
            if items:
                yield Slab(items, lines[0], lines)

    def _targets(self) -> Iterator[Iterator[str]]:
        for number, burst in enumerate(self._lines.bursts()):
            yield burst if number else islice(burst, 1, None)


def _target(text: str) -> object:
    """Return the target on a line that is not blank, or an Unreadable."""
    try:
        line = text.encode()
        if len(line) > MAX_LINE_BYTES:
            return Unreadable(f"the line is longer than {MAX_LINE_BYTES:,} bytes")
        value = _decode(line)
        if isinstance(value, str):
            return value
        if not _is_distinct(line, value):
            json.loads(line, object_pairs_hook=distinct)
    except UnicodeEncodeError:
        return Unreadable("the line is not UTF-8", text)
    except InvalidInput as error:
        return Unreadable(f"the line is no target: {error.cause}", text)
    except DECODING_ERRORS as error:
        return Unreadable(f"the line is no target: {error}", text)
    return Target(value.target, value.vars)


def _is_distinct(line: bytes, target: TargetIn) -> bool:
    """Return whether no name can be in a line twice: its quotes are used up by the names and texts that were read.

    Most lines are found to be so in a tenth of the time that it takes to parse them again.
    """
    own = target.vars or {}
    names, texts = 1 + (target.vars is not None) + len(own), 1 + sum(type(value) is str for value in own.values())
    return b"\\" not in line and line.count(b'"') == 2 * (names + texts)
