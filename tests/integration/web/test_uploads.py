"""Uploads to a real server: whatever breaks one off, it is not sealed, and the same id again completes it exactly."""

import gzip
import http.client
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.web.api_server import ApiServer, api_server, new_key
from tests.integration.worker_crew import Crew, audience, eventually

NDJSON = "application/x-ndjson"
WITHIN_S = 60.0
TARGETS = 30_000


@pytest.fixture(scope="module")
def key(module_settings: Settings, members: Crew) -> str:
    """A key of an app that may use the channel of the tests."""
    members.await_view()
    with PushClient.connect(module_settings) as client:
        client.access.set_policy("shop", {"channels": ["log", "null"], "requests_s": 10_000, "targets": 100_000})
    return new_key(module_settings, "--app", "shop", "--scopes", "submit,read,control")


@pytest.fixture
def server(module_settings: Settings, key: str, tmp_path: Path) -> Iterator[ApiServer]:
    with serving(module_settings, key, tmp_path) as here:
        yield here


@contextmanager
def serving(settings: Settings, key: str, folder: Path) -> Iterator[ApiServer]:
    """A server that is ready."""
    folder.mkdir(exist_ok=True)
    with api_server(settings, folder) as here:
        here.key = key
        eventually(lambda: here.ask("GET", "/readyz")[0] == HTTPStatus.OK, WITHIN_S, "it is ready")
        yield here


def head(id_: str, **fields: Any) -> bytes:
    task = {"id": id_, "channel": "log", "message": "Hi {name}", "tier": "high", "chunk": 10, **fields}
    return json.dumps(task).encode() + b"\n"


def lines(targets: Iterable[str]) -> bytes:
    return "".join(f'{{"target": "{target}", "vars": {{"name": "Ann"}}}}\n' for target in targets).encode()


def upload(server: ApiServer, body: bytes | Iterable[bytes], **headers: str) -> tuple[int, Any, dict[str, str]]:
    """Return status, document and headers of the answer."""
    with closing(http.client.HTTPConnection(*server.address, timeout=120)) as connection:
        given = {"Authorization": f"Bearer {server.key}", "Content-Type": NDJSON, **headers}
        connection.request("POST", "/v1/tasks", body, given, encode_chunked=not isinstance(body, bytes))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), dict(answer.getheaders())


def until_accepted(server: ApiServer, body: bytes) -> tuple[int, Any, dict[str, str]]:
    """Send the same until nobody else submits it."""
    deadline_s = time.monotonic() + WITHIN_S
    while True:
        status, document, headers = upload(server, body)
        if status < 300 or "Retry-After" not in headers or time.monotonic() > deadline_s:
            return status, document, headers
        time.sleep(0.2)


def state(server: ApiServer, id_: str) -> dict[str, Any]:
    status, task = server.ask("GET", f"/v1/tasks/{id_}")
    return task if status == HTTPStatus.OK else {"state": "", "targets": {"total": 0, "sent": 0}}


def check_sent_once(server: ApiServer, members: Crew, id_: str, targets: Iterable[str]) -> None:
    eventually(lambda: state(server, id_)["state"] == "completed", WITHIN_S, f"{id_} is completed")
    assert members.targets(f"shop--{id_}") == Counter(targets)


def test_upload_is_sent_once_to_each_target(server: ApiServer, members: Crew) -> None:
    body = head("whole") + lines(audience(TARGETS))
    status, document, _ = upload(server, iter([body[:7], body[7:100_000], body[100_000:]]))
    assert (status, document["accepted"], document["refused"]) == (201, TARGETS, 0)
    check_sent_once(server, members, "whole", audience(TARGETS))
    status, document, headers = upload(server, body)
    assert (status, document["accepted"], headers["Idempotent-Replayed"]) == (200, TARGETS, "true")


def test_gzip_of_several_members_is_one_upload(server: ApiServer, members: Crew) -> None:
    parts = [head("packed"), lines(audience(500)), lines(audience(500, "other"))]
    status, document, _ = upload(server, b"".join(map(gzip.compress, parts)), **{"Content-Encoding": "gzip"})
    assert (status, document["accepted"]) == (201, 1_000)
    check_sent_once(server, members, "packed", audience(500) + audience(500, "other"))


def test_refused_lines_are_counted_and_the_first_hundred_are_named(server: ApiServer) -> None:
    body = head("refused", channel="null") + b"".join(b'"good-%d"\nbad\n\n' % number for number in range(300))
    status, document, _ = upload(server, body)
    assert (status, document["accepted"], document["refused"]) == (201, 300, 300)
    assert [refusal["line"] for refusal in document["refusals"]] == [3 * number + 3 for number in range(100)]


BODY = lines(audience(TARGETS))


