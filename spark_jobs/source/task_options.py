"""The options of `df.write.format("fairlane")`: the fields of a task, and the roles of the columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any

import msgspec

from dispatcher.channels.languages import languages, locale_key
from dispatcher.channels.specs import SPECS
from dispatcher.channels.submission.target_check import TargetCheck
from dispatcher.model.errors import InvalidInput
from dispatcher.model.field_errors import missing
from dispatcher.model.task import MAX_TARGETS, PushTask
from dispatcher.model.values import is_object
from spark_jobs.session.servers import NAMES, Servers, servers_of

TASK_FIELDS = tuple(PushTask.model_fields)
"""Options that are fields of a PushTask, by the same names."""
_NOT_PASSED_ON = ("id", "hold_until_sealed", "message")
SPLIT_FIELDS = ("app", "tier", "channel")
"""Split columns of these names give the task's field; others only tell tasks apart."""
LANGUAGE = "language"
"""A split column of this name chooses the message: option `message.de` for the value `de`, else `message`."""
ON_INVALID = ("fail", "refuse")

OWN_OPTIONS = ("messages", "target", "variables", "split", "oninvalid", "refused")
_SPARKS = ("path", "checkpointlocation", "queryname", "outputmode", "asyncprogresstrackingenabled")
_SAFE_LENGTH = 32
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """The parsed options: the task to write, and how."""

    task: str
    """The task's id, or the prefix of the ids of all its parts; empty only for a stream: its query's name is used."""
    fields: Mapping[str, Any]
    """Fields of a PushTask, as texts."""
    messages: Mapping[str, str]
    servers: Servers
    target: str = "target"
    """The column of addresses."""
    variables: tuple[str, ...] | None = None
    """The columns of variables; None for all others."""
    split: tuple[str, ...] = ()
    """The columns that tell tasks apart."""
    refuse: bool = False
    """Whether bad rows are counted and left out instead of failing the job."""
    refused: int = 0
    """Rows that were refused before the table came here; they are added to the task's count."""

    @property
    def channel(self) -> str | None:
        """Return the channel of the task; None where a split column gives it."""
        return None if "channel" in self.split else self.fields.get("channel")

    def channel_of(self, values: Sequence[str | None]) -> str:
        """Return the channel of rows with these values in the split columns; it may be none at all."""
        return dict(zip(self.split, values, strict=True)).get("channel") or self.fields.get("channel", "")

    def push_task(self, base: str, values: Sequence[str] = ()) -> PushTask:
        """Return the task of rows with these values in the split columns.

        base: the id without these values. Raises InvalidInput.
        """
        split = dict(zip(self.split, values, strict=True))
        fields = {**self.fields, **{name: split[name] for name in SPLIT_FIELDS if name in split}}
        language = split.get(LANGUAGE, "")
        tags = (language.lower(), *languages(language))
        message = next((self.messages[tag] for tag in tags if tag in self.messages), None)
        if message is not None:
            fields["message"] = _message(message)
        return PushTask.model_validate({**fields, "id": task_id(base, values), "hold_until_sealed": True})

    def target_check(self, values: Sequence[str | None] = ()) -> TargetCheck | None:
        """Return the check of targets with these values in the split columns.

        None if their channel has none, or if these values make no task.
        """
        try:
            return self.task_check("task", [value or "" for value in values])
        except InvalidInput:
            return None

    def task_check(self, base: str, values: Sequence[str] = ()) -> TargetCheck | None:
        """Return the check of targets with these values, if their channel has one. Raises InvalidInput if these values
        make no task."""
        task = self.push_task(base, values)
        return TargetCheck.of(task.channel, task.complete_message)

    def probe(self, base: str) -> None:
        """Check that the options make a valid task, before there are rows. Raises InvalidInput."""
        self.push_task(base, self._probe(next(iter(self.messages), "")))

    def check_columns(self, columns: Sequence[str]) -> None:
        """Check that the columns of variables have all that the messages need. Raises InvalidInput."""
        for language in self.messages if LANGUAGE in self.split else ("",):
            check = self.target_check(self._probe(language))
            if check is not None:
                check.check_columns(columns)

    def _probe(self, language: str) -> list[str]:
        """Return values of the split columns that make a task."""
        has_provider = any(
            name in self.fields for name in ("collapse", "category", "provider_ttl_s", "options", "locales")
        )
        channel = next(iter(SPECS)) if has_provider else "value"
        probe = {"app": "app", "tier": "high", "channel": channel, LANGUAGE: language}
        return [probe.get(name, "value") for name in self.split]


