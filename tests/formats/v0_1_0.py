"""The reader of 0.1.0: its records as they were declared at commit 9d5a78a, and nothing else of it. Do not edit."""

from typing import Annotated, Any

import msgspec


class TaskRecord(msgspec.Struct, array_like=True, tag="t"):
    format: int
    task: str
    app: str
    tier: str
    channel: str
    message: msgspec.Raw
    lane: str
    shared: bool
    chunk: int
    expected_targets: int
    weight: int
    cap: int
    start_ms: int
    expires_ms: int
    hold_until_sealed: bool
    max_attempts: int
    created_ms: int
    digest: str
    cap_burst: int = 0
    partitions: int = 0


class Checkpoint(msgspec.Struct, array_like=True, tag="k"):
    format: int
    task: str
    writer: str
    sequence: int
    targets: int
    refused: int
    consumed: int
    digest: str


class Sealed(msgspec.Struct, array_like=True, tag="s"):
    format: int
    task: str
    targets: int
    refused: int
    digest: str
    writers: list[str]


class ControlChange(msgspec.Struct, array_like=True, tag="x"):
    format: int
    task: str
    field: str
    value: str
    at_ms: int


class GlobalChange(msgspec.Struct, array_like=True, tag="g"):
    format: int
    field: str
    value: str
    at_ms: int


class Finished(msgspec.Struct, array_like=True, tag="f"):
    format: int
    task: str
    state: str
    counts: list[int]
    at_ms: int


class EpochStarted(msgspec.Struct, array_like=True, tag="b"):
    format: int
    epoch: str
    at_ms: int


class EpochMark(msgspec.Struct, array_like=True, tag="m"):
    format: int
    epoch: str


class Restated(msgspec.Struct, array_like=True, tag="r"):
    format: int
    position: str
    record: msgspec.Raw


Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
Code = Annotated[int, msgspec.Meta(ge=0, le=9)]
FinalCode = Annotated[int, msgspec.Meta(ge=0, lt=5)]


class Run(msgspec.Struct, array_like=True):
    writer: str
    attempt: Number
    first: Number
    count: Number
    size: Number
    code: Code


class Mixed(msgspec.Struct, array_like=True):
    writer: str
    attempt: Number
    sequence: Number
    size: Number
    positions: list[Number] | None
    codes: bytes
    delay_s: int = 0


class Named(msgspec.Struct, array_like=True):
    writer: str
    attempt: Number
    sequence: Number
    positions: list[Number] | None
    targets: list[str]
    reasons: list[str] | None = None


class Outcomes(msgspec.Struct, array_like=True, tag="o"):
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


class CloseTask(msgspec.Struct, array_like=True, tag="c"):
    format: int
    task: str
    code: FinalCode
    at_ms: int


class ClaimsEnded(msgspec.Struct, array_like=True, tag="e"):
    format: int
    claims: list[str]


class Envelope(msgspec.Struct, array_like=True):
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


class DeadLetter(msgspec.Struct, array_like=True):
    format: int
    task: str
    writer: str
    sequence: int
    attempt: int
    at_ms: int
    channel: str
    positions: list[int]
    targets: list[str]
    outcomes: list[int]
    reasons: list[str]
    body: bytes = b""


Control = (
    TaskRecord | Checkpoint | Sealed | ControlChange | GlobalChange | Finished | EpochStarted | EpochMark | Restated
)
Outcome = Outcomes | CloseTask | ClaimsEnded | EpochMark

read_control = msgspec.msgpack.Decoder(Control).decode
read_outcome = msgspec.msgpack.Decoder(Outcome).decode
read_envelope = msgspec.msgpack.Decoder(Envelope).decode
read_letter = msgspec.msgpack.Decoder(DeadLetter).decode
