"""The rules of a provider: what a channel, submission, commands and fakes must agree on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from dispatcher.channels.push_message import MAX_COLLAPSE_BYTES, PushMessage, Templates
from dispatcher.channels.template import Template
from dispatcher.channels.verdict_table import VerdictTable
from dispatcher.model.errors import InvalidInput
from dispatcher.model.tier import Tier


class CapUnit(StrEnum):
    """Units that a provider's rate limit counts."""

    TARGET = "target"
    REQUEST = "request"


@dataclass(frozen=True)
class Problem:
    """Something that the provider would refuse."""

    field: str
    """Such as `message.data.from`."""
    problem: str
    """The rest of a sentence that begins with the field."""

    def __str__(self) -> str:
        return f"{self.field} {self.problem}"


@dataclass(frozen=True)
class Handling:
    """How a message is to be treated on its way."""

    tier: Tier
    now_ms: int
    expires_ms: int
    """Wall time after which it must not arrive; 0: never."""

    @property
    def ttl_s(self) -> int | None:
        """Seconds that are left, rounded down; None: no limit."""
        return max(0, self.expires_ms - self.now_ms) // 1000 if self.expires_ms else None


@dataclass(frozen=True)
class Rendering:
    """A message's requests but for their targets."""

    headers: dict[str, str]
    """Headers that all requests share, besides credentials."""
    templates: Templates
    """Their bodies."""


class ChannelSpec(Protocol):
    """Knowledge about a provider that needs no connection."""

    @property
    def name(self) -> str:
        """Name of the channel."""
        ...

    @property
    def targets_per_request(self) -> int: ...

    @property
    def unit(self) -> CapUnit: ...

    @property
    def table(self) -> VerdictTable: ...

    def check_message(self, message: Mapping[str, Any]) -> list[Problem]:
        """Return what the provider would refuse in a message, whatever the target. Raises InvalidInput for a message
        that is not one of this channel."""
        ...

    def check_target(self, target: str) -> str | None:
        """Return what is wrong with a target, as the rest of a sentence; None if nothing is."""
        ...

    def flow_of(self, app: str, target: str, /) -> str:
        """Return the name of what has limits of its own: a credential or an origin."""
        ...

    def render(self, message: Mapping[str, Any], handling: Handling) -> Rendering:
        """Prepare a message's requests. Raises InvalidInput."""
        ...


def compiled(message: PushMessage, document: Callable[[PushMessage], object]) -> Templates:
    """Compile the documents of a message and its locales. Raises InvalidInput."""

    def template(language: str) -> Template:
        try:
            return Template(document(message.localized(language)))
        except ValueError as error:
            raise InvalidInput(f"The message is wrong: {error}.", "Correct the text.") from error

    return Templates(template(""), {language: template(language) for language in message.locales})


def problems_of(message: PushMessage, max_bytes: int, document: Callable[[PushMessage], object]) -> list[Problem]:
    """Return what every provider refuses: an empty message, a long collapse text, a document that is too large even
    without its variables."""
    problems = []
    if not (message.title or message.body or message.data or message.fcm or message.apns):
        problems.append(Problem("message", "has neither title, body nor data"))
    if len(message.collapse.encode()) > MAX_COLLAPSE_BYTES:
        problems.append(Problem("message.collapse", f"has more than {MAX_COLLAPSE_BYTES} bytes"))
    for language in ("", *message.locales):
        size = len(msgspec.json.encode(document(message.localized(language))))
        if size > max_bytes:
            field = f"message.locales.{language}" if language else "message"
            text = f"has {size:,} bytes for this provider; at most {max_bytes:,} are possible"
            problems.append(Problem(field, text))
    return problems


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return both objects in one, deeply; where both have a value, that of `over`."""
    result = dict(base)
    for key, value in over.items():
        before = result.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            result[key] = merged(before, value)
        else:
            result[key] = value
    return result
