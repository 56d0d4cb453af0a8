"""The unit on the wire: one Pulsar message with everything needed to send its targets."""

import re
from collections.abc import Sequence
from functools import lru_cache
from operator import lt
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from dispatcher.model.errors import DECODING_ERRORS, Malformed, NewerFormat
from dispatcher.wire.checks.nesting import TOO_DEEP, complaint_of, complaint_of_encoded
from dispatcher.wire.groups import MAX_TRIES, Groups, TargetGroup, Time, mask_of, pack_positions, partition_of
from dispatcher.wire.topics import NAME_PATTERN, TASK_PATTERN

FORMAT = 1
ROUNDS_FORMAT = 2
"""Format of an envelope of a later round, which has groups."""
MAX_FORMAT = 100
"""The highest format that counts as a later version's; anything higher is treated as damage."""
MAX_CHUNK = 500
"""Maximum targets in one envelope."""
MAX_SEQUENCE = (1 << 27) - 1
"""Largest sequence of an envelope. The view keeps a bit for each, so a writer's bitmap has at most 16 MiB."""
MAX_ATTEMPTS = MAX_TRIES
"""Largest maximum of attempts of a task."""
MAX_RETRY_FOR_MS = 30 * 86_400_000
ATTEMPT_LIMIT = 4_096
"""Bound of the rounds (`attempt`) of an envelope. Rounds in which nothing was sent count towards no task's maximum."""
MAX_ENVELOPE_BYTES = 4 * 1024 * 1024
"""Below the broker's default limit of 5 MiB per message."""
MAX_READABLE_BYTES = MAX_ENVELOPE_BYTES + 16 * 1024
"""Larger than MAX_ENVELOPE_BYTES because a later attempt also carries positions and its due time."""
MAX_CAUSE = 200
"""Maximum characters of a decoder's message in an error."""
MAX_WRITER_LENGTH = 64
_DAMAGE = 1
"""The type of the extension that takes the place of variables that cannot be read."""
_WRITER_PATTERN = f"[A-Za-z0-9._-]{{1,{MAX_WRITER_LENGTH}}}"


class Identity(NamedTuple):
    """The identity of an envelope. Envelopes with the same identity are copies of each other."""

    task: str
    writer: str
    sequence: int
    attempt: int


