"""Commands are declared apart from what they do, and joined by name."""

from collections.abc import Iterator
from inspect import signature

import click
import pytest

from fairlane.cli.base.groups import Declared
from fairlane.cli.commands.changes import HANDLERS, Change
from fairlane.cli.main import cli
from fairlane.floors import loaded
from producers.control.service_controls import ServiceControls


def declared(command: click.Command, words: str = "") -> Iterator[tuple[str, Declared]]:
    """Yield the commands below a group that do something, by their words."""
    if isinstance(command, Declared) and (not isinstance(command, click.Group) or command.invoke_without_command):
        yield words, command
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None
                yield from declared(found, f"{words} {name}".strip())


COMMANDS = dict(declared(cli))
CHANGES = {words: command for words, command in COMMANDS.items() if isinstance(command, Change)}
TRIAL = {"dry_run", "limit", "output"}


def arguments(command: click.Command) -> set[str]:
    return {param.name or "" for param in command.params if param.expose_value}


@pytest.mark.parametrize("words", sorted(COMMANDS.keys() - CHANGES.keys()))
def test_the_handler_of_a_command_takes_its_arguments(words: str) -> None:
    command = COMMANDS[words]
    signature(loaded(command.handler)).bind(None, **dict.fromkeys(arguments(command)))


@pytest.mark.parametrize("words", sorted(CHANGES))
def test_a_change_calls_a_control_that_takes_its_arguments(words: str) -> None:
    command = CHANGES[words]
    given = dict.fromkeys(arguments(command) - TRIAL)
    signature(getattr(ServiceControls, command.function)).bind(None, **given)
    assert arguments(command) >= TRIAL


def test_settings_are_changed_in_one_module() -> None:
    assert {command.handler for command in CHANGES.values()} == {f"{HANDLERS}:change"}
