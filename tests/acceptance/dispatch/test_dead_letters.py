"""Dead letters on real servers: listed, shown, sent again once by two operators and after kills, and dropped.

Also the feed of invalid targets.
"""

import csv
import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiohttp import web

from dispatcher.model.task import PushTask, Target
from fairlane.settings import Settings
from producers.client import PushClient
from producers.outcomes.record import TargetFilter
from tests.acceptance.conftest import CommandLine
from tests.integration.provider import Body, Provider, provider
from tests.integration.worker_crew import crew, eventually

MANY = 3_000
KILLS = 6


@pytest.fixture(scope="module")
def service(module_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """A worker whose provider refuses the targets of app `shop` that end in 7, and calls those in 3 invalid."""

    async def picky(body: Body) -> web.Response:
        reasons: dict[str, dict[str, Any]] = {"3": {"reason": "gone", "invalid": True}, "7": {"reason": "HTTP 451"}}
        failed = [{"target": target, **reasons[target[-1]]} for target in body["targets"] if target[-1] in reasons]
        return web.json_response({"failed": failed})

    async def nothing(body: Body) -> web.Response:
        return web.json_response({"failed": [{"target": target, "reason": "no route"} for target in body["targets"]]})

    with provider() as there:
        there.answers |= {"shop": picky, "news": nothing}
        config = f'[http]\nurl = "{there.url}"\n'
        with crew(module_settings, tmp_path_factory.mktemp("crew"), "h", config=config):
            yield there


@pytest.fixture(scope="module")
def client(module_settings: Settings) -> Iterator[PushClient]:
    with PushClient.connect(module_settings) as made:
        yield made


def push(task: str, app: str = "shop", **fields: Any) -> PushTask:
    return PushTask(id=task, app=app, tier="high", channel="http", message={"body": f"of {task}"}, **fields)


def replays(service: Provider, task: str) -> Counter[str]:
    """Return how often each target of a task was posted by its replays."""
    bodies = [post.body for post in service.posts if post.body["task"].startswith(f"{task}.replay-")]
    return Counter(target for body in bodies for target in body["targets"])


def test_letters_are_listed_shown_and_sent_again_with_their_variables(
    fairlane: CommandLine, client: PushClient, service: Provider
) -> None:
    targets = [Target(f"sale-{number:04d}", {"n": number}) for number in range(40)]
    handle = client.submit(push("sale", chunk=7), targets)
    assert handle.wait(60).targets.failed == 4
    failures = Counter(row["outcome"] for row in fairlane.data("task", "failures", "sale"))
    assert failures == {"failed": 4, "invalid": 4}
    (group,) = fairlane.data("dead-letters", "list", "--task", "sale")
    assert (group["app"], group["count"], group["reason"], group["state"]) == ("shop", 4, "HTTP 451", "open")
    rows = fairlane.data("dead-letters", "show", "--app", "shop", "--error", "http 451", "--since", "1h")
    assert sorted((row["target"], row["variables"]) for row in rows) == [
        (f"sale-{number:04d}", {"n": number}) for number in (7, 17, 27, 37)
    ]
    assert all(0 < row["first_call_ms"] <= row["at_ms"] for row in rows)
    assert fairlane.data("dead-letters", "list", "--error", "no such reason") == []

    async def accepts(_: Body) -> web.Response:
        return web.Response()

    picky, service.answers["shop"] = service.answers["shop"], accepts
    (result,) = fairlane.data("dead-letters", "replay", "--task", "sale", "--yes")
    assert (result["task"], result["targets"], result["state"]) == ("sale", 4, "replayed")
    view = client.task(result["replay"]).wait(60)
    assert (view.targets.sent, view.app, view.channel, view.tier) == (4, "shop", "http", "high")
    posts = [post.body for post in service.posts_of(result["replay"])]
    assert {name: value for post in posts for name, value in zip(post["targets"], post["variables"], strict=True)} == {
        f"sale-{number:04d}": {"n": number} for number in (7, 17, 27, 37)
    }
    assert {json.dumps(post["message"]) for post in posts} == {'{"body": "of sale"}'}
    again = fairlane("dead-letters", "replay", "--task", "sale", "--yes")
    assert (again.code, set(replays(service, "sale").values())) == (0, {1})
    (group,) = fairlane.data("dead-letters", "list", "--task", "sale", "--state", "all")
    assert (group["state"], group["replay"]) == ("replayed", result["replay"])
    service.answers["shop"] = picky


def test_two_operators_at_once_send_each_letter_once(
    fairlane: CommandLine, client: PushClient, service: Provider
) -> None:
    handle = client.submit(push("pair", app="news"), [f"pair-{number:04d}" for number in range(300)])
    assert handle.wait(60).targets.failed == 300
    command = ("dead-letters", "replay", "--task", "pair", "--yes", "-o", "json")
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda limit: fairlane_of(fairlane)(*command, *limit), ((), (), ("--limit", "100"))))
    assert {result.code for result in results} == {0}, results
    fairlane("dead-letters", "replay", "--task", "pair", "--yes")
    made = {row["replay"] for row in fairlane.data("dead-letters", "list", "--task", "pair", "--state", "all")}
    assert "" not in made
    for task in made:
        client.task(task).wait(60)
    posted = replays(service, "pair")
    assert (len(posted), set(posted.values())) == (300, {1})


