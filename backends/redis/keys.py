"""The names of all keys in Redis, and the constants that Python shares with the scripts.

Scripts get the prefix as KEYS[1] and build the same names (backends/redis/lua/view/keys.lua). Constants are written
into them when they are assembled.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dispatcher.analysis.why import COVERED_MS
from dispatcher.model.flow_pause import KEPT_MS
from dispatcher.model.pools import WINDOW_S
from dispatcher.model.tier import DEFAULT_TIER_WEIGHTS, MILLI, TIERS
from dispatcher.model.view import SUSPECT_MS
from dispatcher.model.view_form import FORM
from dispatcher.scheduling.sharing import WORK_WEIGHTS, Work
from dispatcher.wire.control import MAIN_WRITER
from dispatcher.wire.groups import MAX_TRIES
from dispatcher.wire.lease import Status
from dispatcher.wire.outcome import OUTCOME_NAMES
from dispatcher.wire.retention import TOMBSTONE_MS

BUCKET_UNIT = 1_000_000
"""One target, in the units of pool buckets."""
MAX_SKIPPED_RECORDS = 1_000
"""Maximum number of positions of skipped records that are kept per topic."""
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
    "MAX_SKIPPED_RECORDS": str(MAX_SKIPPED_RECORDS),
    "MAX_TRIES": str(MAX_TRIES),
    "MILLI": str(MILLI),
    "RETRY_WEIGHT": str(WORK_WEIGHTS[Work.RETRIES]),
    "SUSPECT_MS": str(SUSPECT_MS),
    "TIERS": f"{{ {', '.join(repr(str(tier)) for tier in TIERS)} }}",
    "TOMBSTONE_MS": str(TOMBSTONE_MS),
    "UNIT": str(BUCKET_UNIT),
    "WINDOW_US": str(round(WINDOW_S * 1_000_000)),
}
"""Constants by name, as Lua. A script has those that a line `-- constants: NAME, NAME` in it names."""


@dataclass(frozen=True)
class Keys:
    """Names under one prefix. One Redis may hold several installations, each under its own prefix."""

    prefix: str = "fairlane"

    @property
    def epoch(self) -> str:
        """Hash: id, run_id and promotion (of the server: backends/redis/server.py), started_ms, ready, first (1: no
        view was before it), waits_from_ms (claims made until then may be missing), grants_after_ms, claim_ms (longest
        claim made), partitions, announced, marked, restoring (0, 1, or the restorer), restorers, address (of this
        Redis), announced_at (position of its EpochStarted), adopted (1: the installation moved here), foreign (address
        of another Redis that holds the view), deposed (epoch of the Redis that took the place of this one),
        read:<control or partition>."""
        return f"{self.prefix}:epoch"

    @property
    def unrecorded(self) -> str:
        """Hash: task -> `|<worker>|<worker>|`, the live workers that hold outcomes of it which no topic has, of claims
        made before this view."""
        return f"{self.prefix}:unrecorded"

    @property
    def globals(self) -> str:
        """Hash: settings of the service (dispatcher.model.service_settings); under `pos|`, the positions that set them;
        under `pauses|`, when channels and flows were paused."""
        return f"{self.prefix}:globals"

    @property
    def paused(self) -> str:
        """Set: the channels that the settings say are paused."""
        return f"{self.prefix}:paused"

    @property
    def flows(self) -> str:
        """Sorted set: flows that were paused, by the time when their entry in the settings means nothing any more."""
        return f"{self.prefix}:flows"

    def pausing(self, flow: str) -> str:
        """Lock of the worker that writes a flow's next entry; it expires."""
        return f"{self.prefix}:pausing:{flow}"

    @property
    def control(self) -> str:
        """Hash: cursor of the control topic's fold."""
        return f"{self.prefix}:control"

    @property
    def restated(self) -> str:
        """Time when old records were last restated (wall ms)."""
        return f"{self.prefix}:restated"

    @property
    def tasks(self) -> str:
        """Sorted set of live tasks by created_ms."""
        return f"{self.prefix}:tasks"

    @property
    def ended(self) -> str:
        """Sorted set of ended tasks by finished_ms."""
        return f"{self.prefix}:ended"

    @property
    def index(self) -> str:
        """Sorted set of all tasks, live and ended, by created_ms."""
        return f"{self.prefix}:index"

    @property
    def sides(self) -> str:
        """Set of the side lanes that may hold something, by topic."""
        return f"{self.prefix}:sides"

    @property
    def claims(self) -> str:
        """Sorted set of `<claim>|<task>` by end time."""
        return f"{self.prefix}:claims"

    @property
    def demand(self) -> str:
        """Sorted set of lanes by the time when their demand is forgotten."""
        return f"{self.prefix}:demand"

    @property
    def workers(self) -> str:
        """Sorted set of workers by the time of their last heartbeat."""
        return f"{self.prefix}:workers"

    @property
    def served(self) -> str:
        """Hash: for each channel, the times in which a worker served it (backends/redis/lua/workers/absences.lua)."""
        return f"{self.prefix}:served"

    @property
    def feed(self) -> str:
        """Stream of changes."""
        return f"{self.prefix}:feed"

    @property
    def version(self) -> str:
        """Counter of changes."""
        return f"{self.prefix}:version"

    @property
    def stats(self) -> str:
        """Hash of counters."""
        return f"{self.prefix}:stats"

    def task(self, task: str) -> str:
        """Hash: everything about one task but its envelopes."""
        return f"{self.prefix}:task:{task}"

    def app(self, app: str) -> str:
        """Set of an app's live tasks."""
        return f"{self.prefix}:app:{app}"

    def admitted(self, app: str) -> str:
        """Hash of an app with limits: tasks that were admitted and are not registered yet."""
        return f"{self.prefix}:admitted:{app}"

    def submitting(self, task: str) -> str:
        """Hash: who submits a task, since when, and until when unless renewed. Kept for a day after it was taken."""
        return f"{self.prefix}:submitting:{task}"

    def lane(self, topic: str) -> str:
        """Hash of a shared lane: weight (thousandths) and number of its live tasks."""
        return f"{self.prefix}:lane:{topic}"

    def final(self, task: str, writer: str) -> str:
        """Bitmap by sequence: all targets have an outcome."""
        return f"{self.prefix}:final:{task}:{writer}"

    def touched(self, task: str, writer: str) -> str:
        """Bitmap by sequence: attempt 0 is claimed or recorded."""
        return f"{self.prefix}:touched:{task}:{writer}"

    def letters(self, task: str) -> str:
        """Set: the blocks of the dead-letter topic in which a task has letters."""
        return f"{self.prefix}:letters:{task}"

    def open(self, task: str) -> str:
        """Hash `<writer>:<sequence>` -> state of an envelope that is recorded and has open targets."""
        return f"{self.prefix}:open:{task}"

    def claim(self, claim: str, task: str) -> str:
        """The envelopes that one claim holds of one task."""
        return f"{self.prefix}:claim:{claim}|{task}"

    def pool(self, name: str) -> str:
        """Hash: buckets and virtual times of a pool's tiers."""
        return f"{self.prefix}:pool:{name}"

    def virtual_times(self, pool: str) -> str:
        """Hash: lane -> virtual time in a pool."""
        return f"{self.prefix}:vt:{pool}"

    def call(self, worker: str) -> str:
        """Hash: number and answer of a worker's last lease call."""
        return f"{self.prefix}:call:{worker}"

    def fold(self, partition: int) -> str:
        """Hash: cursor of one outcome topic's fold."""
        return f"{self.prefix}:fold:{partition}"

    def passed(self, topic: str) -> str:
        """Hash: position of a record that was skipped -> version and reason. topic: `control`, or the number of an
        outcome topic."""
        return f"{self.prefix}:passed:{topic}"

    def dump(self, task: str) -> str:
        """A copy of a task's open envelopes while a snapshot is made of it."""
        return f"{self.prefix}:dump:{task}"

    def worker(self, worker: str) -> str:
        """A worker's last heartbeat."""
        return f"{self.prefix}:worker:{worker}"

    @property
    def incidents(self) -> str:
        """Hash: subject -> wall time and note of an incident that nobody has taken up; it expires."""
        return f"{self.prefix}:incidents"

    @property
    def guarded(self) -> str:
        """The states of brokers and bookies, as the guard of the estate left them."""
        return f"{self.prefix}:guarded"

    def lock(self, name: str) -> str:
        """Lock of a job that one worker does for all: its holder."""
        return f"{self.prefix}:lock:{name}"
