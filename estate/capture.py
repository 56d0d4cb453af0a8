"""Captures: what `doctor` reads of estate and service at one moment, and the lanes concerned, as one archive.

Secrets are masked. What does not answer is noted in the archive.
"""

import io
import json
import re
import socket
import tarfile
import zlib
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import msgspec

from backends.pulsar.client import topics
from backends.pulsar.lane_stats import lanes_of
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Malformed, Unreachable
from estate.facts.asking import NodeReply
from estate.facts.questions import CLUSTER, Depth
from estate.facts.reader import EstateReader, Replies
from estate.masking import Masker, secrets_in
from estate.rules.incidents import Incident, topic_of
from fairlane import __version__
from fairlane.settings import Settings, explain_settings, secret_values
from producers.client import PushClient

MAX_ARCHIVE_BYTES = 20_000_000
KEPT_ARCHIVES = 20
MAX_LANES = 24
"""Maximum number of topics in an archive."""
FORMAT = 2
"""Version of the archive's layout, in the manifest."""
LIMIT_S, REDIS_LIMIT_S = 5.0, 3.0
"""How long one answer of a node, and one of Redis, may take."""
_DEPTH = Depth.SETTINGS | Depth.TOPICS | Depth.STORAGE
_MAX_READ = 64 << 20
"""Bytes of answers in which secrets are looked for, which takes a second for 2 MB of JSON or 50 MB of metrics."""
_RESERVED = 500_000
"""Bytes for the manifest."""
_HEADER = 1_024
"""Bytes that the name of a file takes in an archive, compressed, at most."""
_LISTED = 200
"""Number of the newest tasks in the list of tasks."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class CaptureFailed(FairlaneError):
    """An archive could not be written."""


@dataclass
class _Gathered:
    """The texts read, by path in the archive without an ending."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Why there is no answer."""

    def add(self, path: str, reply: NodeReply) -> None:
        while path in self.bodies:  # topics may differ by a sign only
            path += "_"
        if reply.failure:
            self.missing[path] = reply.failure
        else:
            self.bodies[path] = reply.body


def take_capture(
    settings: Settings, incident: Incident, clock: Clock, output: Path | None = None, limit_s: float = LIMIT_S
) -> Path:
    """Write one archive and return its path.

    Takes some 20 s at most. output: folder of the archive; None for that in the home, where only the newest archives
    are kept. limit_s: how long one answer of a node may take. Raises NotConfigured, CaptureFailed; InvalidInput if
    `estate.bookie_http` is no address.
    """
    folder = output or settings.home_folder / "captures"
    with _clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        TemporaryFile(dir=folder).close()  # to fail before any node is asked
    at = datetime.fromtimestamp(clock.wall_ms() / 1000, UTC)
    gathered = _Gathered()
    _read_own(settings, gathered)
    _read_estate(settings, incident, gathered, limit_s)
    _read_view(settings, incident.task, gathered)
    manifest = {
        "format": FORMAT,
        "reason": incident.reason,
        "node": incident.node,
        "task": incident.task,
        "utc": at.isoformat(timespec="milliseconds"),
        "host": socket.gethostname(),
    }
    stem = f"capture-{at:%Y%m%dT%H%M%SZ}-{_slug(incident.reason)[:40].strip('-.') or 'x'}"
    archive = _archive(stem, manifest, gathered, _masker(settings, gathered))
    with _clear_errors(folder):
        path = _write(folder, stem, archive)
    if output is None:
        _forget_old(folder, path)
    return path


def _forget_old(folder: Path, newest: Path) -> None:
    """Remove all but the newest archives. `newest` stays, whatever the clock did since the others were written."""
    with suppress(OSError):
        others = [path for path in folder.glob("capture-*.tar.gz") if path != newest]
        for path in sorted(others, key=lambda path: (path.stat().st_mtime, path.name))[: 1 - KEPT_ARCHIVES]:
            path.unlink(missing_ok=True)


# ------------------------------------------------------------ reading
def quick_client(settings: Settings) -> PushClient:
    """Return a client for which Redis has to answer soon. Raises as PushClient.connect."""
    limits = {"socket_timeout_s": REDIS_LIMIT_S, "connect_timeout_s": REDIS_LIMIT_S}
    return PushClient.connect(settings.model_copy(update={"redis": settings.redis.model_copy(update=limits)}))


def _read_own(settings: Settings, gathered: _Gathered) -> None:
    installed = {name: version(name) for name in ("pulsar-client", "redis")}
    own = {
        "settings": [asdict(row) for row in explain_settings(settings)],
        "versions": {"fairlane": __version__, **installed},
    }
    for name, document in own.items():
        gathered.bodies[f"fairlane/{name}"] = json.dumps(document, default=str).encode()


