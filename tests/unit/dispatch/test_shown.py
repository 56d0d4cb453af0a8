"""Texts from outside as they are shown: no credential, nothing that a terminal obeys."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import Unreachable
from dispatcher.model.shown import MASK, escaped, without_credentials
from dispatcher.model.values import text_of
from fairlane.cli.base.output import say
from fairlane.logging import JsonFormatter, TextFormatter
from fairlane.pages.picture import text as svg_text

EVIL = "gone\x1b[2J\nsent to a\u202eb\x00"
SHOWN = "gone\\x1b[2J\\nsent to a\\u202eb\\x00"
URL = "https://me:hush@example.test/push?key=hush&to=hush"
HIDDEN = f"https://me:{MASK}@example.test/push?key={MASK}&to={MASK}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (URL, HIDDEN),
        (f"'{URL}' failed", f"'{HIDDEN} failed"),
        ("redis://:pw@h:1", f"redis://:{MASK}@h:1"),
        ("redis://u:p%40w@h/0", f"redis://u:{MASK}@h/0"),
        ("http://u:p@ss@h/x", f"http://u:{MASK}@h/x"),
        ("redis://:p/w?x#y@h/0", f"redis://:{MASK}@h/0"),
        ("http://token@h/", f"http://{MASK}@h/"),
        ("http://h?hush", f"http://h?{MASK}"),
        ("http://h/?a=b==&c#d", f"http://h/?a={MASK}&{MASK}#d"),
        ("http://h:80/a@b", "http://h:80/a@b"),
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("unix:///tmp/redis.sock", "unix:///tmp/redis.sock"),
        ("pulsar://a:6650,b:6650", "pulsar://a:6650,b:6650"),
        ("persistent://t/ns/a-task", "persistent://t/ns/a-task"),
        ("is x?y=z an address", "is x?y=z an address"),
    ],
)
def test_credentials_in_addresses_are_hidden_and_nothing_else(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


@given(st.text(st.characters(exclude_characters="@/?#", exclude_categories=("Z", "C")), min_size=1))
def test_no_password_is_shown_whatever_is_in_it(password: str) -> None:
    shown = without_credentials(f"http://me:{password}\u2603secret@host/")
    assert "\u2603secret" not in shown
    assert "\u2603secret" not in without_credentials(f"http://host/path?{password}\u2603secret").partition("#")[0]


@pytest.mark.parametrize("part", ["a", "a:", "a@", "a=", "?a&", "://", "http://a:b@", "/"])
def test_long_texts_take_no_longer_than_their_length(part: str) -> None:
    """Code with quadratic time would not finish."""
    assert "hush" not in without_credentials(f"{part * 200_000} http://me:hush@h?k=hush {part * 200_000} ://")


def test_an_error_hides_the_credentials_of_its_cause() -> None:
    error = Unreachable(f"GET {URL} got no answer.", f"Check {URL} again.")
    assert str(error) == f"GET {HIDDEN} got no answer. Check {HIDDEN} again."
    assert error.cause == f"GET {HIDDEN} got no answer."


def test_what_steers_a_terminal_is_shown_as_an_escape() -> None:
    assert escaped(EVIL) == SHOWN
    assert escaped("a\nb\x1b", lines=True) == "a\nb\\x1b"
    assert escaped("half \ud83d of it") == "half \\ud83d of it"
    assert escaped("Grüße, 東京 😀") == "Grüße, 東京 😀"


@given(st.text(st.characters(exclude_categories=())))
def test_what_is_shown_is_printable(text: str) -> None:
    assert escaped(text).isprintable()
    escaped(text).encode()


def test_tables_messages_and_pages_show_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert text_of(EVIL) == SHOWN
    assert text_of({"reason": EVIL}) == f"reason={SHOWN}"
    assert SHOWN in svg_text(0, 0, EVIL, "ink")
    say(f"a\n{EVIL}")
    assert capsys.readouterr().err == "a\n" + SHOWN.replace("\\n", "\n") + "\n"


def record(message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("x", logging.WARNING, __file__, 1, message, args, None)


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_a_log_line_is_one_line_without_credentials(formatter: logging.Formatter) -> None:
    line = formatter.format(record("a call failed: %s at %s", EVIL, URL))
    assert line.isprintable()
    assert "hush" not in line
    assert "example.test" in line


def test_a_traceback_keeps_its_lines_and_shows_no_credentials() -> None:
    failed = record("no")
    try:
        raise ValueError(f"{URL} \x1b")
    except ValueError as error:
        failed.exc_info = (ValueError, error, error.__traceback__)
    shown = TextFormatter().format(failed)
    assert shown.count("\n") > 2
    assert "hush@" not in shown
    assert "\x1b" not in shown
