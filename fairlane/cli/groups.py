"""A group of commands."""

import click


class CommandGroup(click.Group):
    """Its help says of each command the whole first sentence, which click cuts off."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(1_000)) for name, command in found if command])
