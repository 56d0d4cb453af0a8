"""Pauses of one flow (one app on one channel) as stored: with an end, a kind and a reason."""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Self

import msgspec

from dispatcher.model.errors import InvalidInput, Malformed
from dispatcher.model.values import moment

FLOW_PAUSED = "flow_paused"
"""The kind of setting that holds the last entry of a flow (dispatcher.model.service_settings)."""
MAX_REASON = 500
"""Maximum characters of a reason."""
KEPT_MS = 30 * 86_400_000
"""The longest pause that has an end, and how long the end of a pause is remembered. All copies of a record that is no
longer restated leave the control topic before that."""
CONFIRMED_MS = 86_400_000
"""How long an operator's word that dead targets are dead keeps the flow from being suspected again."""
MAX_TIME_MS = 1 << 53
"""Later than any record."""
SUSPECT_MINUTE_MS = 60_000
"""The time of which the storm guard has counted the answers when it suspects a flow."""
_WRITTEN = re.compile(
    r"(\d{1,15})\|([a-z_]{1,32})\|(\d{1,15})\|([A-Za-z0-9._:=+-]{0,128})\|(?:(\d{1,15})-(\d{1,15})\|)?(.*)",
    re.ASCII | re.DOTALL,
)


class PauseKind(StrEnum):
    """Meanings of an entry for its flow."""

    HAND = "hand"
    """An operator paused it."""
    CREDENTIALS = "credentials"
    """The provider does not accept its credentials or settings."""
    LIMIT = "limit"
    """It sends too fast for the provider."""
    DOWN = "down"
    """The provider does not work."""
    SUSPECT = "suspect"
    """Too many targets are dead: its environment or credentials are probably wrong."""
    ENDED = "ended"
    """The pause before this entry is over."""
    CONFIRMED = "confirmed"
    """As `ended`, and dead targets are dead: the flow is not suspected for CONFIRMED_MS."""

    @property
    def stops(self) -> bool:
        """Whether nothing of the flow is sent."""
        return self not in (PauseKind.ENDED, PauseKind.CONFIRMED)


_KINDS = frozenset(map(str, PauseKind))


