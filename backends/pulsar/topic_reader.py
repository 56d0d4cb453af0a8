"""Reads a topic from a given position, without a subscription."""

import secrets
from collections.abc import Callable
from typing import Any

import pulsar

from backends.pulsar.client import Answer, ask, close, message_id_from, position_of
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
        records = self._ask(lambda: self._read(max_records, round(timeout_s * 1000)))
        if records:
            self._after = records[-1].position
        return records

    def at_end(self) -> bool:
        """Ask the broker whether everything stored so far has been read. Raises Unreachable."""
        return self._ask(lambda: not self._open().has_message_available())

    def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            close(reader)

    def _open(self) -> Any:
        if self._reader is None:
            self._reader = ask(f"read {self._topic}", self._client, self._create)
        # The wrapper creates an object for each message, and a rebuild reads millions.
        return self._reader._reader

    def _create(self) -> Any:
        # The client's own subscription names have collided: one of two readers of a topic was then refused.
        reader = self._client.create_reader(
            self._topic,
            message_id_from(self._after),
            receiver_queue_size=self._ahead,
            subscription_role_prefix=secrets.token_hex(8),
        )
        if self._after is None and self._since_ms:
            try:
                if reader.has_message_available():  # a seek connects again, after 0.1 s
                    reader.seek(self._since_ms)
            except pulsar.PulsarException:
                close(reader)
                raise
        return reader

    def _read(self, max_records: int, timeout_ms: int) -> list[StoredRecord]:
        records: list[StoredRecord] = []
        try:
            message = self._take(timeout_ms)
            while message is not None:
                records.append(StoredRecord(position_of(message.message_id()), message.data(), message.partition_key()))
                message = self._take(0) if len(records) < max_records else None
        except (pulsar.PulsarException, FairlaneError):
            if not records:
                raise
            self.close()
        return records

    def _take(self, timeout_ms: int) -> Any:
        try:
            return self._open().read_next(timeout_ms)
        except pulsar.Timeout:
            return None

    def _ask(self, call: Callable[[], Answer]) -> Answer:
        """Return what a call returns. After an error, the next attempt or the next read opens a new reader."""

        def attempt() -> Answer:
            try:
                return call()
            except (pulsar.PulsarException, FairlaneError):
                self.close()
                raise

        return ask(f"read {self._topic}", self._client, attempt)
