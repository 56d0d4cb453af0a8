"""A large audience by upload, beside `fairlane task submit` of the same file; and one whose server is killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.api.server import APP, ApiServer, api_server, one_core
from benchmarks.counting import DIGITS, compare
from benchmarks.stage import Stage, wait_for
from dispatcher.model.errors import FairlaneError

_BLOCK = 1 << 18
_ID = "uploaded-{}"
LONGEST_S = 1_800.0
TIER = "medium"


def write_audience(file: Path, count: int) -> None:
    """Write targets of 64 characters, one JSON text a line, which end with their numbers."""
    zeros = "0" * (64 - DIGITS)
    with file.open("w") as lines:
        for first in range(0, count, 10_000):
            numbers = range(first, min(first + 10_000, count))
            lines.write("".join(f'"{zeros}{number:0{DIGITS}d}"\n' for number in numbers))


def measure_upload(scene: Stage, server: ApiServer, file: Path, count: int) -> dict[str, float]:
    """Upload the file and submit it with the command line, each a task that starts a day later."""
    rest_mib = server.resident_mib()
    server.forget_peak()
    began_s = time.monotonic()
    status, answer = upload(server, file, _head("rate", count, starts=True))
    seconds, peak_mib = time.monotonic() - began_s, server.peak_mib()
    if status != HTTPStatus.CREATED or answer["accepted"] != count:
        raise FairlaneError(f"The upload was answered with {status}: {answer}.")
    scene.say(f"uploaded {count:,} targets in {seconds:.1f} s")
    alone_s = _submit_file(scene, file)
    scene.say(f"submitted them from the file in {alone_s:.1f} s")
    return {
        "upload_targets_s": count / seconds,
        "file_targets_s": count / alone_s,
        "upload_to_file": alone_s / seconds,
        "upload_mib_above_rest": peak_mib - rest_mib,
    }


def measure_kill(scene: Stage, token: str, file: Path, count: int) -> dict[str, float]:
    """Kill the server in the middle of an upload, start it again and send the same again, until it is complete.

    Workers with the counting channel send the task; what came is compared with the file.
    """
    head = _head("killed", count, starts=False, channel="count")
    with api_server(scene, token) as server:
        first = threading.Thread(target=_upload_in_vain, args=(server, file, head))
        first.start()
        half = count // 2
        wait_for("half of the upload", lambda: _published(server, "killed") >= half, LONGEST_S)
        os.kill(server.pid, signal.SIGKILL)
        first.join()
        port = server.port
    scene.say("the server was killed")
    began_s, tries = time.monotonic(), 0
    with api_server(scene, token, port) as server:
        status, answer = 0, dict[str, Any]()
        while status not in (HTTPStatus.OK, HTTPStatus.CREATED):
            if tries and status not in (HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE):
                raise FairlaneError(f"The upload was answered with {status}: {answer}.")
            time.sleep(min(tries, 1))
            status, answer = upload(server, file, head)
            tries += 1
    resumed_s = time.monotonic() - began_s
    scene.client.task(_inside("killed")).wait(LONGEST_S)
    return {
        **{f"killed_{name}": value for name, value in asdict(compare(scene.folder, b"\1" * count)).items()},
        "killed_resumed_s": resumed_s,
        "killed_accepted_of_all": answer["accepted"] / count,
    }


def upload(server: ApiServer, file: Path, head: dict[str, Any]) -> tuple[int, Any]:
    """Upload a task with the targets of a file. Raises OSError, HTTPException."""
    connection = server.connection(LONGEST_S)
    try:
        headers = server.headers(Content_Type="application/x-ndjson")
        connection.request("POST", "/v1/tasks", _body(file, head), headers, encode_chunked=True)
        answer = connection.getresponse()
        return answer.status, msgspec.json.decode(answer.read())
    finally:
        connection.close()


def _body(file: Path, head: dict[str, Any]) -> Iterator[bytes]:
    yield msgspec.json.encode(head) + b"\n"
    with file.open("rb") as data:
        while block := data.read(_BLOCK):
            yield block


def _upload_in_vain(server: ApiServer, file: Path, head: dict[str, Any]) -> None:
    with suppress(OSError, HTTPException):
        upload(server, file, head)


def _published(server: ApiServer, name: str) -> int:
    status, task = server.ask("GET", f"/v1/tasks/{_ID.format(name)}")
    return int(task["targets"]["total"]) if status == HTTPStatus.OK else 0


def _head(name: str, count: int, *, starts: bool, channel: str = "null") -> dict[str, Any]:
    """Return the first line of an upload. starts: whether it starts a day later."""
    start = {"start_at": _tomorrow()} if starts else {}
    message = {"title": "Benchmark", "body": "x" * 200}
    fields = {"id": _ID.format(name), "channel": channel, "tier": TIER, "message": message}
    return {**fields, **start, "duplicates": "count", "expected_targets": count}


def _inside(name: str) -> str:
    return f"{APP}--{_ID.format(name)}"


def _tomorrow() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86_400))


def _submit_file(scene: Stage, file: Path) -> float:
    """Submit the file with the command line; return the seconds that it says, without its start."""
    command = [
        sys.executable, "-m", "fairlane", "task", "submit", "--id", "file", "--app", APP, "--channel", "null",
        "--tier", TIER, "--title", "Benchmark", "--body", "x" * 200, "--at", _tomorrow(), "--targets", str(file),
        "-o", "json",
    ]  # fmt: skip
    with one_core():
        done = subprocess.run(command, env=scene.crew.environment, stdout=subprocess.PIPE, check=True)
    return float(json.loads(done.stdout)[0]["seconds"])
