"""The names of all keys in Redis, and the constants that Python shares with the scripts.

Scripts get the prefix as KEYS[1] and build the same names (backends/redis/lua/view/keys.lua). Constants are written
into them when they are assembled.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dispatcher.analysis.task_times import COVERED_MS
from dispatcher.model.flow_pause import KEPT_MS
from dispatcher.model.pools import WINDOW_S
from dispatcher.model.task import TOMBSTONE_MS
from dispatcher.model.tier import DEFAULT_TIER_WEIGHTS, MILLI, TIERS
from dispatcher.model.view import SUSPECT_MS
from dispatcher.model.view_form import FORM
from dispatcher.scheduling.sharing import WORK_WEIGHTS, Work
from dispatcher.wire.control import MAIN_WRITER
from dispatcher.wire.groups import MAX_TRIES
from dispatcher.wire.lease import Status
from dispatcher.wire.outcome import OUTCOME_NAMES

BUCKET_UNIT = 1_000_000
"""One target, in the units of pool buckets."""
MAX_SKIPPED_RECORDS = 1_000
"""Maximum number of positions of skipped records that are kept per topic."""
MAX_AUDIT = 100_000
"""Maximum number of changes made by people and keys that are kept."""
MAX_AUDIT_OF_APP = MAX_AUDIT // 10
"""Maximum number of those of one app: a busy one does not drive out the others."""
REPORT_MS = 4_000
"""After the claims made before a view have ended, time for live workers to report the outcomes of them that no topic
has: these are late after a second, and a heartbeat a second names them (dispatcher/engine/stats.py)."""
MOVED_MS = 10_000
"""Time for workers on another Redis to notice that the view has moved; they grant until then."""
COUNT_FIELDS = tuple("cancelled_n" if name == "cancelled" else name for name in OUTCOME_NAMES)
"""The fields of a task's hash that count its targets, in the order of Outcome."""
CONSTANTS: Mapping[str, str] = {
    **{status.name: str(status.value) for status in Status},
    "COUNT_FIELDS": f"{{ {', '.join(map(repr, COUNT_FIELDS))} }}",
    "COVERED_MS": str(COVERED_MS),
    "DEFAULT_WEIGHTS": f"{{ {', '.join(f'{tier} = {weight}' for tier, weight in DEFAULT_TIER_WEIGHTS.items())} }}",
    "FLOW_KEPT_MS": str(KEPT_MS),
    "FORM": str(FORM),
    "FRESH_WEIGHT": str(WORK_WEIGHTS[Work.FRESH]),
    "MAIN_WRITER": repr(MAIN_WRITER),
    "MAX_AUDIT": str(MAX_AUDIT),
    "MAX_AUDIT_OF_APP": str(MAX_AUDIT_OF_APP),
    "MAX_SKIPPED_RECORDS": str(MAX_SKIPPED_RECORDS),
    "MAX_TRIES": str(MAX_TRIES),
    "MILLI": str(MILLI),
    "MOVED_MS": str(MOVED_MS),
    "REPORT_MS": str(REPORT_MS),
    "RETRY_WEIGHT": str(WORK_WEIGHTS[Work.RETRIES]),
    "SUSPECT_MS": str(SUSPECT_MS),
    "TIERS": f"{{ {', '.join(repr(str(tier)) for tier in TIERS)} }}",
    "TOMBSTONE_MS": str(TOMBSTONE_MS),
    "UNIT": str(BUCKET_UNIT),
    "WINDOW_US": str(round(WINDOW_S * 1_000_000)),
}
"""Constants by name, as Lua. A script has those that a line `-- constants: NAME, NAME` in it names."""


