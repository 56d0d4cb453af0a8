"""The figures of the HTTP API: lists, single tasks, small tasks, an upload, events and revoked keys."""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass

from benchmarks.api.console import measure_console
from benchmarks.api.following import measure_events, measure_revoked
from benchmarks.api.lists import make_live, measure_first_read, measure_lists, measure_show
from benchmarks.api.server import api_server, key_of
from benchmarks.api.submissions import measure_submissions
from benchmarks.api.upload import measure_kill, measure_upload, write_audience
from benchmarks.stage import Stage, stage
from fairlane.settings import Settings

KILLED = 2_000_000
"""Most targets of the upload whose server is killed: each is counted."""


@dataclass(frozen=True, slots=True)
class ApiLoad:
    """The sizes of what is measured."""

    live: int
    """Live tasks beside which lists and single tasks are read."""
    upload: int
    """Targets of the upload."""
    parts: Collection[str]
    """Some of submit, upload, kill, live and events."""


def run(settings: Settings, load: ApiLoad, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run of each part."""
    figures: dict[str, float] = {}
    with stage(settings, say, namespaces=16) as scene:
        killed = min(load.upload, KILLED)
        counting = {"count": {"folder": str(scene.folder), "targets": killed}}
        scene.crew.environment |= {
            "FAIRLANE_WORKER_CHANNELS": json.dumps({"count": "benchmarks.counting:CountingChannel"}),
            "FAIRLANE_CHANNELS": json.dumps(counting),
        }
        scene.start_workers(1)
        token = key_of(scene)
        if "kill" in load.parts:
            file = scene.folder / "killed.ndjson"
            write_audience(file, killed)
            figures |= measure_kill(scene, token, file, killed)
        if "submit" in load.parts:
            with api_server(scene, token) as server:
                for tier in ("low", "medium"):
                    figures |= measure_submissions(scene, server, tier)
        if "upload" in load.parts:
            file = scene.folder / "audience.ndjson"
            write_audience(file, load.upload)
            with api_server(scene, token) as server:
                figures |= measure_upload(scene, server, file, load.upload)
        if "live" in load.parts:
            figures |= _beside_live(scene, token, load.live)
        if "events" in load.parts:
            with api_server(scene, token) as server:
                figures |= measure_events(scene, server) | measure_revoked(scene, server)
    return figures


def _beside_live(scene: Stage, token: str, count: int) -> dict[str, float]:
    make_live(scene, count)
    scene.say(f"{count:,} tasks are live")
    with api_server(scene, token) as server:
        figures = measure_first_read(server) | measure_show(server, count) | measure_console(scene, server, count)
        return figures | measure_lists(scene, server)
