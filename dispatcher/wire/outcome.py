"""Results of targets: a channel's verdicts, and the outcome records, which are the one commit point."""

from enum import IntEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from dispatcher.model.errors import DECODING_ERRORS, Malformed
from dispatcher.model.shown import beginning
from dispatcher.wire.envelope import ATTEMPT_LIMIT, MAX_CHUNK, MAX_SEQUENCE, MAX_WRITER_LENGTH
from dispatcher.wire.groups import Groups, Time
from dispatcher.wire.topics import TASK_PATTERN

FORMAT = 1
MAX_ENVELOPES = 10_000
"""Maximum envelopes in one record; workers write up to 500. A fold splits larger ones into calls."""
MAX_CLAIMS = 10_000
"""Maximum claims in one record; workers write up to 400."""
MAX_REASON = 200
"""Maximum characters of a reason in an outcome record; the dead letter has more of it."""
MAX_REASON_BYTES = 1_024
"""Maximum bytes of a channel's reason: a provider may answer with a web page, an exception with its input."""
MAX_PROVIDER_ID = 200
"""Maximum characters of a provider's id of a message. Those of FCM have about 70."""


class Outcome(IntEnum):
    """Final outcomes. The values are on the wire: never renumber."""

    SENT = 0
    """Accepted by the provider."""
    INVALID = 1
    """Unknown to the provider, or no longer valid."""
    FAILED = 2
    """Given up."""
    EXPIRED = 3
    """Not sent before its task's time to live ran out."""
    CANCELLED = 4
    """Not sent before its task was cancelled or stopped."""


RETRY = 9
"""A code instead of an Outcome: not final, the provider did not take it. Try again."""
UNSENT = 8
"""A code instead of an Outcome: the provider cannot have taken the target. Try again; this was no try."""
UNKNOWN = 7
"""A code instead of an Outcome: the provider may have taken the target, and did not answer. Try again."""
OPEN_NAMES: dict[int, str] = {RETRY: "retry", UNSENT: "unsent", UNKNOWN: "unknown"}
"""Names of the codes that are not final."""
OUTCOME_NAMES: tuple[str, ...] = tuple(outcome.name.lower() for outcome in Outcome)


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """A channel's result for one target."""

    code: int
    """SENT, INVALID or FAILED of Outcome, or RETRY, UNSENT or UNKNOWN."""
    reason: str = ""
    """Why it was not sent, for people; cut at 1 kB."""
    retry_after_s: float | None = None
    """With RETRY: the delay that the provider asks for, if any."""
    died_ms: int = 0
    """With INVALID: wall time from which on the provider knows that the target is gone; 0 if it does not say so."""
    paused: bool = False
    """With UNSENT or UNKNOWN: it waits for the end of a pause of its flow (an app on a channel), so `retry_after_s` is
    over once somebody ends the pause."""
    provider_id: str = ""
    """With SENT: the provider's id of the message, to be kept in the outcome record; cut at 200 characters."""
    refused: bool = False
    """With UNSENT: the provider answered and refused the target. Otherwise nothing was asked of it."""


SENT = Verdict(int(Outcome.SENT))
"""The verdict on a target that was sent."""


class Report(msgspec.Struct, frozen=True, gc=False):
    """A channel's results for one envelope."""

    verdict: Verdict = SENT
    """The verdict on all its targets except `exceptions`."""
    exceptions: dict[int, Verdict] | None = None
    """Verdicts on single targets, by index in `envelope.targets`."""


ALL_SENT = Report()
"""The report on an envelope whose targets were all sent."""


TaskName = Annotated[str, Meta(pattern=f"^{TASK_PATTERN}$")]
Writer = Annotated[str, Meta(min_length=1, max_length=MAX_WRITER_LENGTH)]
Attempt = Annotated[int, Meta(ge=0, lt=ATTEMPT_LIMIT)]
Sequence = Annotated[int, Meta(ge=0, le=MAX_SEQUENCE)]
Size = Annotated[int, Meta(ge=0, le=MAX_CHUNK)]
Positions = Annotated[list[Annotated[int, Meta(ge=0, lt=MAX_CHUNK)]], Meta(max_length=MAX_CHUNK)]
FinalCode = Annotated[int, Meta(ge=0, lt=len(Outcome))]


class Run(msgspec.Struct, array_like=True, frozen=True, gc=False, kw_only=True):
    """`count` envelopes of consecutive sequences with `size` targets each. All targets have the outcome `code`."""

    writer: Writer
    attempt: Attempt
    first: Sequence
    count: Annotated[int, Meta(ge=1, le=MAX_ENVELOPES)]
    size: Size
    code: FinalCode


class Mixed(msgspec.Struct, array_like=True, frozen=True, gc=False, kw_only=True):
    """One envelope whose targets have different results, or fewer targets than the first envelope of its sequence."""

    writer: Writer
    attempt: Attempt
    sequence: Sequence
    size: Size
    """Targets in the first envelope."""
    positions: Positions | None
    """Positions in the first envelope of this attempt's targets (None: all)."""
    codes: Annotated[bytes, Meta(max_length=MAX_CHUNK)]
    """One byte per target of this round: an Outcome value, RETRY, UNKNOWN or UNSENT."""
    delay_s: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0
    """Seconds until the first open target is due (0: none is open)."""
    groups: Groups = []
    """The open targets, with their tries after this round and when they are due. A target in none of them has been
    tried in each round, and is due after `delay_s`."""


