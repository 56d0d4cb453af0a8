import re

import pytest

from backends.extras import Missing
from dispatcher.model.errors import AudienceMismatch, FairlaneError, InvalidInput
from spark_jobs.session.failures import JobFailed, failure_of

WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "source.py", line 89, in write
    return _write(self._target, iterator)
{error}
 SQLSTATE: 38000"""
CALLED = """An error occurred while calling o214.load.
: org.apache.spark.SparkException: [FAILED_READ_FILE] Of file:/x. SQLSTATE: KD001
\tat org.apache.spark.sql"""


WRONG_KEY = """An error occurred while calling o199.load.
: java.nio.file.AccessDeniedException: s3a://pushes/x: software.amazon.awssdk.services.s3.model.S3Exception: Forbidden \
(Service: S3, Status Code: 403, Request ID: null):403"""
NO_CONNECTOR = ": java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"


class AnalysisException(Exception):
    """As pyspark's."""


def of_worker(error: str) -> RuntimeError:
    return RuntimeError(WORKER.format(error=error))


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            of_worker("dispatcher.model.errors.AudienceMismatch: It is another. Choose one."),
            AudienceMismatch,
            "It is another. Choose one.",
        ),
        (of_worker("dispatcher.model.errors.InvalidInput: No column. SQLSTATE: 38000"), InvalidInput, "No column."),
        (of_worker("backends.extras.Missing: No Java."), Missing, "No Java."),
        (of_worker("ValueError: this row is bad"), JobFailed, "Spark: ValueError: this row is bad"),
        (RuntimeError("Job aborted.\n\tat org.apache.spark"), JobFailed, "Spark: Job aborted."),
        (RuntimeError(CALLED), JobFailed, "Spark: [FAILED_READ_FILE] Of file:/x."),
        (AnalysisException("[NOT_FOUND] No file:/x. SQLSTATE: 42K03"), InvalidInput, "Spark: [NOT_FOUND] No file:/x."),
        (RuntimeError("x" * 10_000), JobFailed, f"Spark: {'x' * 400}..."),
    ],
    ids=["ours", "with a state", "missing", "of a user's function", "first line", "of a call", "of the table", "long"],
)
def test_an_error_is_told_in_one_line_and_one_of_ours_keeps_its_kind(
    error: Exception, kind: type[FairlaneError], message: str
) -> None:
    found = failure_of(error)
    assert (type(found), str(found)) == (kind, message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WRONG_KEY, r"^s3://pushes/x cannot be reached: the store refuses the key \(Forbidden\)\. Check storage\."),
        (NO_CONNECTOR, r"^Spark has no connector to this store: .*=org\.apache\.hadoop:hadoop-aws:VERSION"),
    ],
)
def test_error_of_a_store_names_the_next_step_in_one_line(text: str, message: str) -> None:
    found = str(failure_of(RuntimeError(text)))
    assert re.search(message, found)
    assert "\n" not in found
