"""The tasks that earlier runs of an ingestion left unsealed are named and ended."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from dispatcher.model.errors import FairlaneError
from producers.connection import Connection
from spark_jobs.source.sealing import cancel_left, left_tasks, left_text
from spark_jobs.source.task_options import TaskOptions

_DROP = "fairlane ingest TASKFILE --abandon"


@contextmanager
def naming_left_tasks(options: TaskOptions) -> Iterator[None]:
    """Add to any error within the block which tasks are left unsealed, and how to go on."""
    try:
        yield
    except FairlaneError as error:
        raise type(error)(error.cause, f"{error.next_step} {_left(options)}".strip()) from error
    except BaseException as error:  # such as an interruption by the user
        if left := _left(options):
            error.add_note(left)
        raise


def abandon(options: TaskOptions) -> list[str]:
    """End the tasks that runs with these options left unsealed, and return them. Raises Unreachable."""
    with closing(Connection(options.servers)) as connection:
        return cancel_left(connection.services(), options, options.task)


def _left(options: TaskOptions) -> str:
    try:
        with closing(Connection(options.servers)) as connection:
            return left_text(left_tasks(connection.services(), options, options.task), _DROP)
    except FairlaneError:
        return "Nothing is sent of tasks that it left unsealed; they cannot be listed now."
