"""What became of targets: verdicts of a channel, and the outcome records that are the one commit point."""

from enum import IntEnum
from typing import Annotated

import msgspec

FORMAT = 1
MAX_REASON = 200
"""Characters of a reason in an outcome record; the dead letter has more of it."""
MAX_REASON_BYTES = 1_024
"""Of a channel's reason, as UTF-8; a provider may answer with a page, an exception with its input."""


class Outcome(IntEnum):
    """Final outcomes. The values are on the wire: never renumber."""

    SENT = 0
    INVALID = 1
    FAILED = 2
    EXPIRED = 3
    CANCELLED = 4


RETRY = 9
"""In an outcome record's `codes`: not final, to be tried again."""
OUTCOME_NAMES: tuple[str, ...] = tuple(outcome.name.lower() for outcome in Outcome)


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """A channel's word on one target. code: an Outcome value, or RETRY. retry_after_s: the provider's wish, if any."""

    code: int
    reason: str = ""
    retry_after_s: float | None = None


SENT = Verdict(int(Outcome.SENT))


class Report(msgspec.Struct, frozen=True, gc=False):
    """A channel's word on one envelope: a verdict for all its targets, and exceptions by index in envelope.targets."""

    verdict: Verdict = SENT
    exceptions: dict[int, Verdict] | None = None


ALL_SENT = Report()


Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
"""Of an envelope, a place in it, or a count; a view keeps a bit for each envelope."""
Code = Annotated[int, msgspec.Meta(ge=0, le=RETRY)]
FinalCode = Annotated[int, msgspec.Meta(ge=0, lt=len(Outcome))]


class Run(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`count` envelopes of consecutive sequences, `size` targets each, all of whose targets have outcome `code`."""

    writer: str
    attempt: Number
    first: Number
    count: Number
    size: Number
    code: Code


class Mixed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One envelope whose targets have different results, or fewer targets than the first envelope of its sequence.

    size: targets in the first envelope. positions: places in it that this attempt had (None: all).
    codes: one byte a target of this attempt, an Outcome value or RETRY. delay_s: of the next attempt (0: none).
    """

    writer: str
    attempt: Number
    sequence: Number
    size: Number
    positions: list[Number] | None
    codes: bytes
    delay_s: int = 0


class Named(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Targets of one envelope whose outcome the record tells, by value, for the journal; a fold passes them over.

    positions: places in the first envelope (None: all, in order). reasons: one a target, cut at MAX_REASON characters
    (None: none has any).
    """

    writer: str
    attempt: Number
    sequence: Number
    positions: list[Number] | None
    targets: list[str]
    reasons: list[str] | None = None


class Outcomes(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="o"):
    """The outcome record of a drain of envelopes of one task, under one claim.

    For the journal alone, and missing in older records: app; latency_ms, from when the oldest of these envelopes was
    published, or due where it is a later attempt, to the record; named, as `journal.targets` wants it.
    """

    format: int
    task: str
    claim: str
    at_ms: int
    channel: str
    runs: list[Run]
    mixed: list[Mixed]
    app: str = ""
    latency_ms: int = 0
    named: list[Named] = []


class CloseTask(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="c"):
    """All open targets of a task get `code` (CANCELLED or EXPIRED). Written once its claims have ended."""

    format: int
    task: str
    code: FinalCode
    at_ms: int


class ClaimsEnded(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="e"):
    """These claims passed their end time. Reading this, the fold has read all that stood before: identities that are
    still unrecorded may be granted again."""

    format: int
    claims: list[str]


class EpochMark(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="m"):
    """Marks how far a topic must be read before a rebuilt view (named by its epoch) may grant."""

    format: int
    epoch: str


OutcomeRecord = Outcomes | CloseTask | ClaimsEnded | EpochMark

encode_record = msgspec.msgpack.Encoder().encode
"""OutcomeRecord -> bytes. Arrays led by the tag, so that the ledger's scripts can read them as they are."""
decode_record = msgspec.msgpack.Decoder(OutcomeRecord).decode
"""bytes -> OutcomeRecord. Raises MsgspecError, also where a number is beyond its limits."""


def read_record(body: bytes) -> OutcomeRecord | None:
    """None for what a fold counts as malformed and passes over: bytes that are no outcome record of this format's."""
    try:
        record: OutcomeRecord = decode_record(body)
    except msgspec.MsgspecError:
        return None
    if isinstance(record, Outcomes) and not all(map(_is_sound, record.mixed)):
        return None
    return record


def reads_back(record: OutcomeRecord) -> bool:
    """Return whether the record can be encoded and its readers will not pass it over."""
    try:
        return read_record(encode_record(record)) is not None
    except Exception:  # the encoder raises what a wrong type makes it raise
        return False


def _is_sound(mixed: Mixed) -> bool:
    """Every code is one of a target."""
    return mixed.codes.isascii() and (mixed.positions is None or len(mixed.positions) == len(mixed.codes))
