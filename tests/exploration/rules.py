"""The settle rules that can be left out, each by a patch of what ships, engine or scripts, to see that it is missed.

Two rules are not of the engine or the ledger; the exploration itself leaves these out (Variant.broken in upkeep.py).
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from backends.redis.client import lua_folder
from consumers.delivery import calls
from dispatcher.engine import runs
from dispatcher.engine.events import Stored
from dispatcher.engine.leases import Leases
from dispatcher.engine.settling import Settling
from dispatcher.wire.groups import TargetGroup
from dispatcher.wire.outcome import ClaimsEnded, encode_record
from quotas.fold import RedisFold
from quotas.ledger import RedisLedger

EARLY_MARK = "nothing is granted while claims of a lost view may last"
EARLY_WORD = "a cancel is acknowledged once the view holds it"

_advance, _lease, _due_claims = Settling._advance, RedisLedger.lease, RedisLedger.due_claims


def _acks_at_once(self: Any, job: Any) -> None:
    acks, job.acks = job.acks, []
    self._working.ack(job.lane, acks, 0)
    _advance(self, job)


def _acks_before_the_next_attempt(self: Any, job: Any) -> None:
    last_is_left = job.draft is not None and len(job.steps) == 1 and job.draft.next_attempts
    (_acks_at_once if last_is_left else _advance)(self, job)


def _believes(self: Any, token: int, receipt: Any) -> None:
    self.stored(Stored(token, None))


def _sends_nothing_again(self: Any, lane: Any, part: Any, piece: Any) -> None:
    self.dropped(lane, part)


def _forgets_what_it_asked_for(self: Any, asked: Any) -> None:
    for lane in asked:
        for part in lane.end_call():
            lane.drop(part)


def _free(ledger: Any, members: Sequence[str]) -> None:
    """As a fold that reads of their end would."""
    if members:
        fold = RedisFold(ledger._view)
        cursor = fold.cursor(0)
        assert fold.apply(0, cursor, cursor or "", [encode_record(ClaimsEnded(1, list(members)))]).applied


def _frees_at_once(self: Any) -> Any:
    found = _due_claims(self)
    for members in found.values():
        _free(self, members)
    return found


def _frees_claims_of_the_caller(self: Any, request: Any) -> Any:
    members = [member.decode() for member in self._view.client.zrange(self._view.keys.claims, 0, -1)]
    _free(self, [member for member in members if member.startswith(f"{request.worker}.")])
    return _lease(self, request)


def _hurries_everything(groups: Sequence[TargetGroup], wall_ms: int, *, reopened: bool) -> int:
    dues = [group.due_ms for group in groups if group.due_ms <= wall_ms or (reopened and group.waits_for_flow)]
    return max(dues, default=-1)


_PATCHES: Mapping[str, tuple[Any, str, Callable[..., Any]]] = {
    "the record is stored before the ack": (Settling, "_advance", _acks_at_once),
    "the next attempt is stored before the ack": (Settling, "_advance", _acks_before_the_next_attempt),
    "what has no receipt is stored again": (Settling, "_publish_again", _believes),
    "recorded with open targets: the next attempt is published again": (Settling, "recorded", _sends_nothing_again),
    "what was asked for is kept while the view is not ready": (Leases, "_back_to_lanes", _forgets_what_it_asked_for),
    "an ended claim is freed by the fold only": (RedisLedger, "due_claims", _frees_at_once),
    "a claim is one delivery's, not a worker's": (RedisLedger, "lease", _frees_claims_of_the_caller),
    "what is not due is not sent": (runs, "called_targets", lambda envelope, *_: list(range(len(envelope.targets)))),
    "the end of a pause hurries nothing that waits for a time of its own": (runs, "turn_of", _hurries_everything),
    "nothing is sent past its use-by": (calls, "is_late", lambda *_: False),
}
_SCRIPTS: Mapping[str, tuple[str, str, str]] = {
    "the first final outcome counts": (
        "outcomes.lua",
        "if envelope.final then return count_repeats(1) end",
        "",
    ),
    "what is claimed is held": (
        "statuses.lua",
        "      else\n        add_segment(segments, HELD, want, sequence, 1)",
        "      else\n        add_segment(segments, GRANTABLE, want, sequence, 1)",
    ),
    "what is final is dropped": (
        "statuses.lua",
        "add_segment(segments, DROP, want, final[2], final[3])",
        "add_segment(segments, GRANTABLE, want, final[2], final[3])",
    ),
    "a copy with more targets than are open is cut": (
        "statuses.lua",
        "elseif want.open > open or",
        "elseif",
    ),
    "a claim that ends without a record costs a try": ("fold.lua", "run, name, now_ms())", "run, name, nil)"),
    "the tombstone is looked at before a move": (
        "statuses.lua",
        "elseif task.over then",
        "elseif task.over and (want.attempt > 0 or task.shared or task.lane == lane) then",
    ),
    "what a live worker has yet to record is held": ("tasks.lua", "if task.unrecorded then return HELD, '' end", ""),
    "a go is waited for": ("tasks.lua", "(task.paused and not in_trial)", "(task.paused and task.trial == 0)"),
    "a pause spends nothing": ("tasks.lua", "local waits = (task.paused and not in_trial) or", "local waits ="),
    "a writer is dropped only if the seal leaves it out": ("tasks.lua", "  return HELD\nend", "  return DROP\nend"),
}
"""Changes of scripts: file, text, replacement."""


@contextmanager
def left_out(rule: str) -> Iterator[None]:
    """Without this rule; with all if it is empty."""
    if rule in _SCRIPTS:
        with TemporaryDirectory() as place:
            folder = _changed(Path(place) / "lua", *_SCRIPTS[rule])
            with patch("tests.exploration.ledger.scripts_folder", lambda: folder):
                yield
    elif rule in _PATCHES:
        with patch.object(*_PATCHES[rule]):
            yield
    else:
        assert rule in ("", EARLY_MARK, EARLY_WORD), rule
        yield


def _changed(folder: Path, file: str, text: str, instead: str) -> Path:
    """The scripts of the ledger, but for one text."""
    shutil.copytree(str(lua_folder("quotas")), folder)
    (path,) = folder.rglob(file)
    script = path.read_text()
    assert script.count(text) == 1, (file, text)
    path.write_text(script.replace(text, instead))
    return folder
