"""The message of a task as it travels: the given message with the task's fields for delivery, checked by its channel.

There is one form on the wire, the message. So everything that is known about a delivery can be changed with it, and
workers of every version pass it on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from dispatcher.channels.push_message import read_message
from dispatcher.channels.spec import Problem
from dispatcher.channels.specs import SPECS
from dispatcher.model.errors import InvalidInput

DELIVERY_FIELDS: Final = ("collapse", "category", "provider_ttl_s", "locales", *SPECS)
"""Fields of a message that say how it is delivered. Those of SPECS are the options by channel."""
_KEPT: Final = tuple(name for name in DELIVERY_FIELDS if name != "locales")
"""Those that a new message keeps if it does not name them. Texts in other languages would be out of date."""


class ProviderFields(NamedTuple):
    """Fields of a task that its provider reads. They become part of the message."""

    collapse: str | None = None
    category: str | None = None
    provider_ttl_s: float | None = None
    options: Mapping[str, Mapping[str, Any]] | None = None
    """Options by channel."""
    locales: Mapping[str, Mapping[str, Any]] | None = None
    """Messages by language."""

    def given(self) -> dict[str, Any]:
        """Return the fields that have a value, as the message has them."""
        fields = self._asdict()
        options = fields.pop("options") or {}
        return {name: value for name, value in {**fields, **options}.items() if value not in (None, "", {})}

    def field_of(self, field: str) -> str:
        """Return the name of a message's field as the task has it."""
        _, _, path = field.partition(".")
        first = path.partition(".")[0]
        if first in (self.options or {}):
            return f"options.{path}"
        return path if first in self.given() else field


_encode = msgspec.msgpack.Encoder().encode
NO_PROVIDER_FIELDS = ProviderFields()


def task_message(channel: str, message: Mapping[str, Any], delivery: ProviderFields) -> dict[str, Any]:
    """Return the message with the task's fields for delivery.

    Raises InvalidInput with a line for each field that the channel does not have or that is given twice, and for each
    thing that the provider would refuse.
    """
    complaints = list(_complaints(channel, message, delivery))
    if complaints:
        raise InvalidInput("\n".join(complaints))
    complete = {**message, **delivery.given()}
    check_message(channel, complete, delivery)
    return complete


def check_message(channel: str, message: Mapping[str, Any], delivery: ProviderFields = NO_PROVIDER_FIELDS) -> None:
    """Raise InvalidInput with a line for each thing that the channel's provider would refuse.

    delivery: fields that the user gave outside of the message; errors name them so.
    """
    problems = _problems(channel, _encode(message)) if channel in SPECS else ()
    if problems:
        raise InvalidInput(
            "\n".join(str(replace(problem, field=delivery.field_of(problem.field))) for problem in problems)
        )


def ignored_fields(channel: str, message: Mapping[str, Any]) -> list[str]:
    """Return, as sentences, which fields of a message have no effect over its channel, or not on all devices."""
    spec = SPECS.get(channel)
    if spec is None:
        return []
    others = [f"options.{name} has no effect over {channel}" for name in SPECS if name != channel and message.get(name)]
    return [*others, *spec.ignored(read_message(message))]


def edited_message(channel: str, submitted: Mapping[str, Any], edited: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new message for a task. What it does not say about the delivery stays as it was submitted.

    Raises as `check_message`.
    """
    kept = {name: submitted[name] for name in _KEPT if name in submitted} if channel in SPECS else {}
    message = {**kept, **edited}
    check_message(channel, message)
    return message


@lru_cache(64)  # a submission asks several times
def _problems(channel: str, message: bytes) -> tuple[Problem, ...]:
    return tuple(SPECS[channel].check_message(msgspec.msgpack.decode(message)))


def _complaints(channel: str, message: Mapping[str, Any], delivery: ProviderFields) -> Iterator[str]:
    given = delivery.given()
    for name in delivery.options or {}:
        if name not in SPECS:
            yield f"options.{name}: there are no options for this channel, only for {', '.join(SPECS)}"
    if given and channel not in SPECS:
        names = ", ".join(sorted({"options" if name in (delivery.options or {}) else name for name in given}))
        yield f"{names}: channel {channel} does not have this; put what the channel reads into the message"
    for name in given:
        if name in message:
            field = f"options.{name}" if name in SPECS else name
            yield f"{field}: is given, and {name} in the message too; leave one of them out"
