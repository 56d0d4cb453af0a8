"""The unit on the wire: one Pulsar message that says everything needed to send its targets."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from dispatcher.errors import Malformed

FORMAT = 1
MAX_CHUNK = 500
"""Most targets in one envelope."""
MAX_ENVELOPE_BYTES = 4 * 1024 * 1024
"""Kept below the broker's default limit of 5 MiB a message."""


class Identity(NamedTuple):
    """What makes two envelopes copies of each other."""

    task: str
    writer: str
    sequence: int
    attempt: int


class Envelope(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A message and a chunk of targets.

    sequence counts a writer's envelopes from 0. size is the number of targets in the *first* envelope of this sequence
    (attempt 0); positions are the places of `targets` in it (None: all, in order). published_ms is the wall time of the
    first publishing; not_before_ms (retry lanes) the time it is due, 0 if at once; expires_ms 0 if never.
    variables has one entry a target, or is None when no target has any.
    """

    format: int
    task: str
    writer: str
    sequence: int
    attempt: int
    app: str
    channel: str
    published_ms: int
    not_before_ms: int
    expires_ms: int
    size: int
    max_attempts: int
    message: msgspec.Raw
    targets: list[str]
    positions: list[int] | None = None
    variables: list[dict[str, Any] | None] | None = None

    @property
    def identity(self) -> Identity:
        return Identity(self.task, self.writer, self.sequence, self.attempt)

    def position(self, index: int) -> int:
        """The place, in the first envelope, of the target at `index` of this one."""
        return index if self.positions is None else self.positions[index]

    def next_attempt(self, indexes: Sequence[int], not_before_ms: int, attempt: int | None = None) -> "Envelope":
        """The envelope that tries the targets at `indexes` (of this one) again."""
        return msgspec.structs.replace(
            self,
            attempt=self.attempt + 1 if attempt is None else attempt,
            not_before_ms=not_before_ms,
            targets=[self.targets[i] for i in indexes],
            positions=[self.position(i) for i in indexes],
            variables=None if self.variables is None else [self.variables[i] for i in indexes],
        )


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope)


def encode_message(message: dict[str, Any]) -> msgspec.Raw:
    """The task's message, encoded once and carried by each of its envelopes."""
    return msgspec.Raw(_encoder.encode(message))


def decode_message(raw: msgspec.Raw) -> dict[str, Any]:
    """The task's message as the submitter gave it."""
    message: dict[str, Any] = msgspec.msgpack.decode(raw)
    return message


encode_envelope = _encoder.encode
"""Envelope -> bytes (msgpack)."""


def decode_envelope(body: bytes) -> Envelope:
    """bytes -> Envelope. Raises Malformed for anything that is not a complete envelope of this format."""
    try:
        envelope = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise Malformed(f"A message in a lane is not an envelope: {error}.") from error
    if envelope.format != FORMAT:
        raise Malformed(
            f"An envelope has format {envelope.format}; this version reads {FORMAT}.", "Upgrade the workers."
        )
    return envelope
