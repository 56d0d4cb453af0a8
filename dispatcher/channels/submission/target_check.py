"""Checks of a task's targets before they are accepted: the form of the address, and the variables of the message."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from dispatcher.channels.spec import ChannelSpec
from dispatcher.channels.specs import SPECS
from dispatcher.channels.template import Template
from dispatcher.model.errors import InvalidInput

_ESCAPED_BYTES = 6
"""Most bytes of one character in JSON text."""
_NUMBER_BYTES = 32
"""More than a number or a truth value takes."""


class TargetCheck:
    """Checks the targets of one task against its channel and its message."""

    def __init__(self, spec: ChannelSpec, message: Mapping[str, Any]) -> None:
        self._form_problem = spec.check_target
        self._max_bytes = spec.max_payload_bytes
        self._templates = spec.payload(message)
        self._has_variables = self._templates.has_variables

    @classmethod
    def of(cls, channel: str, message: Mapping[str, Any]) -> Self | None:
        """Return the check for a channel; None if its targets may have any form."""
        spec = SPECS.get(channel)
        return None if spec is None else cls(spec, message)

    def check_columns(self, columns: Iterable[str]) -> None:
        """Raise InvalidInput if the message needs a variable that no column has."""
        given = set(columns)
        missing = sorted(self._templates.required_with(given) - given)
        if missing:
            names = ", ".join(missing)
            fixes = ", ".join(f"{{{{{name}|a default}}}}" for name in missing)
            raise InvalidInput(
                f"message: has variables for which the targets have no column: {names}.",
                f"Add the column, or write a default into the message: {fixes}.",
            )

    def are_good(self, addresses: Sequence[str], variables: Sequence[Mapping[str, Any] | None] | None) -> bool:
        """Return whether no target of a slab is refused."""
        if any(map(self._form_problem, addresses)):
            return False
        if not self._has_variables:
            return True
        problem = self._variables_problem
        return not any(map(problem, variables)) if variables is not None else not problem(None)

    def complaint(self, address: str, variables: Mapping[str, Any] | None) -> str:
        """Return why a target is refused; empty if it is not."""
        problem = self._form_problem(address)
        if problem:
            return f"the target {problem}"
        return self._variables_problem(variables) if self._has_variables else ""

    def _variables_problem(self, variables: Mapping[str, Any] | None) -> str:
        template = self._templates.of(variables)
        for name in template.required:
            if variables is None or variables.get(name) is None:
                return (
                    f"the message has the variable {name}, which the target does not have: "
                    f"add it, or write a default: {{{{{name}|a default}}}}"
                )
        if variables is None or not self._is_large(template, variables):
            return ""
        size = template.size(variables)
        if size <= self._max_bytes:
            return ""
        return f"the message with the target's variables is larger than the {self._max_bytes:,} bytes of its provider"

    def _is_large(self, template: Template, variables: Mapping[str, Any]) -> bool:
        """Return whether the message may be too large. The bound is quick, and exact only for the fixed part."""
        room = (self._max_bytes - template.fixed_bytes) // _ESCAPED_BYTES
        for name, default, _ in template.slots:
            value = variables.get(name, default)
            if isinstance(value, (str, bytes)):
                room -= len(value)
            elif isinstance(value, (dict, list, tuple)):
                return True
            else:
                room -= _NUMBER_BYTES
        return room < 0