def fairlane_of(command: CommandLine) -> CommandLine:
    """A command line whose commands are processes of their own, so that they run at the same time."""
    return CommandLine(command.env, command.folder)


def test_an_operator_who_is_killed_at_any_time_is_repaired_by_repeating_the_command(
    fairlane: CommandLine, client: PushClient, service: Provider
) -> None:
    handle = client.submit(push("many", app="news", chunk=10), [f"many-{number:05d}" for number in range(MANY)])
    assert handle.wait(60).targets.failed == MANY
    for number in range(KILLS):
        process = fairlane.begin("dead-letters", "replay", "--task", "many", "--yes")
        with process:
            time.sleep(0.5 + 0.15 * number)
            process.kill()
    assert fairlane("dead-letters", "replay", "--task", "many", "--yes").code == 0
    (group,) = fairlane.data("dead-letters", "list", "--task", "many", "--state", "all")
    assert (group["state"], group["count"]) == ("replayed", MANY)
    client.task(group["replay"]).wait(60)
    posted = replays(service, "many")
    assert (len(posted), set(posted.values())) == (MANY, {1})


def test_letters_that_are_dropped_are_not_listed_or_sent_again(fairlane: CommandLine, client: PushClient) -> None:
    handle = client.submit(push("old", app="news"), ["old-1", "old-2"])
    assert handle.wait(60).targets.failed == 2
    assert fairlane.data("dead-letters", "drop", "--task", "old", "--limit", "1", "--yes") == {"dropped": 1}
    assert fairlane.data("dead-letters", "drop", "--task", "old", "--yes") == {"dropped": 1}
    assert fairlane.data("dead-letters", "list", "--task", "old") == []
    assert fairlane.data("dead-letters", "list", "--task", "old", "--state", "dropped")[0]["count"] == 2
    assert fairlane.data("dead-letters", "replay", "--task", "old", "--yes") == []
    assert fairlane.data("dead-letters", "drop", "--task", "old", "--yes") == {"dropped": 0}
    assert len(list(handle.failures())) == 2, "what became of the targets is still known"


def test_invalid_targets_are_exported_each_once(fairlane: CommandLine, client: PushClient) -> None:
    begun_ms = time.time_ns() // 1_000_000
    targets = [f"gone-{number:04d}" for number in range(50)]
    for task in ("gone-1", "gone-2"):
        assert client.submit(push(task), targets).wait(60).targets.invalid == 5
    dead = {f"gone-{number:04d}" for number in (3, 13, 23, 33, 43)}
    found = [one for one in client.invalid_targets(TargetFilter(app="shop", channel="http")) if one.target in dead]
    assert {one.target for one in found} == dead
    assert len(found) == len(dead)
    assert {(one.reason, one.task) for one in found} == {("gone", "gone-2")}
    assert all(one.died_ms == one.at_ms >= begun_ms for one in found)
    everything = [one.target for one in client.invalid_targets(repeats=True) if one.target in dead]
    assert Counter(everything) == dict.fromkeys(dead, 2)
    exported = fairlane("invalid", "export", "--app", "shop", "--since", "1h", "--out", "gone.csv")
    assert exported.code == 0, exported
    with (fairlane.folder / "gone.csv").open(newline="") as rows:
        assert dead <= {row["target"] for row in csv.DictReader(rows)}
    lines = fairlane("invalid", "export", "--channel", "http")
    assert dead <= {json.loads(line)["target"] for line in lines.out.splitlines()}
    assert fairlane("invalid", "export", "--app", "nobody").out == ""
    assert fairlane("invalid", "export", "--until", "1h").out == ""


def test_messages_that_were_no_envelopes_are_shown_and_dropped_and_doctor_follows(
    fairlane: CommandLine, module_settings: Settings, service: Provider
) -> None:
    from backends.pulsar.client import close, connect, topics

    assert service.url
    client, names = connect(module_settings.pulsar), topics(module_settings.pulsar)
    producer = client.create_producer(names.shared_lane(0))
    for number in range(3):
        producer.send(b"nonsense %d" % number)
    producer.close()
    close(client)

    def warned() -> bool:
        return any("3 dead letters without a task" in check["what"] for check in fairlane.data("doctor"))

    eventually(warned, 30, "doctor warns")
    rows = fairlane.data("dead-letters", "show", "--without-task")
    assert [(row["outcome"], row["lane"]) for row in rows] == [("message", names.shared_lane(0))] * 3
    assert fairlane.data("dead-letters", "drop", "--without-task", "--yes") == {"dropped": 3}
    assert not any("without a task:" in check["what"] for check in fairlane.data("doctor"))
