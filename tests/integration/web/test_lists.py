"""Lists and events of `fairlane api` over real servers: what happens in the service is seen, by whom it concerns."""

import csv
import http.client
import io
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.web.api_server import ApiServer, api_server, new_key
from tests.integration.worker_crew import Crew, eventually

TASK = {"channel": "log", "message": "m", "targets": ["a", "b"], "first": 1}


@pytest.fixture(scope="module")
def server(module_settings: Settings, members: Crew, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    members.await_view()
    with api_server(module_settings, tmp_path_factory.mktemp("api"), "--processes", "2") as here:
        here.key = new_key(module_settings, "--scopes", "operator")
        eventually(lambda: here.ask("GET", "/readyz")[0] == 200, 30, "it is ready")
        yield here


def submit(server: ApiServer, id_: str, app: str = "shop", **fields: Any) -> None:
    status, answer = server.ask("POST", "/v1/tasks", TASK | {"id": id_, "app": app} | fields)
    assert status == 201, answer


def ids(server: ApiServer, query: str) -> list[str]:
    status, answer = server.ask("GET", f"/v1/tasks?{query}")
    assert status == 200, answer
    return [row["id"] for row in answer["rows"]]


def await_list(server: ApiServer, query: str, names: list[str]) -> None:
    """Wait until all processes list these tasks: each request is a connection of its own, to any of them."""
    eventually(lambda: all(ids(server, query) == names for _ in range(20)), 60, f"all processes list {names}")


def is_known(holder: ApiServer) -> bool:
    """Return whether all processes know the key."""
    return all(holder.ask("GET", "/v1/tasks")[0] == 200 for _ in range(20))


@contextmanager
def stream(server: ApiServer, path: str, key: str = "") -> Iterator[http.client.HTTPResponse]:
    with closing(http.client.HTTPConnection(*server.address, timeout=60)) as connection:
        connection.request("GET", path, headers={"Authorization": f"Bearer {key or server.key}"})
        response = connection.getresponse()
        assert response.status == 200
        yield response


def heard(response: http.client.HTTPResponse, id_: str, **state: Any) -> str:
    """Return the kind of the next event that says this of a task."""
    kind = ""
    for line in response:
        name, _, value = line.decode().strip().partition(": ")
        kind = value if name == "event" else kind
        if name == "data" and (data := json.loads(value)).get("id") == id_ and data.items() >= state.items():
            return kind
    raise AssertionError("the stream has ended")


def test_live_tasks_are_filtered_sorted_and_paged_in_every_process(server: ApiServer) -> None:
    names = [f"paged-{number}" for number in range(7)]
    for number, name in enumerate(names):
        submit(server, name, app="pages", tier="high" if number % 2 else "low")
    await_list(server, "app=pages&sort=id", names)
    assert ids(server, "app=pages&tier=high&sort=-id") == names[5::-2]
    assert ids(server, "q=aged-3&state=paused") == ["paged-3"]
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:  # each request is a connection of its own, so to any process
        _, page = server.ask("GET", f"/v1/tasks?app=pages&sort=-created&limit=2{cursor and '&cursor=' + cursor}")
        found += [row["id"] for row in page["rows"]]
        cursor = page["cursor"]
    assert sorted(found) == names
    assert page["complete"]
    assert page["counts"]["app"]["pages"] == 7


def test_ended_tasks_are_listed_by_their_state(server: ApiServer) -> None:
    submit(server, "ends", app="ended", first=None)
    await_list(server, "app=ended&state=completed", ["ends"])
    await_list(server, "app=ended", [])


def test_list_comes_as_csv(server: ApiServer) -> None:
    submit(server, "table", app="tables")
    await_list(server, "app=tables", ["table"])
    with closing(http.client.HTTPConnection(*server.address, timeout=60)) as connection:
        headers = {"Authorization": f"Bearer {server.key}", "Accept": "text/csv"}
        connection.request("GET", "/v1/tasks?app=tables", headers=headers)
        (row,) = csv.DictReader(io.StringIO(connection.getresponse().read().decode(), newline=""))
    assert (row["id"], row["targets.total"], row["app"]) == ("table", "2", "tables")


def test_change_and_end_of_a_task_are_heard_by_all_who_follow_it(server: ApiServer) -> None:
    submit(server, "followed", app="heard")
    with stream(server, "/v1/tasks/followed/events") as one, stream(server, "/v1/events?app=heard") as filtered:
        heard(one, "followed")
        server.ask("PATCH", "/v1/tasks/followed", {"paused": False})
        heard(one, "followed", state="running")
        assert heard(one, "followed", state="completed") == "end"
        assert heard(filtered, "followed", state="completed") == "end"
        assert one.read() == b"\n"  # the stream has ended


def test_stream_of_a_key_ends_when_it_is_revoked(server: ApiServer, push_client: PushClient) -> None:
    new = push_client.access.create("shop", ["read"])
    submit(server, "kept")
    eventually(lambda: is_known(ApiServer(server.process, server.log, new.token)), 30, "the key is known")
    with stream(server, "/v1/tasks/~kept/events", new.token) as response:
        heard(response, "~kept")
        push_client.access.revoke(new.id)
        response.read()  # until the server ends it


def test_app_follows_and_lists_its_own_tasks_alone(server: ApiServer, push_client: PushClient) -> None:
    push_client.access.set_policy("mine", {"channels": ["log"]})
    key = push_client.access.create("mine", ["read", "submit"]).token
    mine = ApiServer(server.process, server.log, key)
    eventually(lambda: is_known(mine), 30, "the key is known")
    with stream(mine, "/v1/events") as response:
        submit(server, "foreign", app="other")
        assert mine.ask("POST", "/v1/tasks", TASK | {"id": "own"})[0] == 201
        for line in response:
            if line.startswith(b"data: "):
                assert json.loads(line.removeprefix(b"data: "))["id"] == "own"
                break
    await_list(mine, "sort=id", ["own"])
    _, page = mine.ask("GET", "/v1/tasks")
    assert page["counts"]["app"] == {"mine": 1}
    assert page["total"] == 1
    for query in ("app=other", "app="):
        assert mine.ask("GET", f"/v1/tasks?{query}")[0] == 404
        assert mine.ask("GET", f"/v1/events?{query}")[0] == 404
    assert mine.ask("GET", "/v1/tasks/~foreign/events")[0] == 404