def parse_options(options: Mapping[str, str]) -> TaskOptions:
    """Parse the options, whose names are in lower case.

    Raises InvalidInput for an option that is unknown, missing or outside its limits.
    """
    _check_names(options)
    _check_held(options.get("hold_until_sealed", ""))
    fields: dict[str, Any] = {
        name: options[name] for name in TASK_FIELDS if options.get(name) and name not in _NOT_PASSED_ON
    }
    if options.get("message"):
        fields["message"] = _message(options["message"])
    split = _names(options.get("split", ""))
    _check_split(fields, split)
    variables = options.get("variables")
    return TaskOptions(
        task=options.get("id", ""),
        fields=fields,
        messages=_messages(options),
        servers=servers_of(options),
        target=options.get("target") or "target",
        variables=None if variables is None else _names(variables),
        split=split,
        refuse=_on_invalid(options) == "refuse",
        refused=_count(options.get("refused", "0")),
    )


def missing_fields(options: TaskOptions) -> list[str]:
    """Return the fields that neither an option nor a split column gives."""
    given = {*options.fields, *(name for name in options.split if name in SPLIT_FIELDS)}
    if options.messages and LANGUAGE in options.split:
        given.add("message")
    return [name for name in ("app", "tier", "channel", "message") if name not in given]


def check_task(options: TaskOptions, base: str) -> None:
    """Check that a task can be made of the options, before there are rows. Raises InvalidInput."""
    for name in missing_fields(options):
        raise InvalidInput(f"The option {name} {missing(name)}.", f'Give it: `.option("{name}", …)`.')
    options.probe(base)


def task_id(base: str, values: Sequence[str] = ()) -> str:
    """Return `base.value.value`.

    Characters that an id may not contain are replaced, and a checksum is added, so that ids stay distinct.
    """
    return ".".join([base, *map(_safe, values)])


def _safe(value: str) -> str:
    if value and len(value) <= _SAFE_LENGTH and _SAFE.issuperset(value):
        return value
    kept = "".join(letter if letter in _SAFE else "_" for letter in value[:_SAFE_LENGTH])
    return f"{kept}-{blake2b(value.encode(), digest_size=4).hexdigest()}"


def _check_held(text: str) -> None:
    if text.lower() not in ("", "true", "yes", "on", "1"):
        raise InvalidInput("hold_until_sealed: a table's task is always held until its seal; leave it out.")


def _messages(options: Mapping[str, str]) -> dict[str, str]:
    """Return the messages by language: from `message.de`, and from `messages`, a JSON object of them."""
    messages = {
        locale_key(name.partition(".")[2]): text for name, text in options.items() if name.startswith("message.")
    }
    if not options.get("messages"):
        return messages
    by_language = _message(options["messages"], "messages")
    if not isinstance(by_language, dict):
        raise InvalidInput("messages: must be a mapping from a language to its message.")
    texts = {
        locale_key(name): text if isinstance(text, str) else msgspec.json.encode(text).decode()
        for name, text in by_language.items()
    }
    return {**texts, **messages}


def _check_names(options: Mapping[str, str]) -> None:
    known = {*TASK_FIELDS, *OWN_OPTIONS, *NAMES}
    for name in options:
        if name not in known and name not in _SPARKS and not name.startswith("message."):
            near = get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(sorted(known - set(NAMES)))}."
            raise InvalidInput(f"There is no option {name}.", hint)


def _check_split(fields: Mapping[str, Any], split: Sequence[str]) -> None:
    both = [name for name in split if name in fields]
    if both:
        raise InvalidInput(f"{both[0]}: is given, and a split column too.", "Leave one of them out.")
    if len(set(split)) < len(split):
        raise InvalidInput("split: names a column twice.")


def _message(text: str, name: str = "message") -> object:
    """Parse a message: a text, or a JSON object."""
    if not is_object(text):
        return text
    try:
        return msgspec.json.decode(text.removeprefix("\ufeff"))
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{name}: begins like a JSON object, but is not one: {error}.") from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _on_invalid(options: Mapping[str, str]) -> str:
    chosen = options.get("oninvalid", "fail").lower()
    if chosen not in ON_INVALID:
        raise InvalidInput(f"onInvalid: must be {' or '.join(ON_INVALID)}, not {chosen!r}.")
    return chosen


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_TARGETS:
        raise InvalidInput(f"refused: must be a number of rows, not {text!r}.")
    return int(text)
