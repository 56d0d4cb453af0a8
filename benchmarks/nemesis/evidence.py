"""Reads what a run has left behind: the logs, and the outcome topics as bytes, with the broker's time of each entry.

Nothing here knows how Fairlane interprets a record.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import urllib3

from backends.pulsar.client import close, connect, topics
from backends.pulsar.topic_reader import TopicReader
from benchmarks.nemesis.checker import Call, Recorded
from benchmarks.nemesis.logs import lines
from benchmarks.nemesis.submitters import audience
from dispatcher.model.errors import FairlaneError
from dispatcher.ports import records_to_end
from fairlane.settings import Settings

BROKER_TIME = {
    "brokerEntryMetadataInterceptors": "org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor"
}
"""Broker settings that make brokers keep the time at which they stored an entry."""
_STORED_AT = "X-Pulsar-Broker-Entry-METADATA-timestamp"
_OUTCOMES = "o"


def calls(folder: Path) -> list[Call]:
    """Return all calls of the provider; a call whose line was cut short by a kill was not answered."""
    return [call for path in sorted(folder.glob("calls-*.jsonl")) for call in _calls_in(path)]


def _calls_in(path: Path) -> Iterator[Call]:
    for at_ms, worker, task, writer, sequence, attempt, positions, targets in lines(path):
        for position, target in zip(positions, targets, strict=True):
            yield Call(
                at_ms=at_ms,
                worker=worker,
                task=task,
                target=target,
                envelope=(writer, sequence),
                position=position,
                attempt=attempt,
            )


class Submissions:
    """The notes of the submitters.

    `accepted`: targets of the tasks that were confirmed. `open`: tasks that were not confirmed.
    """

    def __init__(self, folder: Path) -> None:
        noted = [line for path in folder.glob("submitted-*.jsonl") for line in lines(path)]
        asked = {line["task"]: line["count"] for line in noted if line["what"] == "asked"}
        confirmed = {line["task"]: line["accepted"] for line in noted if line["what"] == "confirmed"}
        self.accepted = {task: audience(task, asked[task])[:number] for task, number in confirmed.items()}
        self.open = sorted(asked.keys() - confirmed.keys())
        self.failed = sum(line["what"] == "failed" for line in noted)


class OutcomeTopics:
    """Reads the outcome topics as they grow."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._times = _EntryTimes(settings)
        self._after: dict[str, str] = {}
        self.records: list[Recorded] = []

    def read(self) -> list[Recorded]:
        """Return everything stored by now. Raises Unreachable."""
        names = topics(self._settings.pulsar)
        client = connect(self._settings.pulsar)
        try:
            for partition in range(names.outcome_partitions):
                self._read_topic(client, names.outcomes(partition))
        finally:
            close(client)
        return self.records

    def _read_topic(self, client: Any, topic: str) -> None:
        for position, body, _ in records_to_end(TopicReader(client, topic, self._after.get(topic))):
            self.records += recorded(body, self._times.of(topic, position))
            self._after[topic] = position

    def keep(self, path: Path) -> None:
        """Write what was read into a file: the topics are deleted with the brokers."""
        with path.open("w") as log:
            log.writelines(json.dumps(record) + "\n" for record in self.records)


class _EntryTimes:
    """Finds when the broker stored an entry; messages of one batch share it."""

    def __init__(self, settings: Settings) -> None:
        self._root = f"{str(settings.pulsar.admin_address).rstrip('/')}/admin/v2/persistent"
        self._http = urllib3.PoolManager(retries=urllib3.Retry(5, backoff_factor=0.2, status_forcelist=(500, 503)))
        self._last: tuple[str, int] = ("", 0)

    def of(self, topic: str, position: str) -> int:
        ledger, entry, _ = position.split(":")
        path = f"{topic.removeprefix('persistent://')}/ledger/{int(ledger)}/entry/{int(entry)}"
        if self._last[0] != path:
            self._last = (path, self._asked(path))
        return self._last[1]

    def _asked(self, path: str) -> int:
        answer = self._http.request("GET", f"{self._root}/{path}", preload_content=True)
        text = answer.headers.get(_STORED_AT)
        if text is None:
            raise FairlaneError(f"The broker does not say when it stored {path} (answer {answer.status}).")
        return round(datetime.fromisoformat(text).timestamp() * 1_000)


def recorded(body: bytes, stored_ms: int) -> list[Recorded]:
    """Return the content of an outcome record, envelope by envelope; nothing for other records."""
    record = msgspec.msgpack.decode(body)
    if not isinstance(record, list) or not record or record[0] != _OUTCOMES:
        return []
    _, _, task, claim, _, _, runs, mixed, *_ = record
    worker = claim.rpartition(".")[0].rpartition("-")[0]

    def recorded(writer: str, sequence: int, attempt: int, codes: Mapping[int, int]) -> Recorded:
        return Recorded(
            stored_ms=stored_ms,
            worker=worker,
            claim=claim,
            task=task,
            envelope=(writer, sequence),
            attempt=attempt,
            codes=codes,
        )

    recorded_parts = [
        recorded(writer, sequence, attempt, dict.fromkeys(range(size), code))
        for writer, attempt, first, count, size, code in runs
        for sequence in range(first, first + count)
    ]
    for writer, attempt, sequence, size, positions, codes, *_ in mixed:
        indexes = range(size) if positions is None else positions
        recorded_parts.append(recorded(writer, sequence, attempt, dict(zip(indexes, codes, strict=False))))
    return recorded_parts
