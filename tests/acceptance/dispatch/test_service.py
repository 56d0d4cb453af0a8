"""The whole service by its command line: workers, tiers, capacity, live view, ends of tasks, checks."""

import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from fairlane.settings import Settings
from tests.acceptance.conftest import CommandLine, command_line
from tests.integration.provider import Body, provider
from tests.integration.worker_crew import Crew, crew, eventually

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
pytestmark = pytest.mark.usefixtures("workers")


def test_the_workers_are_listed(fairlane: CommandLine) -> None:
    def listed() -> Any:
        return fairlane.data("worker", "list")

    eventually(lambda: [worker["state"] for worker in listed()] == ["serving"] * 2, 20, "both serve")
    first, second = sorted(listed(), key=lambda worker: str(worker["id"]))
    assert first["pid"] != second["pid"]
    assert (first["id"].startswith("w-1"), second["id"].startswith("w-2")) == (True, True)
    assert first["lanes"] > 0
    assert {"host", "version", "in_flight", "buffered", "rate", "sent", "uptime_s", "seen_s_ago"} <= first.keys()
    table = fairlane("worker", "list")
    assert (table.code, table.err) == (0, "")
    assert first["id"] in table.out


def test_the_view_is_complete_and_all_checks_pass(fairlane: CommandLine) -> None:
    eventually(lambda: fairlane.data("registry", "status")["grants"], 30, "the view grants")
    assert fairlane.data("registry", "status")["complete"] is True
    result = fairlane("provision")
    assert (result.code, result.out, result.err) == (0, "", "nothing to change\n")
    checks = fairlane.data("doctor")
    assert {check["level"] for check in checks} <= {"ok", "note", "warn"}
    message = " ".join(check["what"] for check in checks)
    for subject in ("Java", "Pulsar", "preciseDispatcherFlowControl", "namespaces", "clock", "Redis"):
        assert subject in message


def test_doctor_and_workers_name_the_servers_and_where_their_addresses_come_from(
    fairlane: CommandLine, module_settings: Settings, workers: Crew
) -> None:
    """Somebody else's servers on the usual ports looked like one's own."""
    message = " ".join(check["what"] for check in fairlane.data("doctor"))
    first = next(line for line in workers.log_of("w").splitlines() if "Pulsar" in line)
    pulsar, redis = module_settings.pulsar, module_settings.redis
    for address in (pulsar.url, pulsar.admin_url, redis.url):
        assert f"{address} (from the environment)" in message
        assert f"{address} (from " in first


