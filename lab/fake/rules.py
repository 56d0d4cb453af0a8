"""Rules of a fake: from a file, or set while it runs."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from backends.files import parse_toml, read_text
from dispatcher.channels.verdict_table import UNKNOWN_ANSWER, Answer, Row, VerdictTable
from dispatcher.model.errors import DECODING_ERRORS, InvalidInput

Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[int, Meta(ge=0, le=31_536_000)]


class _Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all rules."""


class AnswerRule(_Rule, frozen=True):
    """An answer instead of "sent", for a share of the requests."""

    status: Annotated[int, Meta(ge=200, le=599)]
    code: str = ""
    """The provider's code or reason; empty: the usual one of the status."""
    detail: str = ""
    """As in the provider's verdict table, such as `device`."""
    share: Annotated[float, Meta(ge=0.0, le=1.0)] = 1.0
    """Share of the requests; of the targets for answers that say that the target is at fault, which always get it."""
    targets: str = ""
    """Applies only to targets that begin with this."""
    times: Count | None = None
    """Applies only this many times."""
    retry_after_s: Seconds | None = None
    taken: bool = False
    """Whether the message counts as accepted in spite of the answer."""

    def answer(self, died_ms: int = 0) -> Answer:
        """Return the answer as channels read it."""
        return Answer(
            status=self.status,
            code=self.code,
            detail=self.detail,
            retry_after_s=self.retry_after_s,
            died_ms=died_ms,
        )


class GoAway(_Rule, frozen=True):
    """Rule: end connections with GOAWAY, as a server does that is about to restart."""

    after: Count
    """Requests on a connection that are taken. Over HTTP/1.1, the connection closes then."""
    untaken: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Further requests to wait for, at most 0.1 s. They have streams above the last stream id, and are not taken."""
    last_stream: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    """The last stream id to send instead of that of the last request that is taken."""


class FakeRules(_Rule, frozen=True):
    """How a fake behaves. Without rules it takes whatever is valid, at once."""

    answers: tuple[AnswerRule, ...] = ()
    latency_ms: tuple[Annotated[float, Meta(ge=0)], Annotated[float, Meta(ge=0)]] = (0.0, 0.0)
    """Minimum and maximum delay of an answer."""
    streams: Count | None = None
    """Concurrent streams of a connection; None: 100 (FCM) or 1,000 (APNs)."""
    goaway: GoAway | None = None
    reset_after: Count | None = None
    """The connection breaks with this request on it, which is taken."""
    half_open_after: Annotated[int, Meta(ge=0)] | None = None
    """After this many requests a connection takes all and answers nothing."""
    token_lifetime_s: Annotated[int, Meta(ge=1)] = 3_600
    """Lifetime of access tokens (FCM), maximum age of provider tokens (APNs)."""
    token_update_s: Annotated[int, Meta(ge=0)] = 1_200
    """Minimum time between two provider tokens of a connection (APNs)."""
    quota_per_minute: Count | None = None
    """Requests in a minute, which begins with its first request."""
    message_id: str = ""
    """Key of `message.data` that holds the message's id in accounts (FCM)."""


def load_rules(file: Path, table: VerdictTable) -> FakeRules:
    """Read rules from a TOML or JSON file. Raises InvalidInput, which names the field."""
    try:
        text = read_text(file)
        values = msgspec.json.decode(text) if file.suffix == ".json" else parse_toml(text)
    except DECODING_ERRORS as error:
        raise InvalidInput(f"{file} is wrong: {error}.", "Correct it.") from error
    return read_rules(values, table)


def read_rules(values: Any, table: VerdictTable) -> FakeRules:
    """Check rules. Raises InvalidInput, which names the field."""
    try:
        rules = msgspec.convert(values, FakeRules)
    except msgspec.ValidationError as error:
        known = ", ".join(FakeRules.__struct_fields__)
        raise InvalidInput(f"The rules are wrong: {error}.", f"The fields are: {known}.") from error
    if rules.latency_ms[0] > rules.latency_ms[1]:
        raise InvalidInput("latency_ms has its minimum above its maximum.", "Write [minimum, maximum].")
    for number, each in enumerate(rules.answers):
        if row_of(each, table) is UNKNOWN_ANSWER:
            raise InvalidInput(
                f"answers[{number}] is no answer of this provider: {each.status} {each.code}".rstrip() + ".",
                f"Its answers are: {', '.join(_name(row) for row in table.rows)}.",
            )
    return rules


def row_of(rule: AnswerRule, table: VerdictTable) -> Row:
    """Return the row of the verdict table that a rule plays."""
    return table.row_of(rule.answer())


def _name(row: Row) -> str:
    status = str(row.status) if row.status >= 100 else f"{row.status}xx"
    return " ".join(part for part in (status, row.code, row.detail) if part)
