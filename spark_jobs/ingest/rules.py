"""Check the rows of an audience batch by batch: a row is good, or refused with a reason."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from itertools import repeat
from typing import TYPE_CHECKING, Any

from dispatcher.channels.specs import SPECS
from dispatcher.channels.submission.address import address_form
from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import MAX_TARGET_LENGTH, MAX_VARIABLES_BYTES
from dispatcher.wire.checks.nesting import complaint_of
from producers.submit.validation import Variables, check_each
from spark_jobs.source.columns import REFUSED, Columns
from spark_jobs.source.rows import NULL_TARGET, encode_each, is_text, variables_of
from spark_jobs.source.task_options import TaskOptions

if TYPE_CHECKING:
    import pyarrow as pa

REASON = "reason"
"""The column with the result of the check: null for a good row."""
SUPPRESSED_FLAG = "fairlane_suppressed"
"""The column that the join with the suppressed targets adds: true, or null."""
DUPLICATE, SUPPRESSED = "duplicate", "suppressed"
"""Reasons for leaving out rows that are well-formed."""
OTHER_FORM = "the target does not have the form of its channel"
_PLAIN_VARIABLES_BYTES = MAX_VARIABLES_BYTES // 2
"""Texts with fewer bytes in total cannot become too large through names and encoding, unless there are very many."""
_MAX_PLAIN_VARIABLES = 16


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that rows must meet."""

    columns: Columns
    task: TaskOptions
    forms: Mapping[str, str] = field(default_factory=dict)
    """By channel, a regular expression that the whole target has to match."""


class Checker:
    """Checks the rows of one part of the table. All rows of a target are in one part, so it finds duplicates: rows with
    the same target, app and channel, whichever their tasks."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._forms = {channel: compiled_form(channel, form) for channel, form in rules.forms.items()}
        self._seen: set[object] = set()
        self._complaint_of = cache(self._complaint)
        self._flow = [index for index, name in enumerate(rules.columns.split) if name in ("app", "channel")]
        """The split columns that make two targets differ."""

    def check(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """Return the batch with a column of reasons (and without the flag of the join)."""
        import pyarrow as pa

        columns, channel = self._rules.columns, self._rules.task.channel
        reasons: list[str | None] = [None] * batch.num_rows
        if REFUSED in batch.schema.names:
            reasons = batch.column(REFUSED).to_pylist()
            batch = batch.drop_columns([REFUSED])
        targets = batch.column(columns.target).to_pylist()
        parts = [batch.column(name).cast("string").to_pylist() for name in columns.split]
        keys = list(zip(*parts, strict=True)) if parts else [()] * len(targets)
        for index, reason in _complaints(batch, columns, keys):
            reasons[index] = reasons[index] or reason
        if self._forms:
            self._match_forms(batch, reasons, targets)
        if parts or channel in SPECS:  # all other tasks are known to be good, and other channels have no checks
            self._match_task(reasons, targets, keys, variables_of(batch, columns) or repeat(None, len(targets)))
        if SUPPRESSED_FLAG in batch.schema.names:
            for index in _indexes(batch.column(SUPPRESSED_FLAG)):
                reasons[index] = reasons[index] or SUPPRESSED
            batch = batch.drop_columns([SUPPRESSED_FLAG])
        flows = [tuple(key[index] for index in self._flow) for key in keys]
        self._mark_duplicates(reasons, list(zip(targets, flows, strict=True)) if self._flow else targets)
        return batch.append_column(REASON, pa.array(reasons, pa.string()))

    def _match_forms(self, batch: "pa.RecordBatch", reasons: list[str | None], targets: Sequence[Any]) -> None:
        channel = self._rules.task.channel
        channels = [channel] * len(targets) if channel else batch.column("channel").to_pylist()
        for index, target in enumerate(targets):
            form = self._forms.get(channels[index])
            if form is not None and reasons[index] is None and not form.fullmatch(target):
                reasons[index] = OTHER_FORM

    def _match_task(
        self,
        reasons: list[str | None],
        targets: Sequence[Any],
        keys: Sequence[tuple[str | None, ...]],
        variables: Iterable[Variables],
    ) -> None:
        """Check the rows against the channel and the message of their task. keys: their values in split columns."""
        for index, (target, own, key) in enumerate(zip(targets, variables, keys, strict=True)):
            if reasons[index] is None:
                reasons[index] = self._complaint_of(key)(target, own) or None

    def _complaint(self, key: tuple[str, ...]) -> Callable[[str, Variables], str]:
        """Return what says why a row with these values in the split columns is refused."""
        try:
            check = self._rules.task.task_check(self._rules.task.task, key)
        except InvalidInput as error:
            # Without the value, which the table of rejects has: there are few reasons, however many values.
            lines = [line.removeprefix("task: ").partition(" (given: ")[0] for line in error.cause.splitlines()]
            reason = f"the row makes no task: {'; '.join(lines)}"
            return lambda _target, _own: reason
        return check.complaint if check is not None else lambda _target, _own: ""

    def _mark_duplicates(self, reasons: list[str | None], keys: Sequence[object]) -> None:
        seen = self._seen
        for index, key in enumerate(keys):
            if reasons[index] is None:
                if key in seen:
                    reasons[index] = DUPLICATE
                else:
                    seen.add(key)


def compiled_form(channel: str, form: str) -> re.Pattern[str]:
    """Return the pattern of a channel's targets, which are matched in their canonical form."""
    return re.compile(form, re.IGNORECASE if address_form(channel).folds_case else 0)


