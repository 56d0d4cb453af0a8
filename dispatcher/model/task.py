"""The input of a submission: a push task and its targets. Every limit is checked and named in errors."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

import msgspec
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from dispatcher.model.errors import InvalidInput
from dispatcher.model.field_errors import invalid_input
from dispatcher.model.pools import MAX_CAP
from dispatcher.model.tier import MAX_WEIGHT, MILLI, MIN_WEIGHT, Tier
from dispatcher.model.values import parse_duration_s
from dispatcher.wire.checks.nesting import complaint_of
from dispatcher.wire.envelope import MAX_ATTEMPTS, MAX_CHUNK, encode_message
from dispatcher.wire.topics import NAME_PATTERN, OWN_LANE_ABOVE, TASK_PATTERN

MAX_MESSAGE_BYTES = 16 * 1024
"""Maximum size of a message, encoded (msgpack)."""
MAX_TARGET_LENGTH = 1_024
"""Maximum length of a target, in characters."""
MAX_VARIABLES_BYTES = 2 * 1024
"""Maximum size of the variables of one target, encoded (msgpack)."""
MAX_TTL_S = 7 * 86_400
DAY_MS = 86_400_000
RECORDS_KEPT_MS = 2 * MAX_TTL_S * 1_000
"""How long control, outcome and dead-letter records are kept: twice the longest ttl. So an empty Redis can be rebuilt
with everything that may still be in a lane."""
TOMBSTONE_MS = RECORDS_KEPT_MS + 2 * DAY_MS
"""How long the view and the journal remember an ended task. After that its id may be used again. If it were used
earlier, a rebuild would read the end of the first task with that id, and lose the second task. It is two days longer
than the records are kept, since a broker deletes these ledger by ledger."""
MAX_PROVIDER_TTL_S = 30 * 86_400
MAX_RETRY_FOR_S = 30 * 86_400
MAX_START_AHEAD_S = 30 * 86_400
"""How far ahead a start time may be; checked when the task is submitted."""
MAX_START_BEHIND_S = 60
"""How far back the start time of a new task may be: clocks differ, and a minute may pass before it is submitted."""
MAX_TARGETS = 2**40
UNKNOWN_SIZE_CHUNK = 100

_RESERVED = re.compile(r".*(-partition-\d+|__transaction_pending_ack)")


class Target(msgspec.Struct, frozen=True, gc=False):
    """One address with its own variables.

    It is checked only when it is submitted, so that a bad target in a stream is refused and reported with its line.
    """

    address: str
    """1 to 1,024 printable characters, no whitespace but around it, where it is removed."""
    variables: Mapping[str, Any] | None = None
    """At most 2 KiB encoded; keys are text, and lists and objects are nested at most 32 levels deep."""


class ChunkRow(NamedTuple):
    """Targets per envelope, by tier, for tasks of up to `expected` targets."""

    expected: float
    high: int
    medium: int
    low: int


CHUNK_TABLE: tuple[ChunkRow, ...] = (
    ChunkRow(200, 1, 1, 1),
    ChunkRow(2_000, 10, 10, 5),
    ChunkRow(20_000, 50, 25, 10),
    ChunkRow(200_000, 100, 50, 25),
    ChunkRow(2_000_000, 250, 100, 50),
    ChunkRow(float("inf"), 500, 250, 100),
)
"""Chunk sizes by task size and tier. An envelope is leased whole, so it should be a small fraction of a second of its
tier's rate. That is why small tasks get small envelopes, and lower tiers (with less capacity) smaller ones than higher
tiers."""


def choose_chunk(tier: Tier, expected_targets: int | None) -> int:
    """Return the targets per envelope for a task of this tier and size (None: unknown)."""
    if expected_targets is None:
        return UNKNOWN_SIZE_CHUNK
    row = next(row for row in CHUNK_TABLE if expected_targets <= row.expected)
    return {Tier.HIGH: row.high, Tier.MEDIUM: row.medium, Tier.LOW: row.low}[tier]


def is_reserved(name: str) -> bool:
    """Return whether a topic of this name is one of Pulsar's own."""
    return _RESERVED.fullmatch(name) is not None


def _not_reserved(name: str) -> str:
    if is_reserved(name):
        raise ValueError("must not end with -partition-<number> or __transaction_pending_ack (Pulsar's own names)")
    return name


