"""Takes one capture: asks the estate and the service, hides secrets, writes the archive."""

import json
import re
import socket
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from backends.pulsar.client import topics
from backends.pulsar.estate.lane_stats import LaneStats, lanes_of
from backends.pulsar.estate.questions import METRICS
from backends.pulsar.estate.recorder import INTERNAL, LIMIT_S, STATS, EstateRecorder, FoundNodes, RecordedText
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Malformed, Unreachable
from dispatcher.wire.topics import lane_of_topic, task_of_lane
from estate.capture.incidents import Incident
from estate.capture.lanes import LaneFacts, candidates, chosen, facts_of, summary
from fairlane.estate.capture.archive import PREFIX, ArchiveEntry, prepare_folder, write_archive
from fairlane.estate.capture.masking import Masker, secrets_in
from fairlane.estate.capture.service import ServiceReader, own_documents
from fairlane.settings import Settings
from fairlane.settings_sources import secret_values

FORMAT = 1
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_SETTINGS = ("settings", "dynamic-settings", "internal-settings", "mbeans")
"""Documents whose secrets, by name, are hidden in all texts."""
_LONGEST_NAME = 200
_MAX_DEPTH = 100
"""Levels of a JSON document. Deeper ones, which no server of Pulsar writes, are kept as texts."""
_PAUSE_S = 1.0
"""Time between two looks at the lanes: what stored nothing meanwhile is stopped."""


@dataclass
class _Gathered:
    """The texts and documents read, before secrets are hidden."""

    texts: list[RecordedText] = field(default_factory=list)
    documents: dict[str, Any] = field(default_factory=dict)
    """Fairlane's own, by name below `fairlane/`."""
    lanes: list[dict[str, Any]] = field(default_factory=list)
    missing: list[dict[str, str]] = field(default_factory=list)


class CaptureTaker:
    """Takes captures of one installation."""

    def __init__(self, settings: Settings, clock: Clock, limit_s: float = LIMIT_S) -> None:
        """limit_s: how long one answer of a node may take."""
        self._settings = settings
        self._limit_s = limit_s
        self._clock = clock
        self._namespaces = topics(settings.pulsar).all_namespaces()

    def take(self, incident: Incident, folder: Path) -> Path:
        """Write one archive and return its path. What does not answer is noted in it.

        Takes some 20 s at most. Raises CaptureFailed; InvalidInput if `estate.bookie_http` is no address.
        """
        prepare_folder(folder)
        at = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)
        stem = f"{PREFIX}{at:%Y%m%dT%H%M%SZ}-{_slug(incident.reason)}"
        gathered = self._gather(incident)
        masker = self._masker(gathered)
        entries = _with_own_names(_entries(gathered, masker))
        manifest = {
            "format": FORMAT,
            "reason": incident.reason,
            "node": incident.node,
            "task": incident.task,
            "utc": at.isoformat(timespec="milliseconds"),
            "host": socket.gethostname(),
            "lanes": gathered.lanes,
            "missing": gathered.missing,
        }
        return write_archive(folder, stem, entries, masker.document(manifest))

    # ------------------------------------------------------------ reading
    def _gather(self, incident: Incident) -> _Gathered:
        gathered = _Gathered(documents=dict(own_documents(self._settings)))
        recorded: list[str] = []
        try:
            recorded = self._read_estate(incident, gathered)
        except Unreachable as error:
            gathered.missing.append({"node": "cluster", "document": "everything", "why": error.cause})
        owners = [task_of_lane(lane_of_topic(topic)) for topic in recorded]
        tasks = dict.fromkeys(task for task in (incident.task, *owners) if task)
        self._read_service(gathered, list(tasks))
        return gathered

    def _read_estate(self, incident: Incident, gathered: _Gathered) -> list[str]:
        """Read the nodes and, at the same time, the lanes. Return the topics of the lanes recorded."""
        bookie_http = self._settings.estate.bookie_http
        recorder = EstateRecorder(self._settings.pulsar, self._namespaces, bookie_http, self._limit_s)
        with closing(recorder):
            nodes = recorder.find()
            gathered.texts += nodes.texts
            with ThreadPoolExecutor(1, "capture-nodes") as pool:
                recording = pool.submit(recorder.record, nodes)
                recorded = self._read_lanes(recorder, nodes, incident, gathered)
                gathered.texts += recording.result()
            return recorded

    def _read_lanes(
        self, recorder: EstateRecorder, nodes: FoundNodes, incident: Incident, gathered: _Gathered
    ) -> list[str]:
        """Look twice at the lanes that an incident names, and at others that may be stopped."""
        statistics = recorder.record_statistics(nodes)
        gathered.texts += statistics
        asked = candidates(incident.topics, self._lanes(statistics))
        before = _facts(recorder.record_topics(asked))
        topics_chosen = chosen(list(before.values()), incident.topics, incident.node)
        time.sleep(_PAUSE_S if topics_chosen else 0.0)
        texts = recorder.record_topics(topics_chosen)
        gathered.texts += texts
        gathered.lanes += [summary(before.get(topic), facts) for topic, facts in _facts(texts).items()]
        return topics_chosen

    def _lanes(self, statistics: Iterable[RecordedText]) -> Iterator[LaneStats]:
        for text in statistics:
            if text.body and not text.cut:
                with suppress(Malformed):
                    yield from lanes_of(text.body, self._namespaces)

    def _read_service(self, gathered: _Gathered, tasks: list[str]) -> None:
        try:
            with closing(ServiceReader(self._settings, self._clock)) as service:
                gathered.documents |= dict(service.documents(tasks))
        except FairlaneError as error:
            gathered.documents["view.json"] = error

    # ------------------------------------------------------------ secrets
    def _masker(self, gathered: _Gathered) -> Masker:
        """Return what hides the secrets of our settings and those that servers have under the name of a secret."""
        learned = (
            secret for text in gathered.texts if text.document in _SETTINGS for secret in secrets_in(_parsed(text))
        )
        return Masker([*secret_values(self._settings), *learned])