class Envelope(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A message and a chunk of targets. (task, writer, sequence, attempt) is its identity."""

    format: Annotated[int, Meta(ge=FORMAT, le=ROUNDS_FORMAT)]
    """Version of the envelope format."""
    task: str
    """Id of the task."""
    writer: str
    """The part of the submission that published it."""
    sequence: Annotated[int, Meta(ge=0, le=MAX_SEQUENCE)]
    """Number of the envelope among its writer's, from 0."""
    attempt: Annotated[int, Meta(ge=0, lt=ATTEMPT_LIMIT)]
    """Its round, from 0: the number of outcome records before it. Targets have tries of their own (`groups`)."""
    app: str
    """The app that owns the task."""
    channel: str
    """Name of the channel."""
    published_ms: Time
    """Wall time when attempt 0 was published."""
    not_before_ms: Time
    """Wall time before which it stays in its retry lane; 0: none. Its targets may be due later."""
    expires_ms: Time
    """Wall time after which it must not be sent; 0: never."""
    size: Annotated[int, Meta(ge=1, le=MAX_CHUNK)]
    """Number of targets in attempt 0 of this sequence."""
    max_attempts: Annotated[int, Meta(ge=1, le=ATTEMPT_LIMIT)]
    """Tries after which a target is given up: the task's."""
    message: msgspec.Raw
    """The task's message as bytes; see `decoded_message`."""
    targets: Annotated[list[str], Meta(min_length=1, max_length=MAX_CHUNK)]
    """Addresses on the channel."""
    positions: Annotated[list[int], Meta(max_length=MAX_CHUNK)] | None = None
    """Positions of `targets` in attempt 0; None: all, in order."""
    variables: Annotated[list[dict[str, Any] | None], Meta(max_length=MAX_CHUNK)] | None = None
    """One entry per target, None for a target without variables; None if no target has any."""
    groups: Groups | None = None
    """How its targets wait, from round 1 on; None in round 0."""
    gives_up_unknown: bool = False
    """Whether a target of which it is unknown if the provider took it is given up (the task's `unknown`)."""
    retry_for_ms: Annotated[int, Meta(ge=0, le=MAX_RETRY_FOR_MS)] = 0
    """How long after its first call a target is tried again (the task's `retry_for_s`); 0: no bound."""

    @property
    def decoded_message(self) -> dict[str, Any]:
        """The task's message as submitted; a string is {"body": string}. Variables are not filled in."""
        return decode_message(self.message)

    @property
    def damage(self) -> str:
        """Why nothing of it can be sent; empty if it can. See dispatcher/wire/checks/damage.py."""
        variables: Any = self.variables
        is_whole = variables is None or type(variables) is list
        return "" if is_whole else variables.data.partition(b"\0")[0].decode("utf-8", "replace")

    @property
    def identity(self) -> Identity:
        """The identity that distinguishes it from every other envelope."""
        return Identity(self.task, self.writer, self.sequence, self.attempt)

    def position(self, index: int) -> int:
        """Return the position in the first envelope of the target at `index` of this one."""
        return index if self.positions is None else self.positions[index]

    @property
    def open_positions(self) -> str:
        """Positions of its targets in the first envelope, in the form of dispatcher/wire/groups.py."""
        count = len(self.targets)
        return pack_positions(range(count) if self.positions is None else self.positions, self.size)

    def next_round(self, indexes: Sequence[int], groups: list[TargetGroup], attempt: int, leaves_ms: int) -> "Envelope":
        """Return the envelope of a later round (`attempt`) with the targets at `indexes` of this one.

        `leaves_ms`: when it leaves its retry lane.
        """
        return msgspec.structs.replace(
            self.part(indexes),
            format=ROUNDS_FORMAT,
            attempt=attempt,
            not_before_ms=leaves_ms,
            max_attempts=min(self.max_attempts, MAX_ATTEMPTS),
            groups=groups,
        )

    def part(self, indexes: Sequence[int]) -> "Envelope":
        """Return the same envelope with the targets at `indexes` only."""
        return msgspec.structs.replace(
            self,
            targets=[self.targets[i] for i in indexes],
            positions=[self.position(i) for i in indexes],
            variables=self.variables if not isinstance(self.variables, list) else [self.variables[i] for i in indexes],
        )


class _Head(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The first field of envelopes of every format."""

    format: Annotated[int, Meta(gt=ROUNDS_FORMAT, le=MAX_FORMAT)]


_encoder = msgspec.msgpack.Encoder(enc_hook=str.__str__)  # an address may be of a subclass of str
_decode = msgspec.msgpack.Decoder(Envelope).decode
_decode_head = msgspec.msgpack.Decoder(_Head).decode
_is_name = re.compile(NAME_PATTERN).fullmatch
_is_task = re.compile(TASK_PATTERN).fullmatch
_is_writer = re.compile(_WRITER_PATTERN).fullmatch


def encode_message(message: dict[str, Any]) -> msgspec.Raw:
    """Encode a task's message. This is done once, and each of its envelopes carries the result."""
    return msgspec.Raw(_encoder.encode(message))


def decode_message(raw: msgspec.Raw) -> dict[str, Any]:
    """Return a task's message as submitted."""
    message: dict[str, Any] = msgspec.msgpack.decode(raw)
    return message


encode_envelope = _encoder.encode
"""Envelope -> bytes (msgpack)."""


def damaged(envelope: Envelope, why: str, lost: bytes) -> Envelope:
    """Return the envelope in a form that no reader takes for a whole one. `lost`: the bytes that cannot be read, or the
    damage of an envelope that is in this form."""
    try:
        unreadable: Any = msgspec.msgpack.decode(lost, type=msgspec.msgpack.Ext)
    except DECODING_ERRORS:
        unreadable = None
    if unreadable is None or unreadable.code != _DAMAGE:
        unreadable = msgspec.msgpack.Ext(_DAMAGE, why.encode() + b"\0" + lost)
    return msgspec.structs.replace(envelope, variables=unreadable)


def decode_envelope(body: bytes, previous: Envelope | None = None) -> Envelope:
    """Decode an envelope.

    `previous` is an envelope that was decoded before, ideally of the same lane. Names equal to its names are not
    checked again: 0.04 us instead of 0.15 (cached) or 1.2 (checked).

    Raises Malformed for anything that is not a complete envelope within its limits, and NewerFormat for an envelope of
    a later version.
    """
    try:
        envelope = _decode(body)
    except DECODING_ERRORS as error:
        raise _unreadable(body, error) from error
    if (
        previous is None
        or envelope.task != previous.task
        or envelope.writer != previous.writer
        or envelope.app != previous.app
        or envelope.channel != previous.channel
    ) and not _names_fit(envelope.task, envelope.writer, envelope.app, envelope.channel):
        raise _malformed("the name of its task, writer, app or channel is not allowed")
    if len(body) > MAX_READABLE_BYTES:
        raise _malformed(f"it has {len(body):,} bytes; at most {MAX_READABLE_BYTES:,} are possible")
    if len(envelope.targets) != envelope.size or envelope.positions is not None or envelope.variables is not None:
        _check_counts(envelope)
    if envelope.attempt or envelope.format != FORMAT or envelope.groups is not None:
        _check_groups(envelope)
    if previous is None or envelope.message != previous.message:
        _check_values(complaint_of_encoded(bytes(envelope.message)))
    return envelope


@lru_cache(maxsize=4_096)
def _names_fit(task: str, writer: str, app: str, channel: str) -> bool:
    """Check the names; cached for lanes in which tasks alternate."""
    return bool(_is_task(task) and _is_writer(writer) and _is_name(app) and _is_name(channel))


def _check_counts(envelope: Envelope) -> None:
    """Check that there are as many positions and variables as targets, and no more targets than `size`. Raises
    Malformed."""
    count, size = len(envelope.targets), envelope.size
    positions, variables = envelope.positions, envelope.variables
    if count != size and (positions is None or envelope.attempt == 0 or count > size):
        raise _malformed(f"it has {count} of {size} targets in attempt {envelope.attempt}")
    if positions is not None and not _positions_fit(positions, count, size):
        raise _malformed("its positions do not fit its targets")
    if variables is not None:
        if len(variables) != count:
            raise _malformed(f"it has {len(variables)} variables for {count} targets")
        _check_values(complaint_of(variables))


def _check_values(problem: str) -> None:
    if problem:
        raise _malformed(problem)


def _check_groups(envelope: Envelope) -> None:
    """Check that each target of a later round is in one group, with a try left. Raises Malformed."""
    groups = envelope.groups
    if groups is None or envelope.format == FORMAT or envelope.attempt == 0:
        raise _malformed(f"format {envelope.format} and its groups do not fit in round {envelope.attempt}")
    if partition_of(groups) != mask_of(envelope.open_positions):
        raise _malformed("its groups do not fit its targets")
    if any(group.tries >= MAX_TRIES for group in groups):
        raise _malformed(f"a target was tried {MAX_TRIES} times")


def _positions_fit(positions: list[int], count: int, size: int) -> bool:
    """Check the positions: one per target, ascending, below `size`."""
    if len(positions) != count or positions[0] < 0 or positions[-1] >= size:
        return False
    return all(map(lt, positions, positions[1:]))


def _unreadable(body: bytes, error: Exception) -> Malformed | NewerFormat:
    try:
        head = _decode_head(body)
    except DECODING_ERRORS:
        return _malformed(TOO_DEEP if isinstance(error, RecursionError) else str(error)[:MAX_CAUSE])
    return NewerFormat(
        f"An envelope has format {head.format}; this version reads {ROUNDS_FORMAT}.", "Upgrade the remaining workers."
    )


def _malformed(why: str) -> Malformed:
    return Malformed(f"A message in a lane is not an envelope: {why}.")
