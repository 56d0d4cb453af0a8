"""Checks of a task's targets before they are accepted: the form of the address, and the variables of the message."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Self

from dispatcher.channels.push_message import LANGUAGE, CollapseText, read_message
from dispatcher.channels.spec import EXAMPLE, ChannelSpec, Problem, compiled
from dispatcher.channels.specs import SPECS
from dispatcher.channels.template import MissingVariable, Template
from dispatcher.model.errors import InvalidInput
from dispatcher.model.values import counted, listed

_ESCAPED_BYTES = 6
"""Most bytes of one character in JSON text."""
_MAX_LANGUAGES, _SHOWN_LANGUAGES = 1_000, 10
"""Languages that are counted one by one, and those that are shown."""
_SAMPLES = 10
"""Targets at the beginning of an audience whose final requests are checked before anything is created."""
_NUMBER_BYTES = 32
"""More than a number or a truth value takes."""


class TargetCheck:
    """Checks the targets of one task against its channel and its message."""

    def __init__(self, spec: ChannelSpec, message: Mapping[str, Any]) -> None:
        self._spec, self._message = spec, read_message(message)
        self._form_problem = spec.check_target
        self._max_bytes = spec.max_payload_bytes(self._message)
        self._templates, self._rendering = compiled(self._message, spec.document), spec.render(message, EXAMPLE)
        collapse = CollapseText(self._message.collapse)
        self._collapse = collapse if collapse.has_variables else None
        self._has_variables = self._templates.has_variables or self._collapse is not None
        self._needs_requests = spec.depends_on_variables(self._message)
        self.without_text: Counter[str] = Counter()
        """Accepted targets by their languages that have no text in the message."""

    @classmethod
    def of(cls, channel: str, message: Mapping[str, Any]) -> Self | None:
        """Return the check for a channel; None if its targets may have any form."""
        spec = SPECS.get(channel)
        return None if spec is None else cls(spec, message)

    def check_columns(self, columns: Iterable[str]) -> None:
        """Raise InvalidInput if the message needs a variable that no column has."""
        given = set(columns)
        collapse = frozenset() if self._collapse is None else self._collapse.required
        missing = sorted((self._templates.required_with(given) | collapse) - given)
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
        if self._needs_requests:
            return not any(map(self.complaint, addresses, repeat(None) if variables is None else variables))
        problem = self._variables_problem
        return not any(map(problem, variables)) if variables is not None else not problem(None)

    def complaint(self, address: str, variables: Mapping[str, Any] | None) -> str:
        """Return why a target is refused; empty if it is not."""
        problem = self._form_problem(address)
        if problem:
            return f"the target {problem}"
        problem = self._variables_problem(variables) if self._has_variables else ""
        if problem or not self._needs_requests:
            return problem
        return "; ".join(map(str, self._request_problems(address, variables)))

    def check_samples(self, addresses: Sequence[str], variables: Sequence[Mapping[str, Any] | None] | None) -> None:
        """Raise InvalidInput if the provider would refuse the final request of one of the first targets."""
        samples = zip(addresses[:_SAMPLES], repeat(None) if variables is None else variables, strict=False)
        problems = {str(problem): None for address, own in samples for problem in self._request_problems(address, own)}
        if problems:
            raise InvalidInput("\n".join(problems))

    def _request_problems(self, address: str, variables: Mapping[str, Any] | None) -> list[Problem]:
        """Return what the provider would refuse in the request of a target whose variables are good."""
        return self._spec.request_problems(self._message, self._rendering.request(address, variables))

    def note_languages(self, variables: Sequence[Mapping[str, Any] | None] | None) -> None:
        """Count the languages without a text among accepted targets."""
        if variables is None or not self._templates.has_locales:
            return
        tags = Counter([str(own[LANGUAGE]) for own in variables if own and own.get(LANGUAGE)])
        for tag in filter(self._templates.lacks, tags):
            is_kept = tag in self.without_text or len(self.without_text) < _MAX_LANGUAGES
            self.without_text[tag if is_kept else "others"] += tags[tag]

    def _variables_problem(self, variables: Mapping[str, Any] | None) -> str:
        template = self._templates.of(variables)
        try:
            if self._collapse is not None and (problem := _collapse_problem(self._collapse, variables)):
                return problem
            for name in template.required:
                if variables is None or variables.get(name) is None:
                    raise MissingVariable(name)
            for number in template.numbers:
                number.piece((variables or {}).get(number.name))
        except MissingVariable as error:
            return (
                f"the message has the variable {error.name}, which the target does not have: "
                f"add it, or write a default: {{{{{error.name}|a default}}}}"
            )
        except ValueError as error:
            return str(error)
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
            value = default if variables.get(name) is None else variables[name]
            if type(value) is str or isinstance(value, (str, bytes)):
                room -= len(value)
            elif isinstance(value, (dict, list, tuple)) or (type(value) is float and not 1e-4 <= abs(value) < 1e16):
                return True  # a number beyond these has up to 330 digits
            else:
                room -= _NUMBER_BYTES
        return room < 0


def _collapse_problem(collapse: CollapseText, variables: Mapping[str, Any] | None) -> str:
    try:
        collapse.of(variables)
    except ValueError as error:
        return f"the text of collapse with the target's variables {error}"
    return ""


def languages_text(without_text: Mapping[str, int]) -> str:
    """Return in words how many targets have a language without a text; empty if none has."""
    if not without_text:
        return ""
    listing = listed([f"{tag} {number:,}" for tag, number in Counter(without_text).most_common()], _SHOWN_LANGUAGES)
    targets = counted(sum(without_text.values()), "target")
    return f"{targets} with a language without a text ({listing}): they get the texts of the message itself"
