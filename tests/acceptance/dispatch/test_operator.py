"""Caps, pauses, limits, what-if and signals by the command line, with workers that send on the null channel."""

import re
import urllib.request
from collections.abc import Iterator

import pytest

from fairlane import Changes, PushClient, Settings, TaskFilter
from tests.acceptance.conftest import CommandLine
from tests.integration.worker_crew import Crew, eventually

SIGNALS_S = 10.0
"""How soon signals are right after a change."""


@pytest.fixture(scope="module")
def client(fairlane: CommandLine, workers: Crew, module_settings: Settings) -> Iterator[PushClient]:
    """For tidying up only; workers are there, and send."""
    eventually(lambda: fairlane.data("registry", "status")["grants"], 60, "the view grants")
    with PushClient.connect(module_settings) as client:
        yield client


@pytest.fixture(autouse=True)
def nothing_set(client: PushClient) -> Iterator[None]:
    """Each test leaves no backlog and no cap behind."""
    yield
    for state in ("scheduled", "running", "paused"):
        client.set_many(TaskFilter(state=state), Changes(cancelled=True))
    client.set_capacity(0)
    client.set_sharing("tasks")
    client.cap_channel("null", 0)
    client.resume_channel("null")
    client.cap_app("shop", 0)
    client.weigh_app("shop", 1)
    client.limit_app("shop", tasks=0, targets=0)
    eventually(lambda: not client.live_tasks(), 60, "all tasks have ended")