def _facts(texts: Iterable[RecordedText]) -> dict[str, LaneFacts]:
    documents = {(text.node, text.document): _parsed(text) for text in texts if not text.failure}
    asked = dict.fromkeys(topic for topic, document in documents if document == INTERNAL)
    return {topic: facts_of(topic, documents.get((topic, STATS)), documents[topic, INTERNAL]) for topic in asked}


def _parsed(text: RecordedText) -> Any:
    """Return a JSON document; None if the text is none, or is nested too deeply to be walked through."""
    if text.cut or text.document == METRICS:
        return None
    try:
        document = json.loads(text.body)
    except (ValueError, RecursionError):
        return None
    return None if _is_deep(document) else document


def _is_deep(document: Any) -> bool:
    level = [document]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)


# ---------------------------------------------------------------- entries
def _entries(gathered: _Gathered, masker: Masker) -> Iterator[ArchiveEntry]:
    """Yield the texts of the archive, with secrets hidden. Those that are missing are noted in `gathered`."""
    for name, document in gathered.documents.items():
        if isinstance(document, FairlaneError):
            gathered.missing.append({"node": "fairlane", "document": name, "why": masker.text(document.cause)})
        else:
            path = "/".join(_slug(part, _LONGEST_NAME) for part in ("fairlane", *name.split("/")))
            yield ArchiveEntry(path, _json(masker.document(document)))
    for text in gathered.texts:
        if text.failure:
            gathered.missing.append(
                {"node": text.node or text.kind, "document": text.document, "why": masker.text(text.failure)}
            )
        else:
            yield _entry(text, masker)


def _with_own_names(entries: Iterable[ArchiveEntry]) -> list[ArchiveEntry]:
    """Return the entries; of those with one name, the later ones get another: topics may differ by a sign only."""
    named: dict[str, ArchiveEntry] = {}
    for entry in entries:
        stem, dot, ending = entry.name.rpartition(".")
        name, number = entry.name, 1
        while name in named:
            number += 1
            name = f"{stem}-{number}{dot}{ending}"
        named[name] = replace(entry, name=name)
    return list(named.values())


def _entry(text: RecordedText, masker: Masker) -> ArchiveEntry:
    folder = f"{text.kind}/{_slug(text.node, _LONGEST_NAME)}" if text.node else text.kind
    document = _parsed(text)
    if document is None:
        name = f"{folder}/{_slug(text.document, _LONGEST_NAME)}.txt"
        return ArchiveEntry(name, masker.text(text.body.decode(errors="replace")).encode(), text.cut)
    return ArchiveEntry(f"{folder}/{_slug(text.document, _LONGEST_NAME)}.json", _json(masker.document(document)))


def _json(document: Any) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False, default=str).encode(errors="replace")


def _slug(text: str, longest: int = 40) -> str:
    """Return a text as part of a file's name."""
    return _UNSAFE.sub("-", text.removeprefix("persistent://")).strip("-.")[:longest].strip("-.") or "x"
