"""Commands declared apart from what they do, and groups of commands."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from fairlane.floors import loaded


class Declared(click.Command):
    """A command whose function has options and a help text, and no body.

    handlers: the module of the function with the same name that runs in its place. It is imported then, takes the
    context and the command's arguments, and may return an exit code.

    requires: raises Missing, before the import, if packages are not installed.
    """

    def __init__(
        self, *args: Any, handlers: str = "", requires: Callable[[], None] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._handlers = handlers
        self._requires = requires

    @property
    def function(self) -> str:
        """The name of its function."""
        return str(getattr(self.callback, "__name__", ""))

    @property
    def handler(self) -> str:
        """The function that runs, as "module:name"."""
        return f"{self._handlers}:{self.function}"

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.invoked_subcommand is not None:  # of a group, which does nothing itself then
            return None
        if self._requires is not None:
            self._requires()
        return ctx.invoke(loaded(self.handler), ctx, **ctx.params)


class CommandGroup(click.Group):
    """A group whose help shows the whole first sentence of each command, which click would cut off.

    modules: "module:name" by command name, for commands that are imported when they are used, so that others do not
    wait for the import.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._modules = modules or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._modules, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        command: click.Command = loaded(self._modules[cmd_name])
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(1_000)) for name, command in commands if command])


class Noun(CommandGroup, Declared):
    """A group of declared commands, listed in the order of their declaration.

    handlers, requires: of its commands, unless a command has its own.
    """

    def __init__(self, *args: Any, handlers: str, requires: Callable[[], None] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, handlers=handlers, requires=requires, **kwargs)
        self.command_class = partial(Declared, handlers=handlers, requires=requires)  # type: ignore[assignment]  # makes a command

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*self._modules, *self.commands]


class CommandOrGroup(Noun):
    """A command of its own, and a group: a first word that names one of its commands calls that one.

    A group of click takes its own arguments before it looks for a command, so a first word could never be both.
    """

    allow_interspersed_args = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, invoke_without_command=True, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] in self.list_commands(ctx):
            ctx.args = args
            return args
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if not ctx.args:
            return Declared.invoke(self, ctx)
        name, *rest = ctx.args
        command = self.get_command(ctx, name)
        assert command is not None  # parse_args looked
        ctx.args = []
        with command.make_context(name, rest, parent=ctx) as inner:
            return command.invoke(inner)


class OwnArgument(click.Argument):
    """An argument of a CommandOrGroup, which is not part of the usage of the group's commands."""

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        return super().get_usage_pieces(ctx) if self in ctx.command.params else []
