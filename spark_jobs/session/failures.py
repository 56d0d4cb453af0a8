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
MICRO_BATCHES = 'Trigger it with `.trigger(processingTime="10 seconds")` or `.trigger(availableNow=True)`.'
"""The next step for a stream with another trigger."""
_CONTINUOUS = "Data source fairlane-outcomes does not support continuous processing"
_STORE = re.compile(r"\b(?:s3a?|gs|abfss)://[^\s:'\"]+")
"""Matches a URL that Hadoop names in a message."""
_CONNECTOR = re.compile(r'Class org\.apache\.hadoop\.fs\.\S+ not found|No FileSystem for scheme "\w+"')
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
    from spark_jobs.storage.folder import known_failure

    text = str(error)
    matches = _OURS.findall(text)
    if matches:
        name, message = matches[-1]
        return _kind(name)(_STATE.sub("", message))
    if _OTHER_MODE.search(text):
        return InvalidInput(
            "Tasks are only appended.", 'Write with `.mode("append")`, and a stream with `.outputMode("append")`.'
        )
    if _CONTINUOUS in text:
        return InvalidInput("Streams of tasks and outcomes have no continuous trigger.", MICRO_BATCHES)
    if connector := _CONNECTOR.search(text):
        return InvalidInput(
            f"Spark has no connector to this store: {connector[0]}.",
            "For s3://, add `--conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION`: VERSION is that of the "
            "file hadoop-client-api-VERSION.jar among Spark's jars.",
        )
    if (url := _STORE.search(text)) and (failure := known_failure(url[0].replace("s3a:", "s3:"), "reached", text)):
        return failure
    raised = _RAISED.findall(text.partition(_TRACEBACK)[2])
    lines = [_CLASS.sub("", line.strip()) for line in _CALLED.sub("", text).splitlines() if line.strip()]
    line = _STATE.sub("", raised[-1] if raised else lines[0] if lines else type(error).__name__)
    of_the_table = type(error).__name__ in ("AnalysisException", "ParseException")
    shortened = f"Spark: {line if len(line) <= _LONGEST else line[:_LONGEST] + '...'}"
    return InvalidInput(shortened) if of_the_table else JobFailed(shortened)


def _kind(name: str) -> type[FairlaneError]:
    kind = Missing if name == Missing.__name__ else getattr(errors, name, FairlaneError)
    return kind if issubclass(kind, FairlaneError) else FairlaneError
