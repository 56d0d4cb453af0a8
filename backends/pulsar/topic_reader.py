"""Reads a topic from a position on, without a subscription."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import pulsar

from backends.pulsar.client import message_id_from, position_of, translated
from dispatcher.model.errors import FairlaneError

_AHEAD = 2_000
"""Records are a few hundred bytes each."""


class Record(NamedTuple):
    """A stored record. position sorts as text in topic order; key is what it was published with."""

    position: str
    body: bytes
    key: str


class TopicReader:
    """Follows the topic as it grows: records are pushed to it. It goes on by itself after a lost connection, and after
    an error the next read begins where the last one ended. For one thread at a time."""

    def __init__(self, client: pulsar.Client, topic: str, after: str | None = None, ahead: int = _AHEAD) -> None:
        """after: position of the last record not wanted; None: from the beginning. ahead: records fetched ahead. Raises
        Unreachable, NotFound."""
        self._client = client
        self._ahead = ahead
        self._topic = topic
        self._after = after
        self._reader: Any = None
        self._open()

    def read(self, max_records: int, timeout_s: float) -> list[Record]:
        """Waits at most timeout_s for the first record, then takes what has arrived, at most max_records. Raises
        Unreachable."""
        records: list[Record] = []
        with self._reading():
            message = self._take(round(timeout_s * 1000))
            while message is not None:
                records.append(Record(position_of(message.message_id()), message.data(), message.partition_key()))
                message = self._take(0) if len(records) < max_records else None
        if records:
            self._after = records[-1].position
        return records

    def at_end(self) -> bool:
        """Whether everything stored by now has been read. Asks the broker. Raises Unreachable."""
        with self._reading():
            return not self._open().has_message_available()

    def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            with suppress(pulsar.PulsarException):
                reader.close()

    def _open(self) -> Any:
        if self._reader is None:
            with translated(f"read {self._topic}", self._client):
                after = message_id_from(self._after)
                # Its own names for subscriptions have met: one of two readers of a topic was then refused.
                reader = self._client.create_reader(
                    self._topic, after, receiver_queue_size=self._ahead, subscription_role_prefix=secrets.token_hex(8)
                )
            self._reader = reader
        # The wrapper makes an object a message; a rebuild reads millions.
        return self._reader._reader

    def _take(self, timeout_ms: int) -> Any:
        try:
            return self._open().read_next(timeout_ms)
        except pulsar.Timeout:
            return None

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Any other failure: the reader is opened anew the next time."""
        try:
            with translated(f"read {self._topic}", self._client):
                yield
        except FairlaneError:
            self.close()
            raise
