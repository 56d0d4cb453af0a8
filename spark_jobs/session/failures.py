"""Translate Spark's errors of a failed job into one line in Fairlane's words."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from backends.extras import Missing
from dispatcher.model import errors
from dispatcher.model.errors import FairlaneError, InvalidInput

_OURS = re.compile(r"^(?:dispatcher|spark_jobs|backends|producers)\.[\w.]*?(\w+): (.+)$", re.MULTILINE)
_STATE = re.compile(r"\s*SQLSTATE: \w+\s*$")
_TRACEBACK = "Traceback (most recent call last)"
_RAISED = re.compile(r"^[A-Za-z_][\w.]*: .+$", re.MULTILINE)
"""Matches the last line of a traceback."""
_CALLED = re.compile(r"\AAn error occurred while calling \S+\s*:?\s*")
_CLASS = re.compile(r"^(?:[\w$]+\.){2,}[\w$]+: ")
"""Matches the prefix that py4j and Java put before a message."""
_OTHER_MODE = re.compile(r'SAVE_MODE\] The data source "fairlane"|fairlane does not support Update mode')
"""Matches Spark's refusals of a mode, which do not name the only one."""
_LONGEST = 400


class JobFailed(FairlaneError):
    """Spark gave up on a job."""


@contextmanager
def translated() -> Iterator[None]:
    """Translate Spark's exceptions within the block.

    An error that our data source or job raised is raised again as it was, wherever it ran. Otherwise raises
    InvalidInput for a problem with a table or its columns, and JobFailed for all other failures of Spark.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise failure_of(error) from error


def failure_of(error: Exception) -> FairlaneError:
    """Return our error for an exception of Spark."""
    text = str(error)
    matches = _OURS.findall(text)
    if matches:
        name, message = matches[-1]
        return _kind(name)(_STATE.sub("", message))
    if _OTHER_MODE.search(text):
        return InvalidInput(
            "Tasks are only appended.", 'Write with `.mode("append")`, and a stream with `.outputMode("append")`.'
        )
    raised = _RAISED.findall(text.partition(_TRACEBACK)[2])
    lines = [_CLASS.sub("", line.strip()) for line in _CALLED.sub("", text).splitlines() if line.strip()]
    line = _STATE.sub("", raised[-1] if raised else lines[0] if lines else type(error).__name__)
    of_the_table = type(error).__name__ in ("AnalysisException", "ParseException")
    shortened = f"Spark: {line if len(line) <= _LONGEST else line[:_LONGEST] + '...'}"
    return InvalidInput(shortened) if of_the_table else JobFailed(shortened)


def _kind(name: str) -> type[FairlaneError]:
    kind = Missing if name == Missing.__name__ else getattr(errors, name, FairlaneError)
    return kind if issubclass(kind, FairlaneError) else FairlaneError
