"""Reads a topic from a given position, without a subscription."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pulsar

from backends.pulsar.client import message_id_from, position_of, translated
from dispatcher.model.errors import FairlaneError
from dispatcher.ports import StoredRecord

_AHEAD = 2_000
"""Number of records fetched ahead; a record is a few hundred bytes."""
CLOCKS_MS = 600_000
"""How much earlier than a wall time to begin reading: records are found by their publisher's clock."""


class TopicReader:
    """Follows a topic as it grows; the broker pushes records to it. For one thread at a time.

    It recovers from a lost connection by itself. After an error the next read starts where the last one ended.
    """

    def __init__(
        self, client: pulsar.Client, topic: str, after: str | None = None, ahead: int = _AHEAD, since_ms: int = 0
    ) -> None:
        """after: read from behind this position; None: from the beginning. ahead: number of records fetched ahead.
        since_ms: begin with the first record that was published then or later. Raises Unreachable, NotFound."""
        self._client = client
        self._ahead = ahead
        self._topic = topic
        self._after = after
        self._since_ms = since_ms
        self._reader: Any = None
        self._open()

    def read(self, max_records: int, timeout_s: float) -> list[StoredRecord]:
        """Wait up to timeout_s for the first record, then return the records that have arrived, at most max_records.
        Raises Unreachable."""
        records: list[StoredRecord] = []
        with self._reading():
            message = self._take(round(timeout_s * 1000))
            while message is not None:
                records.append(StoredRecord(position_of(message.message_id()), message.data(), message.partition_key()))
                message = self._take(0) if len(records) < max_records else None
        if records:
            self._after = records[-1].position
        return records

    def at_end(self) -> bool:
        """Ask the broker whether everything stored so far has been read. Raises Unreachable."""
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
                # The client's own subscription names have collided: one of two readers of a topic was then refused.
                reader = self._client.create_reader(
                    self._topic, after, receiver_queue_size=self._ahead, subscription_role_prefix=secrets.token_hex(8)
                )
                if self._after is None and self._since_ms:
                    reader.seek(self._since_ms)
            self._reader = reader
        # The wrapper creates an object for each message, and a rebuild reads millions.
        return self._reader._reader

    def _take(self, timeout_ms: int) -> Any:
        try:
            return self._open().read_next(timeout_ms)
        except pulsar.Timeout:
            return None

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Translate errors; after one, the next read opens a new reader."""
        try:
            with translated(f"read {self._topic}", self._client):
                yield
        except FairlaneError:
            self.close()
            raise