class _Named:
    """An attribute of Keys that makes names of its own name."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name


class _Name(_Named):
    def __get__(self, keys: "Keys", _owner: type) -> str:
        return f"{keys.prefix}:{self._name}"


class _NameOf(_Named):
    """A function that returns the name of the key of one task, app, worker or other subject."""

    def __get__(self, keys: "Keys", _owner: type) -> Callable[[str | int], str]:
        return lambda subject: f"{keys.prefix}:{self._name}:{subject}"


@dataclass(frozen=True)
class Keys:
    """Names under one prefix. One Redis may hold several installations, each under its own prefix."""

    prefix: str = "fairlane"

    epoch = _Name()
    """Hash: id, run_id and promotion (of the server: backends/redis/view.py), started_ms, ready, first (1: no
    view was before it), waits_from_ms (claims made until then may be missing), grants_after_ms, claim_ms (longest
    claim made), partitions, announced, marked, restoring (0, 1, or the restorer), restorers, address (of this
    Redis), announced_at (position of its EpochStarted), adopted (1: the installation moved here), foreign (address
    of another Redis that holds the view), deposed (epoch of the Redis that took the place of this one),
    read:<control or partition>."""
    unrecorded = _Name()
    """Hash: task -> `|<worker>|<worker>|`, the live workers that hold outcomes of it which no topic has, of claims
    made before this view."""
    globals = _Name()
    """Hash: settings of the service (dispatcher.model.service_settings); under `pos|`, the positions that set them;
    under `pauses|`, when channels and flows were paused."""
    access = _Name()
    """Hash: keys, users, and policies of apps; under `pos|`, the positions that set them; under `last`, that of the
    latest."""
    key_uses = _Name()
    """Hash: id of a key -> wall time (ms, to the minute) of its last use."""
    requests = _NameOf()
    """Hash of an app: the present second, and the requests of its keys in it."""
    session = _NameOf()
    """Who has signed in at the console, `key:ID` or `user:NAME`, by the SHA-256 of the cookie; it expires."""
    sessions_of = _NameOf()
    """Sorted set: digests of the sessions of `key:ID` or `user:NAME`, by time; it expires."""
    session_link = _NameOf()
    """Set while a link to sign in, by its SHA-256, is good; it expires."""
    figures = _Name()
    """Hash: a ring of places for 10 s each -> rates and backlog of the tiers in them."""
    audit = _Name()
    """Sorted set: ids of the changes made by people and keys, by time."""
    audit_entry = _Name()
    """Hash: id of a change -> what it was (backends/redis/lua/registry/audit.lua)."""
    audit_of = _NameOf()
    """Sorted set of an app's changes, by time."""
    paused = _Name()
    """Set: the channels that the settings say are paused."""
    flows = _Name()
    """Sorted set: flows that were paused, by the time when their entry in the settings means nothing any more."""
    pausing = _NameOf()
    """Lock of the worker that writes a flow's next entry; it expires."""
    control = _Name()
    """Hash: cursor of the control topic's fold."""
    restated = _Name()
    """Key of the time (Unix ms) when records were last published again, before the topic would drop them."""
    tasks = _Name()
    """Sorted set of live tasks by created_ms."""
    ended = _Name()
    """Sorted set of ended tasks by finished_ms."""
    index = _Name()
    """Sorted set of all tasks, live and ended, by created_ms."""
    sides = _Name()
    """Set of the side lanes that may hold something, by topic."""
    claims = _Name()
    """Sorted set of `<claim>|<task>` by end time."""
    demand = _Name()
    """Sorted set of lanes by the time when their demand is forgotten."""
    workers = _Name()
    """Sorted set of workers by the time of their last heartbeat."""
    served = _Name()
    """Hash: for each channel, the times in which a worker served it (backends/redis/lua/workers/absences.lua)."""
    feed = _Name()
    """Stream of changes."""
    version = _Name()
    """Counter of changes."""
    stats = _Name()
    """Hash of counters."""
    task = _NameOf()
    """Hash: everything about one task but its envelopes."""
    app = _NameOf()
    """Set of an app's live tasks."""
    admitted = _NameOf()
    """Hash of an app with limits: tasks that were admitted and are not registered yet."""
    submitting = _NameOf()
    """Hash: who submits a task, since when, and until when unless renewed. Kept for a day after it was taken."""
    lane = _NameOf()
    """Hash of a shared lane: weight (thousandths) and number of its live tasks."""

    def final(self, task: str, writer: str) -> str:
        """Bitmap by sequence: all targets have an outcome."""
        return f"{self.prefix}:final:{task}:{writer}"

    def touched(self, task: str, writer: str) -> str:
        """Bitmap by sequence: attempt 0 is claimed or recorded."""
        return f"{self.prefix}:touched:{task}:{writer}"

    letters = _NameOf()
    """Set: the blocks of the dead-letter topic in which a task has letters."""
    open = _NameOf()
    """Hash `<writer>:<sequence>` -> state of an envelope that is recorded and has open targets."""

    def claim(self, claim: str, task: str) -> str:
        """The envelopes that one claim holds of one task."""
        return f"{self.prefix}:claim:{claim}|{task}"

    pool = _NameOf()
    """Hash: buckets and virtual times of a pool's tiers."""

    def virtual_times(self, pool: str) -> str:
        """Hash: lane -> virtual time in a pool."""
        return f"{self.prefix}:vt:{pool}"

    call = _NameOf()
    """Hash: number and answer of a worker's last lease call."""
    fold = _NameOf()
    """Hash: cursor of one outcome topic's fold."""
    passed = _NameOf()
    """Hash: position of a record that was skipped -> version and reason. Of a topic: `control`, or the number of an
    outcome topic."""
    dump = _NameOf()
    """A copy of a task's open envelopes while a snapshot is made of it."""
    worker = _NameOf()
    """A worker's last heartbeat."""
    seen_brokers = _Name()
    """Hash: broker -> wall time (Unix ms) at which a command last had an answer of it."""
    guarded = _Name()
    """The states of brokers and bookies, as the guard of the estate left them."""
    lock = _NameOf()
    """Lock of a job that one worker does for all: its holder."""