def test_the_documented_metrics_are_served_and_no_task_is_named(fairlane: CommandLine) -> None:
    assert fairlane.submit("measured", 100, "--tier", "medium").code == 0
    assert fairlane("task", "wait", "measured", "--timeout", "30s").code == 0
    names = set(re.findall(r"^\| `(fairlane_\w+)`", (REFERENCE / "metrics.md").read_text(), re.MULTILINE))
    others = ("fairlane_estate_", "fairlane_api_")  # the guard's, and those of the HTTP API
    documented = {name for name in names if not name.startswith(others)}
    assert len(documented) > 15
    for worker in fairlane.data("worker", "list"):
        with urllib.request.urlopen(f"http://127.0.0.1:{worker['metrics_port']}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        assert documented == {name for name in re.findall(r"# TYPE (\w+) ", text) if not name.endswith("_created")}
        assert "measured" not in text


def test_a_task_as_json_has_the_documented_fields(fairlane: CommandLine) -> None:
    assert fairlane.submit("documented", 1).code == 0
    table = (REFERENCE / "task-fields.md").read_text().partition("| field | meaning |")[2].partition("\n\n")[0]
    documented = {
        name
        for line in table.splitlines()
        for name in re.findall(r"`(\w+)`", line.split("|")[1] if "|" in line else "")
    }
    assert fairlane.data("task", "wait", "documented", "--timeout", "30s").keys() == documented - {"message"}
    assert fairlane.data("task", "show", "documented").keys() == documented


def test_checks_that_fail_say_the_fix(fairlane: CommandLine) -> None:
    result = fairlane("doctor", "-o", "json", env={"FAIRLANE_PULSAR_TENANT": "nobody-made-this"})
    assert result.code == 1
    failed = [check for check in result.data if check["level"] == "fail"]
    assert failed
    assert all("nobody-made-this" in check["what"] for check in failed)
    assert all("fairlane provision" in check["fix"] for check in failed)


def in_full_swing(fairlane: CommandLine) -> bool:
    tiers, view = fairlane.data("tier", "show")["tiers"], fairlane.data("task", "show", "busy-high")
    high, low = tiers["high"], tiers["low"]
    result = (low["actual"], high["actual"], high["drain_s"], view["rate"], view["eta_s"])
    return all((number or 0) > 0 for number in result) and bool(high["actual"] > low["actual"])


def test_tiers_and_capacity_are_set_and_shown_with_what_is_used_of_them(fairlane: CommandLine) -> None:
    assert fairlane("capacity", "set", "200").code == 0
    assert fairlane("tier", "set", "high=5", "low=0.5").code == 0
    assert fairlane.submit("busy-high", 20_000, "--tier", "high").code == 0
    assert fairlane.submit("busy-low", 20_000, "--tier", "low").code == 0
    try:
        eventually(lambda: fairlane.data("capacity", "show")["rate"] > 100, 30, "the capacity is used")
        shown = fairlane.data("capacity", "show")
        assert shown["capacity"] == 200
        assert shown["used"] == pytest.approx(shown["rate"] / 200, abs=0.001)
        tiers = fairlane.data("tier", "show")["tiers"]
        assert {name: tier["weight"] for name, tier in tiers.items()} == {"high": 5, "medium": 3, "low": 0.5}
        assert tiers["high"]["wanted"] == pytest.approx(10 / 11)
        assert (tiers["medium"]["wanted"], tiers["medium"]["backlog"]) == (None, 0)
        eventually(lambda: in_full_swing(fairlane), 30, "both tiers are sent, and it can be told for how long")
        looks = fairlane("top", "--count", "2", "--every", "0.2")
        assert (looks.code, len(looks.out.splitlines())) == (0, 3)
        assert "2 tasks" in looks.out
        assert "channel null sends nothing" in looks.out
    finally:
        assert fairlane("task", "cancel", "busy-high", "busy-low").code == 0
        assert fairlane("capacity", "set", "0").code == 0
        assert fairlane("tier", "set", "high=6", "medium=3", "low=1").code == 0
    result = fairlane("task", "wait", "busy-low", "--timeout", "30s", "-o", "json")
    assert result.code == 1
    assert (result.data["state"], result.data["targets"]["pending"]) == ("cancelled", 0)
    assert result.data["targets"]["sent"] + result.data["targets"]["cancelled"] == 20_000


def test_failures_are_listed_with_target_and_reason(
    fairlane: CommandLine, module_settings: Settings, workers: Crew
) -> None:
    """By a worker that joins with an http channel; the others, which have none, leave such tasks to it."""
    from aiohttp import web

    async def picky(body: Body) -> web.Response:
        return web.json_response({"failed": [{"target": t, "reason": "gone"} for t in body["targets"] if t[-1] == "7"]})

    with provider() as there:
        there.answers["shop"] = picky
        with crew(module_settings, workers.folder.parent / "more", "h", config=f'[http]\nurl = "{there.url}"\n'):
            workers.leave("w")
            assert fairlane.submit("picky", 20, "--channel", "http", "--chunk", "4").code == 0
            view = fairlane.data("task", "wait", "picky", "--timeout", "30s")
            assert (view["state"], view["targets"]["sent"], view["targets"]["failed"]) == ("completed", 18, 2)
            rows = fairlane.data("task", "failures", "picky")
            assert sorted((row["target"], row["outcome"], row["reason"], row["attempt"]) for row in rows) == [
                ("picky-000007", "failed", "gone", 1),
                ("picky-000017", "failed", "gone", 1),
            ]
            table = fairlane("task", "failures", "picky")
            assert (table.code, table.err) == (0, "")
            assert re.search(r"picky-000007 +failed +gone", table.out)
            assert [worker["id"][0] for worker in fairlane.data("worker", "list")] == ["h"]
            everybody = {(worker["id"][0], worker["state"]) for worker in fairlane.data("worker", "list", "--all")}
            assert everybody == {("h", "serving"), ("w", "stopped")}


def test_provisioning_says_what_it_changed(module_settings: Settings, fairlane: CommandLine) -> None:
    from backends.pulsar.provision import deprovision

    pulsar = module_settings.pulsar.model_copy(update={"tenant": f"{module_settings.pulsar.tenant}-new"})
    other = command_line(module_settings.model_copy(update={"pulsar": pulsar}), fairlane.folder)
    changed = other.data("provision")["changed"]
    assert any(pulsar.tenant in line for line in changed)
    assert other.data("provision")["changed"] == []
    deprovision(pulsar)