def metric(fairlane: CommandLine, name: str) -> float:
    """Return the value of a tier's gauge, as any worker serves it."""
    worker = fairlane.data("worker", "list")[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{worker['metrics_port']}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    [value] = re.findall(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(value)


def test_caps_weights_and_pauses_are_set_and_shown(fairlane: CommandLine) -> None:
    for change, message in (
        (("channel", "cap", "null", "500:20"), "at most 500 targets/s, 20 at once"),
        (("channel", "pause", "null"), "paused"),
        (("app", "cap", "shop", "300"), "at most 300 targets/s"),
        (("app", "cap", "shop", "40", "--channel", "null"), "on channel null"),
        (("app", "weight", "shop", "2.5"), "weight=2.5"),
        (("app", "limit", "shop", "--targets", "none"), "targets=none"),
        (("app", "limit", "shop", "--tasks", "7"), "tasks=7"),
        (("tier", "sharing", "apps"), "shared by the weights of its apps"),
        (("capacity", "set", "900:30"), "30 at once"),
    ):
        result = fairlane(*change)
        assert (result.code, result.out) == (0, "")
        assert message in result.err
    channel = fairlane.data("channel", "show", "null")
    assert (channel["cap"], channel["cap_burst"], channel["paused"]) == (500, 20, True)
    app = fairlane.data("app", "show", "shop")
    assert (app["cap"], app["channel_caps"], app["weight"], app["task_limit"]) == (300, {"null": 40}, 2.5, 7)
    assert (fairlane.data("capacity", "show")["capacity_burst"], fairlane.data("channel", "list")) == (30, [channel])
    assert "shop" in fairlane("app", "list").out
    assert fairlane("app", "cap", "shop", "none", "--channel", "null").code == 0
    assert fairlane.data("app", "show", "shop")["channel_caps"] == {}
    assert fairlane("channel", "show", "nobody").code == 3


@pytest.mark.parametrize(
    "words",
    [
        ("channel", "cap", "null", "fast"), ("channel", "cap", "a/b", "5"), ("channel", "cap", "null", "0:5"),
        ("app", "cap", "shop", "1:2:3"), ("app", "weight", "shop", "0"), ("app", "limit", "shop"),
        ("app", "limit", "shop", "--tasks", "many"), ("tier", "sharing", "teams"),
        ("capacity", "set", "0:5"), ("capacity", "set", "many"), ("capacity", "set", "--", "-1"),
        ("tier", "set", "high=nan"),
        ("channel", "pause", "null", "--for", "10m"), ("channel", "pause", "null", "--reason", "why"),
        ("channel", "resume", "null", "--confirm-dead"), ("channel", "pause", "null", "--app", "a/b"),
        ("channel", "pause", "null", "--app", "shop", "--for", "31d"),
        ("channel", "pause", "null", "--app", "shop", "--for", "soon"),
    ],
)  # fmt: skip
def test_values_that_make_no_sense(fairlane: CommandLine, words: tuple[str, ...]) -> None:
    result = fairlane(*words)
    assert (result.code, result.out) == (2, ""), result
    assert "internal error" not in result.err


def test_a_submission_over_a_limit_is_refused_and_leaves_nothing(fairlane: CommandLine) -> None:
    assert fairlane("channel", "pause", "null").code == 0
    assert fairlane("app", "limit", "shop", "--tasks", "2", "--targets", "1000").code == 0
    assert fairlane.submit("first", 400, "--expected", "400").code == 0
    result = fairlane.submit("large", 700, "--expected", "700")
    assert (result.code, result.out) == (5, "")
    assert "limit of 1,000 targets" in result.err
    assert "fairlane app limit shop --targets N" in result.err
    assert fairlane.submit("second", 100, "--expected", "100").code == 0
    result = fairlane.submit("third", 1)
    assert (result.code, result.out) == (5, "")
    assert "2 live tasks" in result.err
    assert fairlane("task", "show", "third").code == 3
    assert fairlane.submit("elsewhere", 1, app="news").code == 0
    assert fairlane.submit("first", 400, "--expected", "400").code == 0
    app = fairlane.data("app", "show", "shop")
    assert (app["tasks"], app["queued"]) == (2, 500)
    assert fairlane("task", "cancel", "first").code == 0
    eventually(lambda: fairlane.submit("third", 1).code == 0, 60, "the cancelled task has made room")


def test_a_paused_channel_sends_nothing_until_it_is_resumed(fairlane: CommandLine) -> None:
    assert fairlane("channel", "pause", "null").code == 0
    assert fairlane.submit("waits", 300).code == 0
    assert fairlane("task", "wait", "waits", "--timeout", "1s").code == 4
    assert fairlane.data("task", "show", "waits")["targets"]["sent"] == 0
    assert "waits: channel null is paused (`fairlane channel resume null`)" in fairlane("task", "show", "waits").err
    assert "channel null is paused" in fairlane("task", "list").err
    assert fairlane("task", "pause", "waits").code == 0
    assert fairlane("task", "resume", "waits").code == 0
    found = fairlane.data("task", "why", "waits")
    assert (found["now"], {part["cause"] for part in found["parts"]} >= {"paused", "channel_paused"}) == (
        "channel_paused",
        True,
    )
    assert sum(part["seconds"] for part in found["parts"]) == pytest.approx(found["age_s"])
    assert "its channel was paused" in fairlane("task", "why", "waits").out
    assert fairlane("channel", "resume", "null").code == 0
    assert fairlane("task", "wait", "waits", "--timeout", "30s").code == 0
    assert fairlane("task", "why", "nobody").code == 3


def test_a_paused_app_is_shown_with_its_reason_until_it_is_resumed(fairlane: CommandLine) -> None:
    pause = ("channel", "pause", "null", "--app", "shop")
    result = fairlane(*pause, "--for", "10m", "--reason", "wrong key")
    assert (result.code, result.out, result.err) == (0, "", "app shop paused on channel null for 10 m 00 s\n")
    assert fairlane.submit("app-waits", 300).code == 0
    assert fairlane.submit("app-goes-on", 300, app="bank").code == 0
    assert fairlane("task", "wait", "app-goes-on", "--timeout", "30s").code == 0
    found = fairlane.data("channel", "show", "null")["paused_apps"]["shop"]
    assert (found["kind"], found["reason"], found["until_ms"] - found["since_ms"]) == ("hand", "wrong key", 600_000)
    assert "shop=hand" in fairlane("channel", "list").out
    waits = "app shop is paused on channel null: hand, wrong key (`fairlane channel resume null --app shop`)"
    assert f"app-waits waits: {waits}" in fairlane("task", "show", "app-waits").err
    assert fairlane.data("task", "why", "app-waits")["now"] == "flow_paused"
    assert "its app was paused on its channel" in fairlane("task", "why", "app-waits").out
    assert (
        "app-waits waits now: app shop is paused on channel null (hand, wrong key)"
        in fairlane("task", "why", "app-waits").err
    )
    assert fairlane.data("task", "show", "app-waits")["targets"]["sent"] == 0
    assert fairlane("channel", "resume", "null", "--app", "shop").code == 0
    assert fairlane("task", "wait", "app-waits", "--timeout", "30s").code == 0


def test_why_names_what_holds_a_task_back_as_the_largest_part(fairlane: CommandLine) -> None:
    assert fairlane("capacity", "set", "100").code == 0
    assert fairlane("app", "cap", "shop", "10").code == 0
    expected = {"own-cap": "task_cap", "app-cap": "cap:app/shop", "low-tier": "tier_share"}
    for task, app, options in (
        ("own-cap", "news", ("--cap", "10")), ("app-cap", "shop", ()), ("low-tier", "club", ("--tier", "low")),
        ("high-tier", "club", ("--tier", "high")),
    ):  # fmt: skip
        assert fairlane.submit(task, 10_000, *options, app=app).code == 0

    def largest(task: str) -> str:
        """It is more than half of the task's age."""
        part = fairlane.data("task", "why", task)["parts"][0]
        return str(part["cause"]) if part["part"] > 0.5 else ""

    eventually(lambda: {task: largest(task) for task in expected} == expected, 60, "each is held back by its own")
    result = fairlane("task", "why", "app-cap")
    assert "the cap of app shop held it back" in result.out
    assert "fairlane app cap shop RATE" in result.out
    assert "app-cap is running" in result.err


def test_a_dry_run_says_who_is_done_when_and_changes_nothing(fairlane: CommandLine) -> None:
    assert fairlane("capacity", "set", "200").code == 0
    assert fairlane.submit("up", 20_000, "--tier", "high").code == 0
    assert fairlane.submit("down", 20_000, "--tier", "medium", app="news").code == 0
    for change in (
        ("capacity", "set", "400"), ("tier", "set", "high=1"), ("channel", "cap", "null", "100"),
        ("app", "cap", "shop", "50"), ("channel", "pause", "null"),
    ):  # fmt: skip
        found = fairlane.data(*change, "--dry-run")
        effects = {task["id"]: task for task in found["tasks"]}
        assert "up" in effects, (change, found)
        assert found["affected"] + found["unaffected"] == 2
        assert effects["up"].keys() == {"id", "app", "tier", "pending", "eta_s", "eta_after_s"}
    half = fairlane.data("capacity", "set", "400", "--dry-run")["tasks"]
    for task in half:
        assert task["eta_after_s"] == pytest.approx(task["eta_s"] / 2, rel=0.05)
    never = fairlane.data("channel", "pause", "null", "--dry-run")["tasks"]
    assert [task["eta_after_s"] for task in never] == [None, None]
    result = fairlane("app", "weight", "shop", "3", "--dry-run")
    assert (result.code, "0 of 2 live tasks" in result.err) == (0, True)
    table = fairlane("capacity", "set", "400", "--dry-run", "--limit", "1")
    assert "and 1 more" in table.out
    assert fairlane.data("capacity", "show")["capacity"] == 200
    assert fairlane.data("channel", "show", "null")["cap"] == 0


@pytest.mark.alone  # rates of three seconds, right within ten: beside others it measures them
def test_signals_and_metrics_are_right_soon_after_a_change(fairlane: CommandLine) -> None:
    assert fairlane("capacity", "set", "600").code == 0
    assert fairlane.submit("much-up", 60_000, "--tier", "high").code == 0
    assert fairlane.submit("much-down", 60_000, "--tier", "low").code == 0

    def right(capacity: int, high: float) -> bool:
        found = fairlane.data("signals")
        tier = found["tiers"]["high"]
        expected = tier["backlog"] / (capacity * high)
        shown = metric(fairlane, 'fairlane_drain_seconds{tier="high"}')
        near = [abs(value / expected - 1) < 0.12 for value in (tier["drain_s"] or 0, shown)]
        return all(near) and found["limited_by"] == "capacity"

    eventually(lambda: right(600, 6 / 7), 40, "both tiers are sent at the capacity")
    spare = 'fairlane_spare_targets_per_second{tier="medium"}'
    eventually(lambda: metric(fairlane, spare) == pytest.approx(180, abs=10), SIGNALS_S, "what the third tier leaves")

    def shared() -> bool:
        low = fairlane.data("signals")["tiers"]["low"]
        return bool(low["actual"] == pytest.approx(1 / 7, abs=0.03) and low["arrival_rate"] < 60)

    eventually(shared, SIGNALS_S, "the other tier has its part, and nothing comes any more")
    assert fairlane("capacity", "set", "1200").code == 0
    eventually(lambda: right(1_200, 6 / 7), SIGNALS_S, "twice the capacity, half the time")
    assert fairlane("tier", "set", "high=2", "low=2").code == 0
    try:
        eventually(lambda: right(1_200, 1 / 2), SIGNALS_S, "other shares, other times")
    finally:
        assert fairlane("tier", "set", "high=6", "low=1").code == 0
    assert fairlane("channel", "pause", "null").code == 0
    eventually(lambda: fairlane.data("signals")["tiers"]["high"]["backlog"] == 0, SIGNALS_S, "nothing may be sent")
    eventually(lambda: metric(fairlane, 'fairlane_backlog_targets{tier="high"}') == 0, SIGNALS_S, "nor by the metrics")


def test_tier_show_states_the_longest_wait(fairlane: CommandLine) -> None:
    assert fairlane("capacity", "set", "200").code == 0
    assert fairlane.submit("slow-up", 9_000, "--tier", "high").code == 0
    assert fairlane.submit("slow-down", 9_000, "--tier", "low").code == 0
    tiers = fairlane.data("tier", "show")["tiers"]
    assert tiers["high"]["longest_wait_s"] == pytest.approx(0.25 + (5 * 7 / 6 + 5) / 200, abs=0.001)
    assert tiers["low"]["longest_wait_s"] == pytest.approx(0.25 + (5 * 7 + 5) / 200, abs=0.001)
    assert (tiers["low"]["turns"], tiers["low"]["largest_chunk"]) == (1, 5)
    assert "longest wait" in fairlane("tier", "show").out
