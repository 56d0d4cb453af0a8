"""Dead letters as they are read back."""

from collections.abc import Mapping, Sequence

import msgspec
import pulsar
import pytest

from backends.pulsar import dead_letter_reader
from backends.pulsar.dead_letter_reader import read_dead_letters
from backends.pulsar.dead_letter_topic import OTHERS, DeadLetterTopic
from backends.redis.letter_index import BLOCK_ENTRIES, LetterSpan
from backends.redis.view import SET_APART, WITHOUT_TASK
from dispatcher.model.errors import Unreachable
from dispatcher.ports import DeadLetter, StoredRecord
from dispatcher.wire.topics import Topics
from tests.contract.registry_records import position
from tests.records import dead_letter
from tests.unit.dispatch.backends.raw_client import Client
from tests.unit.dispatch.consumers import fakes
from tests.unit.dispatch.consumers.fakes import eventually
from tests.unit.dispatch.test_nesting import UNREADABLE, at


def test_one_that_cannot_be_read_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    letter = letter_of("t", 7)
    uneven = msgspec.structs.replace(letter, reasons=[])
    records = [
        StoredRecord("1", b"\xc1", "t"),
        StoredRecord("2", msgspec.msgpack.encode(uneven), "t"),
        StoredRecord("3", msgspec.msgpack.encode(letter), "t"),
    ]
    monkeypatch.setattr(dead_letter_reader, "TopicReader", lambda *_, **__: fakes.Topic(records).open(None))
    assert list(read_dead_letters(None, Topics(), "t")) == [letter]
    assert "A dead letter at 1 cannot be read and is skipped" in caplog.text
    assert "A dead letter at 2 cannot be read and is skipped: its columns do not fit together" in caplog.text


@pytest.mark.parametrize(
    "name", ["33 lists", "33 maps", "985 lists", "2,000 lists", "an extension", "a key that is none"]
)
def test_a_letter_whose_variables_cannot_be_read_is_skipped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    whole = dead_letter("t", ["a", "b"], variables=[None, {"name": UNREADABLE[name]}], first_call_ms=7)
    records = [StoredRecord("1", msgspec.msgpack.encode(whole), "t")]
    monkeypatch.setattr(dead_letter_reader, "TopicReader", lambda *_, **__: fakes.Topic(records).open(None))
    assert at(400, lambda: list(read_dead_letters(None, Topics(), "t"))) == []
    assert "A dead letter at 1 cannot be read and is skipped" in caplog.text


def letters_of(client: Client) -> list[DeadLetter]:
    return [msgspec.msgpack.decode(body, type=DeadLetter) for body in client.stored]


def test_a_letter_counts_as_stored_once_all_its_parts_are() -> None:
    client = Client()
    reported: list[Exception | None] = []
    topic = DeadLetterTopic(client, Topics())
    topic.publish(dead_letter(body=b"x" * 3_000_000), reported.append)
    assert [(one.part, one.parts) for one in letters_of(client)] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert reported == [None]
    assert topic.close()


def test_of_a_letter_that_is_refused_the_rest_is_stored_and_others_go_on() -> None:
    client = Client(pulsar.Result.MessageTooBig)
    reported: list[Exception | None] = []
    topic = DeadLetterTopic(client, Topics())
    topic.publish(dead_letter("t", ["a"], sequence=7, positions=[3]), reported.append)
    topic.publish(letter_of("t", 8), reported.append)
    eventually(lambda: len(reported) == 2)
    assert reported == [None, None]
    rest, other = sorted(letters_of(client), key=lambda letter: letter.sequence)
    assert other.targets == ["t-8"]
    assert (rest.sequence, rest.positions, rest.targets, rest.outcomes) == (7, [3], [""], [2])
    assert "too big" in rest.reasons[0]


def test_letters_without_a_task_are_counted_by_lane_and_those_set_apart_by_task() -> None:
    topic = DeadLetterTopic(Client(), Topics())
    for lane in ("x", "x", *map(str, range(30))):
        topic.publish(dead_letter("", lane=lane), lambda _: None)
    topic.publish(dead_letter("t", ["a", "b"], body=b"its envelope"), lambda _: None)
    topic.publish(dead_letter("t", ["c"]), lambda _: None)
    counts = topic.counts()
    assert (counts[WITHOUT_TASK + "x"], sum(counts.values()), len(counts)) == (2, 34, 22)
    assert counts[WITHOUT_TASK + OTHERS] == 11
    assert counts[SET_APART + OTHERS] == 2


class Topic(fakes.Topic):
    """Dead letters in entries 0 to 999 of one ledger, of which a reader gives one at a time. reads: how many so far."""

    reads = 0

    def open(self, after: str | None) -> fakes.Reader:
        topic = self

        class OneByOne(fakes.Reader):
            def read(self, max_records: int, timeout_s: float) -> Sequence[StoredRecord]:
                topic.reads += 1
                return super().read(1, timeout_s)

        return OneByOne(self, after)


def letter_of(task: str, sequence: int) -> DeadLetter:
    return dead_letter(task, [f"{task}-{sequence}"], sequence=sequence)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    """Letters of `mine` in entries 70 and 700 among those of others."""
    others = {entry: letter_of("other", entry) for entry in range(1_000)}
    letters = others | {entry: letter_of("mine", entry) for entry in (70, 700)}
    topic = Topic([StoredRecord(position(n), msgspec.msgpack.encode(one), one.task) for n, one in letters.items()])
    monkeypatch.setattr(dead_letter_reader, "TopicReader", lambda _, __, after=None, since_ms=0: topic.open(after))
    return topic


SPANS = [LetterSpan(position(entry - 1), position(entry + BLOCK_ENTRIES)) for entry in (64, 640)]


def test_of_many_letters_only_the_parts_with_those_of_the_task_are_read(topic: Topic) -> None:
    found = list(read_dead_letters(None, Topics(), "mine", SPANS, expected=2))
    assert [letter.sequence for letter in found] == [70, 700]
    assert topic.reads <= 2 * (BLOCK_ENTRIES + 1)


@pytest.mark.parametrize("known", [SPANS[:1], SPANS[1:], []])
def test_where_the_index_has_gaps_all_letters_are_found_all_the_same(topic: Topic, known: list[LetterSpan]) -> None:
    found = list(read_dead_letters(None, Topics(), "mine", known, expected=2))
    assert sorted(letter.sequence for letter in found) == [70, 700]


def test_where_letters_are_is_noted_again_until_it_is_stored() -> None:
    topic = DeadLetterTopic(Client(), Topics())
    topic.publish(letter_of("t", 1), lambda _: None)
    topic.publish(dead_letter("", body=b"x"), lambda _: None)

    def fail(_: object) -> None:
        raise Unreachable("Redis is gone.")

    with pytest.raises(Unreachable):
        topic.index(fail)
    stored: list[Mapping[str, set[str]]] = []
    topic.index(stored.append)
    topic.index(stored.append)
    assert [set(blocks) for blocks in stored] == [{"t"}, set()]
