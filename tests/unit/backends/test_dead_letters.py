"""Dead letters as they are read back."""

import msgspec
import pytest

from backends import dead_letter_topic
from backends.dead_letter_topic import read_dead_letters
from backends.topic_reader import Record
from dispatcher.ports import DeadLetter
from dispatcher.topics import Topics


class Reader:
    def __init__(self, *records: Record) -> None:
        self._records = list(records)

    def at_end(self) -> bool:
        return not self._records

    def read(self, _most: int, timeout_s: float) -> list[Record]:
        read, self._records = self._records, []
        return read

    def close(self) -> None: ...


def test_one_that_cannot_be_read_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    letter = DeadLetter(1, "t", "0", 7, 0, 5, "null", [0], ["a"], [1], ["gone"])
    records = [Record("1", b"\xc1", "t"), Record("2", msgspec.msgpack.encode(letter), "t")]
    monkeypatch.setattr(dead_letter_topic, "TopicReader", lambda *_: Reader(*records))
    assert list(read_dead_letters(None, Topics(), "t")) == [letter]
    assert "A dead letter at 1 cannot be read and is skipped" in caplog.text
