"""`fairlane task`: submit, look at and steer push tasks."""

import click

from fairlane.cli.groups import CommandGroup

_PLACES = {
    "submit": "fairlane.cli.task_submit:submit",
    "list": "fairlane.cli.task_read:list_tasks",
    "show": "fairlane.cli.task_read:show",
    "wait": "fairlane.cli.task_read:wait",
    "why": "fairlane.cli.task_why:why",
    "failures": "fairlane.cli.task_read:failures",
    "pause": "fairlane.cli.task_steer:pause",
    "resume": "fairlane.cli.task_steer:resume",
    "cancel": "fairlane.cli.task_steer:cancel",
    "stop": "fairlane.cli.task_steer:stop",
    "close": "fairlane.cli.task_steer:close",
    "set": "fairlane.cli.task_steer:set_controls",
    "edit": "fairlane.cli.task_edit:edit",
}


@click.group(cls=CommandGroup, places=_PLACES)
def task() -> None:
    """Submit, look at and steer push tasks."""