class Named(msgspec.Struct, array_like=True, frozen=True, gc=False, kw_only=True):
    """Targets of one envelope that the record names, for the journal; a fold skips them."""

    writer: Writer
    attempt: Attempt
    sequence: Sequence
    positions: Positions | None
    """Positions in the first envelope (None: all, in order)."""
    targets: list[str]
    reasons: list[str] | None = None
    """One per target, cut at MAX_REASON characters (None: none has any)."""
    died_ms: list[Time] | None = None
    """One per target, as Verdict.died_ms (None: no provider named any)."""


class ProviderIds(msgspec.Struct, array_like=True, frozen=True, gc=False, kw_only=True):
    """The provider's ids of the messages to targets of one envelope, for the journal; a fold skips them."""

    writer: Writer
    attempt: Attempt
    sequence: Sequence
    positions: Positions | None
    """Positions in the first envelope (None: all, in order)."""
    prefix: str
    """Beginning of all the ids."""
    ids: list[str]
    """The rest of each."""


class Outcomes(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="o", kw_only=True):
    """Outcomes of envelopes of one task, under one claim.

    The fields from app on are only for the journal.
    """

    format: int
    task: TaskName
    claim: str
    at_ms: Time
    channel: str
    runs: list[Run]
    mixed: list[Mixed]
    app: str = ""
    latency_ms: Time = 0
    """Time to the record from when the oldest of these envelopes was published (for a later attempt: due)."""
    named: list[Named] = []
    """Those with the outcome INVALID, which are named nowhere else, and others as `journal.targets` says."""
    provider_ids: list[ProviderIds] = []
    """Those that the channels keep (`channels.fcm.keep_ids`)."""


class CloseTask(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="c"):
    """All open targets of a task get `code` (CANCELLED or EXPIRED). Written once its claims have ended."""

    format: int
    task: TaskName
    code: FinalCode
    at_ms: Time
    reason: str = ""
    """Why the task was stopped, if a reason was given. Only for the journal."""


class ClaimsEnded(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="e"):
    """These claims passed their end time. When a fold reads this, it has read everything before it, so identities that
    are still unrecorded may be granted again."""

    format: int
    claims: Annotated[list[str], Meta(max_length=MAX_CLAIMS)]


class EpochMark(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="m"):
    """Marks how far a topic must be read before a rebuilt view (named by its epoch) may grant."""

    format: int
    epoch: str


OutcomeRecord = Outcomes | CloseTask | ClaimsEnded | EpochMark

encode_record = msgspec.msgpack.Encoder().encode
"""OutcomeRecord -> bytes. Arrays led by the tag, so that the ledger's scripts can read them directly."""
decode_record = msgspec.msgpack.Decoder(OutcomeRecord).decode
"""bytes -> OutcomeRecord. Raises one of DECODING_ERRORS, also for a number beyond its limits."""


def read_outcomes(body: bytes) -> OutcomeRecord:
    """Decode a record. Raises Malformed, with the reason, for one that must be skipped: it cannot be read, its fields
    are beyond their limits, or it has a later format."""
    try:
        record: OutcomeRecord = decode_record(body)
    except DECODING_ERRORS as error:
        raise Malformed(f"it is not readable: {error}") from error
    if record.format != FORMAT:
        raise Malformed(f"it has format {record.format}; this version reads {FORMAT}")
    if isinstance(record, Outcomes) and not _is_sound(record):
        raise Malformed("its numbers do not fit each other")
    return record


def read_record(body: bytes) -> OutcomeRecord | None:
    """Decode a record; return None for one that must be skipped."""
    try:
        return read_outcomes(body)
    except Malformed:
        return None


def reads_back(record: OutcomeRecord) -> bool:
    """Return whether the record can be encoded and its readers will not skip it."""
    try:
        return read_record(encode_record(record)) is not None
    except Exception:  # the encoder raises whatever a wrong type makes it raise
        return False


def _is_sound(record: Outcomes) -> bool:
    """Return whether a fold can process the record: its number of envelopes, its sequences, codes and positions."""
    if sum([run.count for run in record.runs]) + len(record.mixed) > MAX_ENVELOPES:
        return False
    if any(run.first + run.count > MAX_SEQUENCE + 1 for run in record.runs):
        return False
    return all(m.codes.isascii() and (m.positions is None or len(m.positions) == len(m.codes)) for m in record.mixed)


def sound_text(value: object) -> str:
    """Return the value as text that can be stored: at most 1 kB of UTF-8, surrogates escaped."""
    if isinstance(value, (bytes, bytearray)):
        text = bytes(value[: 8 * MAX_REASON_BYTES]).decode("utf-8", "replace")
    else:
        text = str.__str__(value) if isinstance(value, str) else str(value)
    if len(text) <= MAX_REASON_BYTES and text.isascii():
        return text
    encoded = beginning(text, MAX_REASON_BYTES).encode("utf-8", "backslashreplace")
    return encoded[:MAX_REASON_BYTES].decode("utf-8", "ignore")