def checked(batches: "Iterable[pa.RecordBatch]", rules: Rules) -> "Iterator[pa.RecordBatch]":
    """Check all batches of a part, as Checker does."""
    return map(Checker(rules).check, batches)


def _complaints(
    batch: "pa.RecordBatch", columns: Columns, keys: Sequence[tuple[str | None, ...]]
) -> Iterator[tuple[int, str]]:
    doubtful = sorted({*_doubtful_targets(batch.column(columns.target)), *_doubtful_variables(batch, columns)})
    if doubtful:
        yield from _look_at(batch.take(doubtful), columns, doubtful)
    for index, key in enumerate(keys):
        for name, value in zip(columns.split, key, strict=True):
            if not value:
                yield index, f"the split column {name} is empty"


def _indexes(mask: "pa.Array[Any]") -> list[int]:
    import pyarrow.compute as pc

    indexes: list[int] = pc.indices_nonzero(pc.fill_null(mask, fill_value=False)).to_pylist()
    return indexes


def _doubtful_targets(column: "pa.Array[Any]") -> list[int]:
    """Return the rows that need an exact check. The test is quick, and never passes a bad target."""
    import pyarrow.compute as pc

    length = pc.utf8_length(column)
    good = pc.and_(pc.greater(length, 0), pc.less_equal(length, MAX_TARGET_LENGTH))
    good = pc.and_(good, pc.and_(pc.string_is_ascii(column), pc.utf8_is_printable(column)))
    good = pc.and_not(good, pc.match_substring(column, " "))
    return _indexes(pc.invert(pc.fill_null(good, fill_value=False)))


def _doubtful_variables(batch: "pa.RecordBatch", columns: Columns) -> list[int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if columns.whole or any(pa.types.is_nested(batch.column(name).type) for name in columns.variables):
        variables = variables_of(batch, columns) or []
        sizes = map(len, encode_each(variables))
        pairs = enumerate(zip(variables, sizes, strict=True))
        return [index for index, (own, size) in pairs if size > MAX_VARIABLES_BYTES or complaint_of([own])]
    if len(columns.variables) > _MAX_PLAIN_VARIABLES or sum(map(len, columns.variables)) > _PLAIN_VARIABLES_BYTES // 2:
        return list(range(batch.num_rows))
    texts = [column for name in columns.variables if is_text((column := batch.column(name)).type)]
    lengths = [pc.cast(pc.fill_null(pc.binary_length(column), 0), pa.int64()) for column in texts]
    return _indexes(pc.greater(reduce(pc.add, lengths), _PLAIN_VARIABLES_BYTES)) if lengths else []


def _look_at(rows: "pa.RecordBatch", columns: Columns, indexes: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Check rows one by one, with the same messages as every other way to submit."""
    targets = rows.column(columns.target).to_pylist()
    variables = variables_of(rows, columns) or [None] * len(targets)
    items = [NULL_TARGET if target is None else (target, own) for target, own in zip(targets, variables, strict=True)]
    for refusal in check_each(items, indexes.__getitem__)[1]:
        yield refusal.line, refusal.reason
