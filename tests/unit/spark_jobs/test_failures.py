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


class AnalysisException(Exception):
    """As pyspark's."""


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            "dispatcher.model.errors.AudienceMismatch: It is another. Choose one.",
            AudienceMismatch,
            "It is another. Choose one.",
        ),
        ("dispatcher.model.errors.InvalidInput: No column. SQLSTATE: 38000", InvalidInput, "No column."),
        ("backends.extras.Missing: No Java.", Missing, "No Java."),
    ],
)
def test_an_error_of_ours_keeps_its_kind_and_words(error: str, kind: type[FairlaneError], message: str) -> None:
    found = failure_of(RuntimeError(WORKER.format(error=error)))
    assert (type(found), str(found)) == (kind, message)


def test_an_error_of_a_users_function_is_named() -> None:
    found = failure_of(RuntimeError(WORKER.format(error="ValueError: this row cannot be read")))
    assert (type(found), str(found)) == (JobFailed, "Spark: ValueError: this row cannot be read")


def test_any_other_error_is_the_first_line() -> None:
    found = failure_of(RuntimeError("Job aborted due to stage failure.\n\tat org.apache.spark"))
    assert (type(found), str(found)) == (JobFailed, "Spark: Job aborted due to stage failure.")
    found = failure_of(RuntimeError(
        "An error occurred while calling o214.load.\n: org.apache.spark.SparkException: [FAILED_READ_FILE] Of file:/x. "
        "SQLSTATE: KD001\n\tat org.apache.spark.sql"
    ))  # fmt: skip
    assert (type(found), str(found)) == (JobFailed, "Spark: [FAILED_READ_FILE] Of file:/x.")
    found = failure_of(AnalysisException("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03"))
    assert (type(found), str(found)) == (InvalidInput, "Spark: [PATH_NOT_FOUND] Path does not exist: file:/x.")
    assert len(str(failure_of(RuntimeError("x" * 10_000)))) < 500
