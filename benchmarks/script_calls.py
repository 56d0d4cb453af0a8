"""The calls of Redis' scripts during a run, as Redis itself saw them, and how long each takes on an idle one."""

import re
import threading
from codecs import escape_decode
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import msgspec

from backends.redis.client import lua_folder
from backends.redis.view import RedisView, open_view
from backends.settings import RedisSettings
from benchmarks.redis_server import running

_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_FROM_SCRIPT = re.compile(rb"^\d+\.\d+ \[\d+ lua\]")
_END = "fairlane-recorded"


@dataclass
class ScriptCall:
    """One call of a script."""

    name: str
    digest: bytes
    prefix: bytes
    words: list[bytes]
    """Arguments after the prefix."""
    commands: int = 0
    """Number of commands it called."""

    def envelopes(self) -> tuple[int, int]:
        """Return the number of envelopes that a fold's records name: one by one, and in runs."""
        records = [msgspec.msgpack.decode(word, strict=False) for word in self.words[3:]]
        outcomes = [record for record in records if record[0] == "o"]
        return sum(len(outcome[7]) for outcome in outcomes), sum(run[4] for outcome in outcomes for run in outcome[6])


@dataclass
class Recording:
    """A recording."""

    calls: list[ScriptCall] = field(default_factory=list)
    """Calls with one prefix, in the order in which Redis executed them."""

    def of(self, name: str) -> list[ScriptCall]:
        return [call for call in self.calls if call.name == name]


@contextmanager
def recording(settings: RedisSettings) -> Iterator[Recording]:
    """Record the calls while the block runs. The recording is complete after the block."""
    recorded = Recording()
    with closing(open_view(settings)) as view:
        connection = view.client.connection_pool.get_connection()
        connection.send_command("MONITOR")  # type: ignore[no-untyped-call]  # the vendor's
        connection.read_response()
        reader = threading.Thread(target=_read, args=(connection, view, recorded), daemon=True)
        reader.start()
        try:
            yield recorded
        finally:
            view.command("ECHO", _END)
            reader.join()
            connection.disconnect()  # type: ignore[no-untyped-call]  # the vendor's


def _read(connection: object, view: RedisView, recorded: Recording) -> None:
    names = {digest.encode(): name for name, digest in digests(view).items()}
    call: ScriptCall | None = None
    while True:
        line: bytes = connection.read_response(disable_decoding=True, timeout=None)  # type: ignore[attr-defined]
        if _FROM_SCRIPT.match(line):
            if call is not None:
                call.commands += 1
            continue
        words = [escape_decode(word)[0] for word in _WORD.findall(line)]
        if words[-1] == _END.encode():
            return
        call = None
        if words[0].upper() == b"EVALSHA" and words[1] in names and words[3] == view.keys.prefix.encode():
            call = ScriptCall(names[words[1]], words[1], words[3], words[4:])
            recorded.calls.append(call)


def digests(view: RedisView) -> dict[str, str]:
    """Return the digest of each script, by name."""
    return {**view.scripts.digests, **view.scripts.of(lua_folder("quotas")).digests}


def replay(calls: Sequence[ScriptCall]) -> list[float]:
    """Make the calls again, one after the other, on a private Redis; return the time of each (ms).

    It is the processor time of Redis' thread, which other work on this machine does not lengthen.
    """
    with running() as server, closing(open_view(RedisSettings(url=server.url))) as view:
        view.scripts.check()
        view.scripts.of(lua_folder("quotas")).check()
        busy = Path(f"/proc/{server.process.pid}/schedstat")
        marks = [_busy_ns(busy)]
        for call in calls:
            view.command("EVALSHA", call.digest, 1, call.prefix, *call.words)
            marks.append(_busy_ns(busy))
    return [(after - before) / 1e6 for before, after in pairwise(marks)]


def _busy_ns(schedstat: Path) -> int:
    return int(schedstat.read_text().split()[0])
