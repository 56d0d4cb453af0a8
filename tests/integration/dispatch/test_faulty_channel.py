"""A channel of one's own that errs in every way, in a real worker: each target ends, and the worker goes on."""

import json
from collections import Counter
from pathlib import Path

from fairlane import PushClient, PushTask, Settings
from tests.integration.worker_crew import audience, crew

FAULTY = """
import json, math, pathlib
from dispatcher.wire.outcome import ALL_SENT, Report, Verdict

class Sick:
    def __str__(self): raise RuntimeError("no text")

class Mute(BaseException):
    def __str__(self): raise RuntimeError("no text")

class Odd(Report, frozen=True):
    more: int = 5

BAD = Verdict(1, "gone")
SAY = {
    "bytes": lambda n: Report(Verdict(0, b"ok \\xff")),
    "surrogate": lambda n: Report(Verdict(0, "\\ud83d")),
    "long": lambda n: Report(Verdict(0, "x" * 80_000)),
    "sick": lambda n: Report(Verdict(0, Sick())),
    "seconds": lambda n: Report(Verdict(0, "", "5")),
    "nan": lambda n: Report(Verdict(0, "", math.nan)),
    "name": lambda n: Report(Verdict("sent")),
    "float": lambda n: Report(Verdict(0.0)),
    "odd": lambda n: Odd(Verdict(0)),
    "stranger": lambda n: Report(exceptions={"stranger": BAD, 10**6: BAD, -1: BAD}),
    "list": lambda n: Report(exceptions=[BAD]),
    "by-name": lambda n: Report(exceptions={"by-name-000005": BAD}),
    "code": lambda n: Report(Verdict(77)),
    "bool": lambda n: Report(Verdict(True)),
    "none": lambda n: None,
}

class Faulty:
    timeout_s, concurrency, batch_limit = 5.0, 4, 1
    def __init__(self, settings): self.name, self.calls = settings["name"], pathlib.Path(settings["calls"])
    async def open(self): ...
    async def close(self): ...
    async def deliver(self, envelopes, tier):
        (one,) = envelopes
        with self.calls.open("a") as calls:
            calls.write(json.dumps([one.app, one.sequence, one.attempt]) + "\\n")
        if one.app == "raise":
            raise Mute
        if one.app == "generator":
            return (ALL_SENT for _ in envelopes)
        if one.app == "bare":
            return ALL_SENT
        if one.app == "number":
            return [ALL_SENT] * 3
        return [SAY[one.app](len(one.targets))]
"""
SENT = (
    "bytes", "surrogate", "long", "sick", "seconds", "nan", "name", "float", "odd", "list", "generator", "bare",
)  # fmt: skip
FAILED = ("stranger", "code", "bool", "none", "raise", "number")


def test_each_fault_ends_in_an_outcome_and_who_was_told_sent_is_called_once(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY)
    calls = tmp_path / "calls"
    config = f'[worker.channels]\nfaulty = "faulty:Faulty"\n[channels.faulty]\ncalls = {json.dumps(str(calls))}\n'
    with crew(fresh_settings, tmp_path, "w1", config=config) as members, PushClient.connect(fresh_settings) as client:
        handles = {}
        for app in (*SENT, *FAILED, "by-name"):
            task = PushTask(app=app, tier="high", channel="faulty", message="hi", chunk=50, max_attempts=1)
            handles[app] = client.submit(task, audience(100, app))
        targets = {app: handle.wait(40).targets for app, handle in handles.items()}
        assert {app for app, counts in targets.items() if counts.sent == 100} == set(SENT)
        assert {app for app, counts in targets.items() if counts.failed == 100} == set(FAILED)
        by_name = targets["by-name"]  # its second envelope has no target of that name
        assert (by_name.sent, by_name.invalid, by_name.failed) == (49, 1, 50)
        assert members.leave("w1") == 0
        logged = [line for line in members.log_of("w1").splitlines() if "The channel faulty is faulty" in line]
    made = Counter(tuple(json.loads(line)) for line in calls.read_text().splitlines())
    assert made == Counter([(app, n, 0) for app in handles for n in range(2)])
    assert len(logged) == len(set(logged)) <= 20
