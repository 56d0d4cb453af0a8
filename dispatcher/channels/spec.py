"""The rules of a provider: what a channel, submission, commands and fakes must agree on."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, NamedTuple

from dispatcher.channels.languages import locale_key, parse_tag
from dispatcher.channels.push_message import CollapseText, PushMessage, Templates, read_message
from dispatcher.channels.template import Template
from dispatcher.channels.verdict_table import VerdictTable
from dispatcher.model.errors import InvalidInput
from dispatcher.model.tier import Tier

NO_SUCH_FIELD = "there is no such field"


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


class TargetRequest(NamedTuple):
    """The final request of one target, besides its address and the credentials."""

    headers: dict[str, str]
    body: bytes


_EXAMPLE_TARGET = "0" * 64
EXAMPLE = Handling(Tier.HIGH, now_ms=0, expires_ms=0)
"""The handling of final requests that are checked and not sent."""


@dataclass(frozen=True)
class Rendering:
    """A message's requests but for their targets."""

    headers: dict[str, str]
    """Headers that all requests share, besides credentials."""
    templates: Templates
    """Their bodies."""
    max_body_bytes: int
    """The provider refuses every request with a longer body."""
    collapse_header: str = ""
    """The name of the header that each target has for itself; empty: there is none."""
    collapse: CollapseText | None = None
    """Its text."""

    def own_headers(self, variables: Mapping[str, Any] | None) -> tuple[tuple[str, str], ...]:
        """Return the headers of one target. Raises as CollapseText.of."""
        text = "" if self.collapse is None else self.collapse.of(variables)
        return ((self.collapse_header, text),) if text else ()

    def request(self, target: str, variables: Mapping[str, Any] | None) -> TargetRequest:
        """Return the final request of one target. Raises MissingVariable, and TypeError or ValueError for variables
        that cannot be written into it."""
        body = self.templates.of(variables).fill(target, variables)
        return TargetRequest({**self.headers, **dict(self.own_headers(variables))}, body)


class ChannelSpec(ABC):
    """Limits, checks, rendering and the meaning of answers of a provider: all that needs no connection."""

    table: ClassVar[VerdictTable]
    folds_case: ClassVar[bool] = False
    """Whether the provider takes targets that differ only in case for the same; their canonical form is lower case."""

    def check_message(self, message: Mapping[str, Any]) -> list[Problem]:
        """Return what the provider would refuse in a message, whatever the target. Raises InvalidInput for a message
        that is not one of this channel."""
        parsed = read_message(message)
        problems = [*self.own_problems(parsed), *_common_problems(parsed)]
        return problems or self._language_problems(message, parsed)

    def ignored(self, _message: PushMessage, /) -> list[str]:
        """Return, as sentences, which fields have no effect, or not on all devices."""
        return []

    def depends_on_variables(self, _message: PushMessage, /) -> bool:
        """Return whether variables decide what the provider takes, besides by their size."""
        return False

    @abstractmethod
    def own_problems(self, message: PushMessage) -> list[Problem]:
        """Return what this provider alone would refuse."""

    @abstractmethod
    def request_problems(self, message: PushMessage, request: TargetRequest, language: str = "") -> list[Problem]:
        """Return what the provider would refuse in a final request, by the fields of the message.

        language: the locale of its texts; empty: the message's own.
        """

    @abstractmethod
    def document(self, message: PushMessage) -> dict[str, Any]:
        """Return the largest form of the payload."""

    @abstractmethod
    def max_payload_bytes(self, message: PushMessage) -> int:
        """Return the provider's limit of a request's payload."""

    @abstractmethod
    def check_target(self, target: str) -> str | None:
        """Return what is wrong with a target, as the rest of a sentence; None if nothing is."""

    @abstractmethod
    def render(self, message: Mapping[str, Any], handling: Handling) -> Rendering:
        """Prepare a message's requests. Raises InvalidInput."""

    def _language_problems(self, message: Mapping[str, Any], parsed: PushMessage) -> list[Problem]:
        """Return what the provider would refuse in each language: a document that is too large even without its
        variables, or a part of a final request."""
        rendering, maximum = self.render(message, EXAMPLE), self.max_payload_bytes(parsed)
        sizes, problems = compiled(parsed, self.document), list[Problem]()
        for language in ("", *parsed.locales):
            size, template = sizes.in_language(language).fixed_bytes, rendering.templates.in_language(language)
            if size > maximum:
                field = f"message.locales.{language}" if language else "message"
                text = f"has {size:,} bytes for this provider, even without variables; at most {maximum:,} are possible"
                problems.append(Problem(field, text, "shorten its texts or its data"))
                continue
            body = template.fill(_EXAMPLE_TARGET, dict.fromkeys(template.required, "1"))
            found = self.request_problems(parsed, TargetRequest(rendering.headers, body), language)
            problems += [problem for problem in found if problem not in problems]
        return problems


def _common_problems(message: PushMessage) -> list[Problem]:
    """Return what every provider refuses: an empty message, a badge that is no number, a long collapse text, a
    locale that is no language, two of one language."""
    problems = []
    for field, check in (
        ("message.badge", lambda: Template(message.badge_value)),
        ("message.collapse", lambda: CollapseText(message.collapse).of_fixed_part()),
    ):
        try:
            check()
        except ValueError as error:
            problems.append(Problem(field, str(error)))
    is_noticed = message.is_shown or message.sound or message.badge is not None
    if not (is_noticed or message.data or message.fcm or message.apns):
        text = "has neither title, body, data, sound nor badge"
        problems.append(Problem("message", text, "give at least one of them"))
    problems += [
        Problem(f"message.locales.{tag}", "is no language", "write a tag such as de, pt-BR or zh-Hant")
        for tag in message.locales
        if not parse_tag(tag).language
    ]
    first = {locale_key(tag): tag for tag in reversed(message.locales)}
    others = {tag: first[locale_key(tag)] for tag in message.locales}
    return problems + [
        Problem(f"message.locales.{tag}", f"is the same language as {other}", "leave one out")
        for tag, other in others.items()
        if tag != other
    ]


def compiled(message: PushMessage, document: Callable[[PushMessage], object]) -> Templates:
    """Compile the documents of a message and its locales. Raises InvalidInput."""

    def template(language: str) -> Template:
        try:
            return Template(document(message.localized(language)))
        except ValueError as error:
            raise InvalidInput(f"message: {error}.", "Correct the text.") from error

    return Templates(template(""), {language: template(language) for language in message.locales})


def unknown_fields(fields: Mapping[str, Any], known: Collection[str], field: str) -> list[Problem]:
    """Return a problem for each field that the provider does not know."""
    problems = []
    for name in fields:
        if name not in known:
            near = get_close_matches(name, known, 1)
            fix = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            problems.append(Problem(f"{field}.{name}", NO_SUCH_FIELD, fix))
    return problems


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value not in ("", None, {})}


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return both objects in one, deeply; where both have a value, that of `over`. A null there changes nothing."""
    result = dict(base)
    for key, value in over.items():
        before = result.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            result[key] = merged(before, value)
        elif value is not None or key not in base:
            result[key] = value
    return result
