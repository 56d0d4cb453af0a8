"""`fairlane task`: submit, show and change push tasks."""

import click

from fairlane.cli.base.groups import CommandGroup

_MODULES = {
    "submit": "fairlane.cli.task.submit:submit",
    "list": "fairlane.cli.task.read:list_tasks",
    "show": "fairlane.cli.task.read:show",
    "wait": "fairlane.cli.task.read:wait",
    "why": "fairlane.cli.task.why:why",
    "failures": "fairlane.cli.task.read:failures",
    "outcomes": "fairlane.cli.task.read:outcomes",
    "pause": "fairlane.cli.task.steer:pause",
    "resume": "fairlane.cli.task.steer:resume",
    "cancel": "fairlane.cli.task.steer:cancel",
    "stop": "fairlane.cli.task.steer:stop",
    "close": "fairlane.cli.task.steer:close",
    "set": "fairlane.cli.task.steer:set_controls",
    "edit": "fairlane.cli.task.edit:edit",
}


@click.group(cls=CommandGroup, modules=_MODULES)
def task() -> None:
    """Submit, inspect and change push tasks."""
