"""Logs stay small whatever comes in."""

import logging

import pytest

from fairlane.logging import MAX_LINES, WINDOW_S, configure_logging
from fairlane.setting_groups import LogSettings


def log(at_s: float, line: int, level: int = logging.ERROR) -> None:
    record = logging.LogRecord("x", level, __file__, line, "message %d is damaged at %.0f", (line, at_s), None)
    record.created = at_s
    logging.getLogger().handle(record)


@pytest.fixture(autouse=True)
def root_logger_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)


def test_a_line_of_code_logs_so_many_errors_in_a_window_and_says_that_more_are_not_logged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(LogSettings())
    for at_s in (1_000.0, 1_000.0 + WINDOW_S, 5.0):  # at last the wall clock is set back
        for _ in range(10 * MAX_LINES):
            log(at_s, line=1)
        shown = capsys.readouterr().err.splitlines()
        assert len(shown) == MAX_LINES
        assert [text for text in shown if "not logged" in text] == shown[-1:]
        assert f"message 1 is damaged at {at_s:.0f} (More like this" in shown[-1]


def test_other_lines_of_code_and_plain_messages_are_logged_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings())
    for _ in range(2 * MAX_LINES):
        log(1_000.0, line=1)
        log(1_000.0, line=3, level=logging.INFO)
    log(1_000.0, line=2)
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 3 * MAX_LINES + 1
    assert "message 2" in shown[-1]


def test_messages_that_cannot_be_formatted_raise_nothing_where_they_are_logged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A channel of a user's own may log so."""
    configure_logging(LogSettings())
    for _ in range(2 * MAX_LINES):
        logging.getLogger("mine").warning("%d targets", "no")
    assert capsys.readouterr().err.count("--- Logging error ---") == MAX_LINES