def _from_json(value: object) -> object:
    """Parse an object that comes as a text, as options of Spark do."""
    if isinstance(value, str):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            raise ValueError(f"is no JSON object: {error}") from None
    return value


def _as_message(value: object) -> object:
    return {"body": value} if isinstance(value, str) else value


def _short_enough(message: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        size = len(encode_message(message))
    except (TypeError, OverflowError, UnicodeEncodeError, ValueError, msgspec.MsgspecError) as error:
        raise ValueError(f"cannot be encoded: {error}") from error
    if size > MAX_MESSAGE_BYTES:
        raise ValueError(f"is {size:,} bytes encoded; at most {MAX_MESSAGE_BYTES:,} are possible")
    if problem := complaint_of([message]):
        raise ValueError(f"cannot be read by a worker: {problem}")
    return message


def _seconds(value: object) -> object:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        with suppress(ValueError):
            return parse_duration_s(value)
    return value


Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$"), AfterValidator(_not_reserved)]
"""Name of an app or a channel: 1 to 64 of A-Z a-z 0-9 . _ - and the first a letter or digit. The topic of a side lane
contains both names."""
TaskId = Annotated[str, Field(pattern=f"^{TASK_PATTERN}$"), AfterValidator(_not_reserved)]
"""1 to 100 of A-Z a-z 0-9 . _ - and the first a letter or digit; the task's topic contains it."""


Message = Annotated[dict[str, JsonValue], BeforeValidator(_as_message), AfterValidator(_short_enough)]
"""At most 16 KiB encoded, and 32 levels of lists and objects in a field. A string becomes {"body": string}."""


Options = Annotated[dict[str, dict[str, JsonValue]], BeforeValidator(_from_json)]
Locales = Annotated[dict[str, Message], BeforeValidator(_from_json)]


class PushTask(BaseModel):
    """One push job. Frozen: its content does not change once accepted; tier, weight and cap are the initial controls.

    A broken limit raises InvalidInput with a line for each field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    id: TaskId | None = None
    """Submitting an id again continues the same task (or verifies it, if complete). None: a new id at each submit."""
    app: Name
    """The app that owns the task."""
    tier: Tier
    """`high`, `medium` or `low`."""
    channel: Name
    """The channel of the workers that delivers it; there is no default."""
    message: Message
    """The content: a mapping of JSON values, or a string, which becomes {"body": string}. At most 16 KiB encoded."""
    expected_targets: Annotated[int, Field(ge=0, le=MAX_TARGETS)] | None = None
    """A hint that determines the chunk, and whether a small low task shares a lane. None: unknown (or the length of the
    audience, if it has one)."""
    chunk: Annotated[int, Field(ge=1, le=MAX_CHUNK)] | None = None
    """Targets per envelope; None: chosen by `choose_chunk`."""
    weight: Annotated[float, Field(ge=MIN_WEIGHT, le=MAX_WEIGHT)] = 1.0
    """Share among the tasks of its tier; kept to three decimals."""
    cap: Annotated[int, Field(ge=1, le=MAX_CAP)] | None = None
    """Maximum targets/s of this task."""
    cap_burst: Annotated[int, Field(ge=1, le=MAX_CAP)] | None = None
    """Maximum targets of it at once; None: a quarter of a second of the cap."""
    ttl_s: Annotated[float, BeforeValidator(_seconds), Field(ge=0.001, le=MAX_TTL_S)] | None = None
    """Targets not sent this long after the start (or, without start_at, after acceptance) expire. At most 7 days.
    Seconds, a timedelta, or text such as "90s", "10m", "1h", "2d"."""
    start_at: AwareDatetime | None = None
    """Nothing is sent before this time; at most 30 days ahead. With a time zone."""
    hold_until_sealed: bool = False
    """Whether sending waits for the whole audience."""
    max_attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = 8
    """Maximum provider calls for one target, including the first. A claim of a worker that died counts as one. The
    eighth is 33 minutes after the first, or later: a provider that is away for half an hour fails nobody."""
    retry_for_s: Annotated[float, BeforeValidator(_seconds), Field(ge=1, le=MAX_RETRY_FOR_S)] | None = None
    """How long after its first call a target is tried again, without the time in which the task, its channel or its app
    on the channel is paused. None: until `max_attempts` or the ttl. As ttl_s; up to 30 days."""
    unknown: Literal["retry", "give_up"] = "retry"
    """The next step for a target if it is unknown whether the provider took it: a call timed out, or its worker died.
    `retry`: it is tried again, and may come twice. `give_up`: it fails, and may not have been sent."""

    collapse: str = ""
    """For `fcm` and `apns`: of messages with the same text here, a device shows only the last."""
    category: str = ""
    """For `fcm` and `apns`: the notification channel (Android) or category (APNs)."""
    provider_ttl_s: Annotated[float, BeforeValidator(_seconds), Field(ge=0, le=MAX_PROVIDER_TTL_S)] | None = None
    """For `fcm` and `apns`: how long the provider keeps the message for a device that it cannot reach, at most what is
    left of `ttl_s`. None: as long as that, or as long as the provider likes. As ttl_s; 0: only if it is reachable."""
    options: Options = {}
    """For `fcm` and `apns`: further fields of the provider's message, by channel, such as {"fcm": {"android": {...}}}.
    """
    locales: Locales = {}
    """For `fcm` and `apns`: texts by language. The target's variable `lang` chooses: for `zh-Hant-TW` the first of
    zh-Hant-TW, zh-Hant, zh and the message itself. A string becomes {"body": string}."""

    if TYPE_CHECKING:  # more types are accepted than the fields hold, which type checkers cannot know

        def __init__(
            self,
            *,
            app: str,
            tier: Tier | str,
            channel: str,
            message: Mapping[str, JsonValue] | str,
            id: str | None = None,  # noqa: A002  # the field's name
            expected_targets: int | None = None,
            chunk: int | None = None,
            weight: float = 1.0,
            cap: int | None = None,
            cap_burst: int | None = None,
            ttl_s: float | timedelta | str | None = None,
            start_at: datetime | None = None,
            hold_until_sealed: bool = False,
            max_attempts: int = 8,
            retry_for_s: float | timedelta | str | None = None,
            unknown: Literal["retry", "give_up"] = "retry",
            collapse: str = "",
            category: str = "",
            provider_ttl_s: float | timedelta | str | None = None,
            options: Mapping[str, Mapping[str, JsonValue]] = {},
            locales: Mapping[str, Mapping[str, JsonValue] | str] = {},
        ) -> None: ...

    @model_validator(mode="wrap")
    @classmethod
    def _name_the_field(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            task = handler(value)
            _short_enough(task.complete_message)
        except ValidationError as error:
            raise invalid_input(error) from None
        except InvalidInput as error:
            raise InvalidInput("\n".join(f"task: {line}" for line in str(error).splitlines())) from None
        except ValueError as error:
            raise InvalidInput(f"task: message: {error}") from None
        return task

    @property
    def complete_message(self) -> dict[str, JsonValue]:
        """The message with the fields that its channel's provider reads, as it travels."""
        # Imported here: workers know this module, and not what providers accept.
        from dispatcher.channels.submission.task_message import ProviderFields, task_message

        delivery = ProviderFields(self.collapse, self.category, self.provider_ttl_s, self.options, self.locales)
        return task_message(self.channel, self.message, delivery)

    @property
    def weight_milli(self) -> int:
        """Weight in thousandths."""
        return round(self.weight * MILLI)

    @property
    def start_ms(self) -> int:
        """Start time in wall ms; 0 to start at once."""
        return 0 if self.start_at is None else int(self.start_at.timestamp() * 1000)

    def chosen_chunk(self, expected_targets: int | None) -> int:
        """Return the targets per envelope for an audience of this size."""
        return self.chunk if self.chunk is not None else choose_chunk(self.tier, expected_targets)

    def own_lane(self, expected_targets: int | None) -> bool:
        """Return whether the task gets its own topic. Shared lanes are first in, first out, so a task that is large,
        must wait, or has its own weight or cap cannot use one."""
        small = expected_targets is not None and expected_targets <= OWN_LANE_ABOVE
        plain = self.weight_milli == MILLI and self.cap is None
        at_once = self.start_at is None and not self.hold_until_sealed
        return not (self.tier is Tier.LOW and small and plain and at_once)
