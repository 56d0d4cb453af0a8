"""The message of a push task as the channels `fcm` and `apns` read it."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from dispatcher.channels.languages import languages, locale_key, parse_tag
from dispatcher.channels.template import Template, WholeNumber
from dispatcher.model.errors import InvalidInput

MAX_COLLAPSE_BYTES = 64
"""The limit of APNs, which is the smallest."""
LANGUAGE = "lang"
"""The target's variable that chooses the locale."""

_decode = msgspec.json.Decoder(str).decode

Text = Annotated[str, Meta(max_length=4_096)]


class LocaleTexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Texts of one language; what is missing is taken from the message."""

    title: Text | None = None
    body: Text | None = None
    image: Text | None = None
    data: dict[str, str] | None = None


class PushMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A message with texts, data for the app, and options by provider. Texts may contain variables."""

    title: Text = ""
    body: Text = ""
    image: Text = ""
    """Address of a picture."""
    data: dict[str, str] = {}
    """For the app; not shown."""
    collapse: str = ""
    """Messages with the same text here replace each other on a device."""
    category: str = ""
    """Notification channel (Android) or category (APNs)."""
    sound: str = ""
    badge: Annotated[int, Meta(ge=0)] | str | None = None
    """A number, or a variable that is one, such as `{{unread}}`."""
    provider_ttl_s: Annotated[float, Meta(ge=0)] | None = None
    """How long the provider keeps the message for an unreachable device; None: as long as the task's ttl lasts."""
    locales: dict[str, LocaleTexts] = {}
    """By language tag, such as `de` or `en-GB`."""
    fcm: dict[str, Any] = {}
    """Further fields of FCM's message, such as `android` and `webpush`."""
    apns: dict[str, Any] = {}
    """Further fields of the APNs payload; `aps` is merged. `headers` are headers of the request."""

    @property
    def badge_value(self) -> int | WholeNumber | None:
        """The badge as a document has it."""
        return WholeNumber(self.badge, "badge") if isinstance(self.badge, str) else self.badge

    @property
    def is_shown(self) -> bool:
        """Whether it has a text to show."""
        return bool(self.title or self.body)

    def localized(self, language: str) -> "PushMessage":
        """Return the message with the texts of a language."""
        texts = self.locales.get(language)
        if texts is None:
            return self
        changes = {name: value for name in texts.__struct_fields__ if (value := getattr(texts, name)) is not None}
        return msgspec.structs.replace(self, **changes)


def read_message(message: Mapping[str, Any]) -> PushMessage:
    """Check a task's message. Raises InvalidInput, which names the field."""
    try:
        return msgspec.convert(dict(message), PushMessage)
    except msgspec.ValidationError as error:
        known = ", ".join(PushMessage.__struct_fields__)
        raise InvalidInput(f"message: {error}.", f"Its fields are: {known}.") from error


class CollapseText:
    """The collapse text of a message, which each target fills in for itself."""

    def __init__(self, text: str) -> None:
        """Raises ValueError for a text with `{{` that is not a variable."""
        self._template = Template(text)
        self.required = self._template.required
        self.has_variables = bool(self._template.slots)

    def of_fixed_part(self) -> str:
        """Return the text with nothing in place of its required variables. Raises ValueError as `of`."""
        return self.of(dict.fromkeys(self.required, ""))

    def of(self, variables: Mapping[str, Any] | None) -> str:
        """Return the text for a target, without spaces around it. Raises MissingVariable, and ValueError if no header
        can hold it."""
        text = _decode(self._template.fill("", variables))
        if len(text.encode()) > MAX_COLLAPSE_BYTES:
            raise ValueError(f"has more than {MAX_COLLAPSE_BYTES} bytes; shorten it")
        if not text.isprintable():
            raise ValueError("holds a control character or an unusual space; remove it")
        return text.strip()


class Templates:
    """The compiled documents of a message, one per locale."""

    def __init__(self, default: Template, by_locale: Mapping[str, Template]) -> None:
        self._default = default
        self._by_locale = {locale_key(tag): template for tag, template in by_locale.items()}
        for tag in map(parse_tag, by_locale):  # zh-TW is read by those of Hong Kong, too
            if tag.script:
                same_script = tag._replace(rest=()).full
                self._by_locale.setdefault(same_script, self._by_locale[tag.full])

    def required_with(self, columns: Collection[str]) -> frozenset[str]:
        """Return the names of the variables that targets with these columns must have. Without a column for the
        language, all get the message's own texts."""
        locales = self._by_locale.values() if LANGUAGE in columns else ()
        return self._default.required.union(*(template.required for template in locales))

    @property
    def has_variables(self) -> bool:
        """Whether a target's variables change the document."""
        return bool(self._by_locale) or any(slot.name for slot in self._default.slots)

    def in_language(self, tag: str) -> Template:
        """Return the document of a locale of the message; the message's own for any other tag."""
        return self._by_locale.get(locale_key(tag), self._default)

    @property
    def has_locales(self) -> bool:
        """Whether a target's language chooses its texts."""
        return bool(self._by_locale)

    def lacks(self, tag: str) -> bool:
        """Return whether no locale is for a target's language."""
        return self._by_locale.keys().isdisjoint(languages(tag))

    def of(self, variables: Mapping[str, Any] | None) -> Template:
        """Return the document for a target: that of its language, or of the language without its region, or the
        message's own."""
        if self._by_locale and variables:
            language = variables.get(LANGUAGE)
            for tag in languages(language) if isinstance(language, str) else ():
                if tag in self._by_locale:
                    return self._by_locale[tag]
        return self._default
