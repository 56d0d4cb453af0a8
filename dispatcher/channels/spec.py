"""The rules of a provider: what a channel, submission, commands and fakes must agree on."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar

from dispatcher.channels.push_message import MAX_COLLAPSE_BYTES, PushMessage, Templates, read_message
from dispatcher.channels.template import Template
from dispatcher.channels.verdict_table import VerdictTable
from dispatcher.model.errors import InvalidInput
from dispatcher.model.tier import Tier


@dataclass(frozen=True)
class Problem:
    """Something that the provider would refuse."""

    field: str
    """Such as `message.data.from`."""
    problem: str
    """The rest of a sentence that begins with the field."""
    fix: str = ""
    """How to correct it, as an imperative."""

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}{'; ' if self.fix else ''}{self.fix}"


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

    def kept_s(self, message: PushMessage, max_s: int) -> int | None:
        """Return how long the provider is to keep a message: what is left, or less; None: as long as it likes."""
        limits = [limit for limit in (self.ttl_s, message.provider_ttl_s) if limit is not None]
        return int(min(*limits, max_s)) if limits else None


@dataclass(frozen=True)
class Rendering:
    """A message's requests but for their targets."""

    headers: dict[str, str]
    """Headers that all requests share, besides credentials."""
    templates: Templates
    """Their bodies."""


class ChannelSpec(ABC):
    """Limits, checks, rendering and the meaning of answers of a provider: all that needs no connection."""

    table: ClassVar[VerdictTable]
    max_payload_bytes: ClassVar[int]
    """The provider's limit of a request's payload."""
    targets_per_request: ClassVar[int] = 1
    folds_case: ClassVar[bool] = False
    """Whether the provider takes targets that differ only in case for the same; their canonical form is lower case."""

    def check_message(self, message: Mapping[str, Any]) -> list[Problem]:
        """Return what the provider would refuse in a message, whatever the target. Raises InvalidInput for a message
        that is not one of this channel."""
        parsed = read_message(message)
        return [*self.own_problems(parsed), *self._common_problems(parsed)]

    def payload(self, message: Mapping[str, Any]) -> Templates:
        """Return what the limit of the payload applies to. Raises InvalidInput."""
        return compiled(read_message(message), self.document)

    @abstractmethod
    def own_problems(self, message: PushMessage) -> list[Problem]:
        """Return what this provider alone would refuse."""

    @abstractmethod
    def document(self, message: PushMessage) -> dict[str, Any]:
        """Return the largest form of the payload."""

    @abstractmethod
    def check_target(self, target: str) -> str | None:
        """Return what is wrong with a target, as the rest of a sentence; None if nothing is."""

    @abstractmethod
    def render(self, message: Mapping[str, Any], handling: Handling) -> Rendering:
        """Prepare a message's requests. Raises InvalidInput."""

    def _common_problems(self, message: PushMessage) -> list[Problem]:
        """Return what every provider refuses: an empty message, a long collapse text, a document that is too large even
        without its variables."""
        problems = []
        if not (message.title or message.body or message.data or message.fcm or message.apns):
            problems.append(Problem("message", "has neither title, body nor data", "give at least one of them"))
        if len(message.collapse.encode()) > MAX_COLLAPSE_BYTES:
            problems.append(Problem("message.collapse", f"has more than {MAX_COLLAPSE_BYTES} bytes", "shorten it"))
        templates, maximum = compiled(message, self.document), self.max_payload_bytes
        for language in ("", *message.locales):
            size = templates.in_language(language).fixed_bytes
            if size > maximum:
                field = f"message.locales.{language}" if language else "message"
                text = f"has {size:,} bytes for this provider, even without variables; at most {maximum:,} are possible"
                problems.append(Problem(field, text, "shorten its texts or its data"))
        return problems


def compiled(message: PushMessage, document: Callable[[PushMessage], object]) -> Templates:
    """Compile the documents of a message and its locales. Raises InvalidInput."""

    def template(language: str) -> Template:
        try:
            return Template(document(message.localized(language)))
        except ValueError as error:
            raise InvalidInput(f"message: {error}.", "Correct the text.") from error

    return Templates(template(""), {language: template(language) for language in message.locales})


def unknown_fields(given: Mapping[str, Any], known: Collection[str], field: str) -> list[Problem]:
    """Return a problem for each field that the provider does not know."""
    problems = []
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            fix = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            problems.append(Problem(f"{field}.{name}", "there is no such field", fix))
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
