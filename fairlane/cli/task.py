"""`fairlane task`: submit, look at and steer push tasks."""

import click

from fairlane.cli.groups import CommandGroup
from fairlane.cli.task_edit import edit
from fairlane.cli.task_read import failures, list_tasks, show, wait
from fairlane.cli.task_steer import cancel, pause, resume, set_controls, stop
from fairlane.cli.task_submit import submit
from fairlane.cli.task_why import why


@click.group(cls=CommandGroup)
def task() -> None:
    """Submit, look at and steer push tasks."""


for command in (submit, list_tasks, show, wait, why, failures, pause, resume, cancel, stop, set_controls, edit):
    task.add_command(command)