def chunked(data: bytes, end: bytes = b"") -> bytes:
    parts = [data[start : start + 50_000] for start in range(0, len(data), 50_000)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + end


def broken_off(server: ApiServer, headers: str, body: bytes, then: Callable[[socket.socket], object]) -> None:
    """Send a part of an upload, and do something with its connection."""
    with socket.create_connection(server.address, timeout=60) as connection:
        request = f"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key}\r\n"
        request += f"Content-Type: {NDJSON}\r\n{headers}\r\n"
        with suppress(OSError):
            connection.sendall(request.encode() + body)
            then(connection)


def end_of_answer(connection: socket.socket) -> None:
    while connection.recv(65_536):
        pass


def shut_and_wait(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)
    end_of_answer(connection)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


@pytest.mark.parametrize("then", [shut_and_wait, socket.socket.close, reset])
@pytest.mark.parametrize("kind", ["no last chunk", "in a chunk", "short of its length", "in gzip"])
def test_upload_that_breaks_off_is_not_sealed_and_goes_on(
    server: ApiServer, members: Crew, kind: str, then: Callable[[socket.socket], object]
) -> None:
    id_ = f"{kind} {then.__name__}".replace(" ", "-").replace("_", "-")
    whole = head(id_) + BODY
    for part in (len(whole) // 3, len(whole)):
        sent = {
            "no last chunk": ("Transfer-Encoding: chunked\r\n", chunked(whole[:part])),
            "in a chunk": ("Transfer-Encoding: chunked\r\n", b"%x\r\n" % (len(whole) + 9) + whole[:part]),
            "short of its length": (f"Content-Length: {len(whole) + 1}\r\n", whole[:part]),
            "in gzip": (
                "Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n",
                chunked(gzip.compress(whole[:part])[:-1], b"0\r\n\r\n"),
            ),
        }
        broken_off(server, *sent[kind], then)
    status, document, _ = until_accepted(server, whole)
    assert (status, document["accepted"]) == (201, TARGETS)
    check_sent_once(server, members, id_, audience(TARGETS))


def test_upload_without_an_id_goes_on_under_the_id_that_its_answer_names(server: ApiServer, members: Crew) -> None:
    given = {"channel": "log", "message": "Hi {name}", "tier": "high", "chunk": 10}
    sent = gzip.compress(json.dumps(given).encode() + b"\n" + BODY)[:-1]
    status, problem, _ = upload(server, sent, **{"Content-Encoding": "gzip"})
    (id_,) = re.findall(r"id='(\w+)'", problem["next_step"])
    assert (status, state(server, id_)["sealed"]) == (400, False)
    status, document, _ = until_accepted(server, head(id_) + BODY)
    assert (status, document["accepted"]) == (201, TARGETS)
    check_sent_once(server, members, id_, audience(TARGETS))


def test_upload_goes_on_after_its_server_was_killed(
    module_settings: Settings, key: str, members: Crew, tmp_path: Path
) -> None:
    body = head("killed") + BODY
    for number, part in enumerate((0.2, 0.6, 1.0)):
        with serving(module_settings, key, tmp_path / str(number)) as server:

            def begun() -> Iterator[bytes]:
                yield body[: int(part * len(body))]  # noqa: B023  # it is used in this round
                stop.wait(WITHIN_S)  # noqa: B023

            stop = threading.Event()
            thread = threading.Thread(target=sent_in_vain, args=(server, begun()))
            thread.start()
            eventually(lambda: state(server, "killed")["state"], WITHIN_S, "the task is known")
            server.process.kill()
            server.process.wait()
            stop.set()
            thread.join()
    with serving(module_settings, key, tmp_path / "last") as server:
        status, document, _ = until_accepted(server, body)
        assert (status, document["accepted"]) == (201, TARGETS)
        check_sent_once(server, members, "killed", audience(TARGETS))


def sent_in_vain(server: ApiServer, body: Iterable[bytes]) -> None:
    with suppress(OSError, http.client.HTTPException):
        upload(server, body)


def test_progress_shows_while_the_upload_goes_on(server: ApiServer, members: Crew) -> None:
    sent = threading.Event()

    def body() -> Iterator[bytes]:
        yield head("slow") + lines(audience(1_000))
        sent.wait(WITHIN_S)
        yield lines(audience(1_000, "other"))

    answers: list[tuple[int, Any, dict[str, str]]] = []
    thread = threading.Thread(target=lambda: answers.append(upload(server, body())))
    thread.start()
    eventually(lambda: state(server, "slow")["targets"]["sent"] == 1_000, WITHIN_S, "the first part is sent")
    assert state(server, "slow")["state"] != "completed"
    sent.set()
    thread.join(WITHIN_S)
    assert answers[0][0] == 201
    check_sent_once(server, members, "slow", audience(1_000) + audience(1_000, "other"))


def test_other_audience_under_the_same_id_is_refused(server: ApiServer) -> None:
    assert upload(server, head("same", channel="null") + lines(audience(100)))[0] == 201
    for other in (audience(101), audience(99), audience(100, "other")):
        status, document, _ = upload(server, head("same", channel="null") + lines(other))
        assert (status, document["type"].rpartition("#")[2]) == (409, "audience-mismatch")


def test_audience_beyond_the_policy_is_refused_while_it_is_read(server: ApiServer) -> None:
    status, document, _ = upload(server, head("large", channel="null") + lines(audience(100_001)))
    assert (status, "targets up to 100,000" in document["detail"]) == (422, True)
    assert state(server, "large")["state"] != "completed"


def test_upload_of_a_task_that_is_cancelled_meanwhile_is_answered(server: ApiServer) -> None:
    cancelled = threading.Event()

    def body() -> Iterator[bytes]:
        yield head("cancelled", channel="null") + lines(audience(1_000))
        cancelled.wait(WITHIN_S)
        for number in range(20):
            yield lines(audience(1_000, f"part-{number}"))

    answers: list[tuple[int, Any, dict[str, str]]] = []
    thread = threading.Thread(target=lambda: answers.append(upload(server, body())))
    thread.start()
    eventually(lambda: state(server, "cancelled")["state"], WITHIN_S, "the task is known")
    assert server.ask("POST", "/v1/tasks/cancelled/cancel")[0] == 200
    cancelled.set()
    thread.join(WITHIN_S)
    status, answer, _ = answers[0]
    assert status == 201
    everything = answer["accepted"] == 21_000  # sent before the checkpoint after which the task is read again
    assert answer["stopped"] == "cancelled" or (answer["stopped"] == "" and everything)
    eventually(lambda: state(server, "cancelled")["state"] == "cancelled", WITHIN_S, "the task is cancelled")