def _read_estate(settings: Settings, incident: Incident, gathered: _Gathered, limit_s: float) -> None:
    """Read all nodes, and then the lanes concerned."""
    names = topics(settings.pulsar)
    try:
        with closing(EstateReader(settings.pulsar, names, settings.estate.bookie_http, limit_s)) as reader:
            found = reader.find()
            replies = {**found.replies, **reader.ask(found, _DEPTH)}
            lanes = reader.ask_topics(_concerned(replies, incident, names.all_namespaces()))
    except Unreachable as error:
        gathered.missing["cluster"] = error.cause
        return
    kinds = {**dict.fromkeys(found.bookies, "bookies/"), **dict.fromkeys(found.brokers, "brokers/"), CLUSTER: ""}
    for (node, document), reply in {**lanes, **replies}.items():
        if document != "topics":
            gathered.add(f"{kinds.get(node, 'lanes/')}{_slug(node)}/{_slug(document)}", reply)


def _concerned(replies: Replies, incident: Incident, namespaces: Container[str]) -> list[str]:
    """Return the topics to record: those of the incident, then blocked ones, then those with the largest backlog."""
    lanes = []
    for (_, document), reply in replies.items():
        if document == "topics":
            with suppress(Malformed):
                lanes += lanes_of(reply.body, namespaces)
    lanes.sort(key=lambda lane: (not lane.blocked, -lane.backlog, -lane.rate_in))
    return list(dict.fromkeys([*incident.topics, *map(topic_of, lanes)]))[:MAX_LANES]


def _read_view(settings: Settings, task: str, gathered: _Gathered) -> None:
    """Read Fairlane's view in Redis, up to the first thing that cannot be read."""
    name = "view"
    try:
        with closing(quick_client(settings)) as client:
            for name, read in _views(client, task):
                gathered.bodies[f"fairlane/{name}"] = msgspec.json.encode(read())
    except FairlaneError as error:
        gathered.missing[f"fairlane/{name}"] = error.cause


def _views(client: PushClient, task: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "workers", client.workers
    yield "service", client.globals
    yield "tasks", lambda: client.task_page(limit=_LISTED)[0]
    if task:
        yield "task", lambda: client.task(task).progress()
        yield "why", lambda: client.why(task)._asdict()


# ------------------------------------------------------------ secrets
def _masker(settings: Settings, gathered: _Gathered) -> Masker:
    """Return what hides the secrets of our settings and those that servers have under the name of a secret."""
    learned: list[str] = []
    for path, body in gathered.bodies.items():
        if path.endswith("/settings"):
            with suppress(ValueError, RecursionError):
                learned += secrets_in(json.loads(body))
    return Masker([*secret_values(settings), *learned])


def _masked(body: bytes, masker: Masker) -> tuple[str, bytes]:
    """Return the ending and the content of a file without secrets. A document too deep to walk through is a text."""
    try:
        document = masker.document(json.loads(body))
        return ".json", json.dumps(document, indent=1, ensure_ascii=False).encode(errors="replace")
    except (ValueError, RecursionError):
        return ".txt", masker.text(body.decode(errors="replace")).encode()


# ------------------------------------------------------------ archive
def _archive(stem: str, manifest: Mapping[str, Any], gathered: _Gathered, masker: Masker) -> bytes:
    """Return the archive. The largest texts are left out if they do not fit, and the manifest says which."""
    files: dict[str, bytes] = {}
    missing = dict(gathered.missing)
    read, written = 0, _RESERVED
    for path, body in sorted(gathered.bodies.items(), key=lambda text: len(text[1])):
        read += len(body)
        ending, content = _masked(body, masker) if read <= _MAX_READ else ("", b"")
        written += len(zlib.compress(content)) + _HEADER
        if read <= _MAX_READ and written <= MAX_ARCHIVE_BYTES:
            files[path + ending] = content
        else:
            missing[path] = f"the archive is full; this has {len(body):,} bytes"
    manifest = masker.document({**manifest, "missing": missing})
    return _packed(stem, {"manifest.json": json.dumps(manifest, indent=1, ensure_ascii=False).encode(), **files})


def _packed(stem: str, files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{stem}/{name}")
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _write(folder: Path, stem: str, archive: bytes) -> Path:
    """Write a file that its owner alone may read, under a name that no other archive has."""
    for number in count(1):
        path = folder / f"{stem}{'' if number == 1 else f'-{number}'}.tar.gz"
        with suppress(FileExistsError):
            path.touch(0o600, exist_ok=False)
            break
    try:
        path.write_bytes(archive)
    except OSError:
        path.unlink()
        raise
    return path


@contextmanager
def _clear_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CaptureFailed(
            f"The capture cannot be written to {folder}: {error.strerror or error}.",
            "Make room or rights there, or name another folder with --output.",
        ) from error


def _slug(text: str) -> str:
    """Return a text as part of a file's name."""
    return _UNSAFE.sub("-", text.removeprefix("persistent://")).strip("-.")[:200] or "x"