class FlowPause(msgspec.Struct, frozen=True, kw_only=True):
    """The last entry of a flow. Times are wall times of Redis' clock, in ms."""

    kind: PauseKind
    since_ms: int
    until_ms: int = 0
    """0: until somebody ends it."""
    reason: str = ""
    """Cause and next step, for people. Who ended it, if it has ended."""
    credential: str = ""
    """Version of the credential in use; empty if there is none."""
    doubted_from_ms: int = 0
    doubted_to_ms: int = 0
    """Time of a suspicion before this entry that no operator has confirmed; 0: there is none. Reports of dead targets
    in this time are doubted, although the flow may send again: other credentials do not make them true."""

    @property
    def text(self) -> str:
        """The stored form. backends/redis/lua/registry/flow_pauses.lua reads all but credential and reason."""
        has_doubts = self.doubted_to_ms or self.reason[:1].isdigit()  # a reason must not look like them
        doubted = f"{self.doubted_from_ms}-{self.doubted_to_ms}|" if has_doubts else ""
        return f"{self.until_ms}|{self.kind}|{self.since_ms}|{self.credential}|{doubted}{self.reason}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the stored form. Raises Malformed."""
        written = _WRITTEN.fullmatch(text)
        if written is None or written[2] not in _KINDS or _fault_of(written[7]):
            raise Malformed(f"its pause is {repr(text)[:80]}")
        return cls(
            until_ms=int(written[1]),
            kind=PauseKind(written[2]),
            since_ms=int(written[3]),
            credential=written[4],
            doubted_from_ms=int(written[5] or 0),
            doubted_to_ms=int(written[6] or 0),
            reason=written[7],
        )

    def checked(self) -> Self:
        """Return this entry if it is valid. Raises InvalidInput."""
        if self.kind.stops and self.until_ms and not self.since_ms < self.until_ms <= self.since_ms + KEPT_MS:
            seconds = (self.until_ms - self.since_ms) / 1000
            raise InvalidInput(
                f"for: is {seconds:g} seconds; a pause with an end lasts up to {KEPT_MS // 86_400_000} days."
            )
        if fault := _fault_of(self.reason):
            raise InvalidInput(f"reason: {fault}.")
        return self

    def __str__(self) -> str:
        return f"{self.kind}, {self.reason}" if self.reason else str(self.kind)

    def text_at(self, now_ms: int) -> str:
        """Return kind, reason and, if it has one, the end (UTC, with its date unless that is today)."""
        until = moment(self.until_ms, datetime.fromtimestamp(now_ms / 1000, UTC))
        return f"{self}, until {until}" if self.until_ms else str(self)

    def is_open(self, now_ms: int) -> bool:
        """Return whether nothing of the flow may be sent now."""
        return self.kind.stops and (not self.until_ms or now_ms < self.until_ms)

    def confirms(self, now_ms: int) -> bool:
        """Return whether dead targets of the flow count as dead, however many they are."""
        return self.kind is PauseKind.CONFIRMED and now_ms < self.until_ms

    def doubts(self, seen_ms: int) -> bool:
        """Return whether a report of a dead target, recorded at a wall time, is doubted."""
        return any(first_ms <= seen_ms <= last_ms for first_ms, last_ms in self.doubted_spans())

    def doubted_spans(self) -> list[tuple[int, int]]:
        """Return the wall times, inclusive, of records whose dead targets are doubted: of the minute that made the flow
        suspect, and later while it is."""
        spans = [(self.doubted_from_ms, self.doubted_to_ms)] if self.doubted_to_ms else []
        if self.kind is PauseKind.SUSPECT:
            spans.append((self.since_ms - SUSPECT_MINUTE_MS, MAX_TIME_MS))
        return spans

    def after(self, before: Self | None) -> Self:
        """Return this entry with the doubts of the one before it, which last until an operator confirms the targets."""
        if before is None or self.kind is PauseKind.CONFIRMED:
            return self
        from_ms, to_ms = before.doubted_from_ms, before.doubted_to_ms
        if before.kind is PauseKind.SUSPECT:
            from_ms = from_ms or before.since_ms - SUSPECT_MINUTE_MS
            to_ms = before.since_ms + SUSPECT_MINUTE_MS
        return msgspec.structs.replace(self, doubted_from_ms=max(0, from_ms), doubted_to_ms=to_ms)

    def is_needed(self, now_ms: int) -> bool:
        """Return whether the entry still means something: it pauses the flow, or older ones must not count again."""
        is_recent = not self.kind.stops and now_ms < self.since_ms + KEPT_MS
        return self.is_open(now_ms) or is_recent or now_ms < self.doubted_to_ms + KEPT_MS


def _fault_of(reason: str) -> str:
    is_valid = len(reason) <= MAX_REASON and (reason.isprintable() or not reason)
    return "" if is_valid else f"must be one line of at most {MAX_REASON} characters"


def ended(now_ms: int, reason: str) -> FlowPause:
    """Return the entry that ends a pause."""
    return FlowPause(kind=PauseKind.ENDED, since_ms=now_ms, reason=reason)


def confirmed(now_ms: int, reason: str) -> FlowPause:
    """Return the entry that ends a suspicion: the targets are dead."""
    return FlowPause(kind=PauseKind.CONFIRMED, since_ms=now_ms, until_ms=now_ms + CONFIRMED_MS, reason=reason)


def flow_name(channel: str, app: str) -> str:
    """Return the name of the flow of an app on a channel."""
    return f"{channel}/{app}"


def flow_parts(flow: str) -> tuple[str, str]:
    """Return the channel and the app of a flow."""
    channel, _, app = flow.partition("/")
    return channel, app
