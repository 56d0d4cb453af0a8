"""Rules from files and live, shares, quotas, and what a fake knows afterwards."""

import asyncio
import json
import ssl
import urllib.request
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dispatcher.channels import apns_answers, fcm_answers
from dispatcher.model.errors import InvalidInput
from lab.fake.accounts import Accounts, Rates
from lab.fake.messages import ClientFacts, Request
from lab.fake.rules import FakeRules, load_rules, read_rules
from lab.fake.site import KEPT_BYTES, KEPT_PAYLOADS, Choice
from tests.unit.lab.fake.playing import FCM_PATH, Playing, fcm, fcm_target

DEAD = {"status": 404, "code": "UNREGISTERED"}
DOWN = {"status": 503}


# ---------------------------------------------------------------- rules
@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"latency": 3}, "unknown field `latency`"),
        ({"latency_ms": [9, 3]}, "latency_ms has its minimum above its maximum"),
        ({"answers": [{"status": 404, "share": 1.5}]}, "answers\\[0\\].share"),
        ({"answers": [DEAD, {"status": 418}]}, "answers\\[1\\] is no answer of this provider: 418"),
        ({"goaway": {}}, "after"),
        ([], "Expected `object`"),
    ],
)
def test_wrong_rules_name_their_field(values: Any, cause: str) -> None:
    with pytest.raises(InvalidInput, match=cause):
        read_rules(values, fcm_answers.TABLE)


def test_rules_come_from_toml_and_json(tmp_path: Path) -> None:
    toml, document = tmp_path / "rules.toml", tmp_path / "rules.json"
    toml.write_text('latency_ms = [1, 2.5]\n[[answers]]\nstatus = 410\ncode = "ExpiredToken"\nshare = 0.5\n')
    document.write_text('{"latency_ms": [1, 2.5], "answers": [{"status": 410, "code": "ExpiredToken", "share": 0.5}]}')
    assert load_rules(toml, apns_answers.TABLE) == load_rules(document, apns_answers.TABLE)
    toml.write_text("[[answers")
    document.write_text("{")
    for file in (toml, document, tmp_path / "none.toml"):
        with pytest.raises(InvalidInput, match=file.name):
            load_rules(file, apns_answers.TABLE)


# ---------------------------------------------------------------- choice
def chosen(rules: dict[str, Any], targets: list[str], seed: int = 1) -> list[int]:
    choice = Choice(read_rules(rules, fcm_answers.TABLE), fcm_answers.TABLE, Random(seed), seed)
    found = [choice.answer_for(target) for target in targets]
    return [200 if rule is None else rule.status for rule in found]


def test_shares_are_kept_and_the_same_seed_gives_the_same_answers() -> None:
    rules = {"answers": [{**DEAD, "share": 0.1}, {**DOWN, "share": 0.2}, {"status": 429, "share": 0.3}]}
    targets = [fcm_target(number) for number in range(20_000)]
    counts = Counter(chosen(rules, targets))
    assert abs(counts[404] / 20_000 - 0.1) < 0.01
    assert abs(counts[503] / 20_000 - 0.9 * 0.2) < 0.01
    assert abs(counts[429] / 20_000 - 0.9 * 0.3) < 0.01
    assert chosen(rules, targets[:500]) == chosen(rules, targets[:500])
    assert chosen(rules, targets[:500]) != chosen(rules, targets[:500], seed=2)


def test_a_dead_target_stays_dead() -> None:
    targets = [fcm_target(number) for number in range(300)]
    statuses = chosen({"answers": [{**DEAD, "share": 0.5}]}, targets * 2)
    assert statuses[:300] == statuses[300:]
    assert set(statuses) == {200, 404}


def test_rules_for_some_targets_and_for_some_times() -> None:
    rules = {"answers": [{**DOWN, "times": 2}, {"status": 500, "targets": "bad-"}]}
    assert chosen(rules, ["a", "b", "c", "bad-1", "bad-2"]) == [503, 503, 200, 500, 500]


# ---------------------------------------------------------------- accounts
def test_accounts_know_never_once_and_more() -> None:
    accounts = Accounts(0.0)
    for target in ("a", "b", "b", "c", "c", "c"):
        accounts.accept(target, "id" if target == "b" else "")
    assert accounts.judge(["a", "b", "c", "d"]) == {"never": ["d"], "once": 1, "more": {"b": 2, "c": 3}}
    summary = accounts.summary()
    assert summary["targets"] == {"once": 1, "twice": 1, "more": 1}
    assert (summary["accepted"], summary["messages_repeated"]) == (6, 1)


def test_peaks_are_those_of_any_window() -> None:
    rates = Rates(0.0)
    for at in (0.95, 0.99, 1.05, 1.5, 70.0):
        rates.count(at)
    assert (rates.peak(1), rates.peak(60)) == (4, 4)
    assert Rates(0.0).peak(1) == 0


def test_an_early_request_is_counted_once() -> None:
    accounts = Accounts(0.0)
    accounts.put_off("a", 10.0)
    for now_s in (9.0, 9.5, 11.0):
        accounts.ask("a", now_s)
    assert accounts.early == 1
    accounts.put_off("a", 20.0)
    accounts.ask("a", 21.0)
    assert accounts.early == 1


# ---------------------------------------------------------------- live
class Admin:
    """The admin paths, over HTTP/1.1."""

    def __init__(self, playing: Playing) -> None:
        self._url = playing.url
        self._context = ssl.create_default_context(cafile=str(playing.folder / "ca.pem"))

    async def ask(self, method: str, path: str, value: object = None) -> tuple[int, Any]:
        body = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(f"{self._url}{path}", body, method=method)
        return await asyncio.to_thread(self._ask, request)

    def _ask(self, request: urllib.request.Request) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


async def test_rules_change_while_it_runs(playing: Playing) -> None:
    admin = Admin(playing)
    assert (await playing.push(fcm_target(1))).status == 200
    assert (await admin.ask("PUT", "/_fake/rules", {"answers": [DOWN]}))[0] == 200
    assert (await playing.push(fcm_target(1))).status == 503
    status, problem = await admin.ask("PUT", "/_fake/rules", {"answers": [{"status": 418}]})
    assert status == 400
    assert "answers[0]" in problem["error"]
    assert (await admin.ask("GET", "/_fake/rules"))[1] == {"answers": [DOWN]}
    assert (await admin.ask("PUT", "/_fake/rules", {}))[0] == 200
    assert playing.site.rules == FakeRules()


async def test_counts_and_accounts_are_asked_for_while_it_runs(tmp_path: Path) -> None:
    async with fcm(tmp_path, {"message_id": "id"}) as playing:
        admin = Admin(playing)
        for name in ("m1", "m1", "m2"):
            await playing.message({"token": fcm_target(1), "data": {"id": name}})
        await playing.push("short")
        _, counts = await admin.ask("GET", "/_fake/counts")
        assert (counts["requests"], counts["accepted"], counts["messages_repeated"]) == (4, 3, 1)
        assert counts["answers"] == {"200": 3, "400 token": 1}
        _, one = await admin.ask("GET", f"/_fake/accepted?target={fcm_target(1)}")
        assert one == {"target": fcm_target(1), "accepted": 3, "messages": {"m1": 2, "m2": 1}}
        assert (await admin.ask("GET", "/_fake/accepted"))[1] == {fcm_target(1): 3}
        _, judged = await admin.ask("POST", "/_fake/accepted", [fcm_target(1), fcm_target(2)])
        assert judged == {"never": [fcm_target(2)], "once": 0, "more": {fcm_target(1): 3}}
        for damaged in (b'{"no": "list"}', b'["\xff"]', b"[" * 10_000):
            assert (await playing.post("/_fake/accepted", damaged)).status == 400
        assert (await admin.ask("DELETE", "/_fake/tokens"))[1] == {"expired": 1}
        assert (await admin.ask("DELETE", "/_fake/counts"))[1]["requests"] == 0
        assert (await admin.ask("GET", "/_fake/nothing"))[0] == 404


async def test_the_last_payloads_are_kept_and_shown_without_credentials(tmp_path: Path) -> None:
    async with fcm(tmp_path) as playing:
        admin = Admin(playing)
        first = {"token": fcm_target(1), "notification": {"title": "Hi Ann"}}
        await playing.message(first)
        await playing.push(fcm_target(2))
        await playing.post(FCM_PATH, b"{no json")
        _, kept = await admin.ask("GET", "/_fake/payloads")
        assert [one["answer"].split()[0] for one in kept] == ["400", "200", "200"]
        assert kept[0]["payload"] == "{no json"
        assert kept[2]["payload"]["message"] == first
        assert not any("authorization" in one["headers"] for one in kept)
        _, of_one = await admin.ask("GET", f"/_fake/payloads?target={fcm_target(1)}")
        assert [one["payload"]["message"] for one in of_one] == [first]
        for number in range(KEPT_PAYLOADS + 5):
            request = Request("POST", f"/3/device/{number}", {}, b"x" * 2 * KEPT_BYTES)
            playing.site.receive(request, ClientFacts())
        assert len(playing.site.payloads) == KEPT_PAYLOADS
        assert len(playing.site.payloads[0].request.body) == KEPT_BYTES
        playing.site.forget()
        assert (await admin.ask("GET", "/_fake/payloads"))[1] == []


async def test_a_large_audience_is_judged_over_both_protocols(playing: Playing) -> None:
    audience = [fcm_target(number) for number in range(60_000)]  # 2 MB: more than any window
    _, judged = await Admin(playing).ask("POST", "/_fake/accepted", audience)
    response = await playing.post("/_fake/accepted", json.dumps(audience).encode())
    assert len(judged["never"]) == 60_000
    assert response.status == 200
    assert response.body.startswith(b'{"never":["device-token-')


async def test_the_quota_of_a_minute(tmp_path: Path) -> None:
    async with fcm(tmp_path, {"quota_per_minute": 3}) as playing:
        answers = [await playing.push(fcm_target(number)) for number in range(5)]
        assert [one.status for one in answers] == [200, 200, 200, 429, 429]
        assert 50 <= int(answers[-1].header("retry-after") or 0) <= 61
        answer = fcm_answers.read_answer(429, answers[-1].body)
        assert (answer.code, answer.detail) == ("QUOTA_EXCEEDED", "project")


async def test_retry_after_is_watched(tmp_path: Path) -> None:
    async with fcm(tmp_path, {"answers": [{**DOWN, "times": 1, "retry_after_s": 60}]}) as playing:
        assert [(await playing.push(fcm_target(1))).status for _ in range(2)] == [503, 200]
        assert playing.site.accounts.early == 1


async def test_an_answer_may_hide_that_the_message_was_taken(tmp_path: Path) -> None:
    async with fcm(tmp_path, {"answers": [{"status": 500, "taken": True}]}) as playing:
        assert (await playing.push(fcm_target(1))).status == 500
        assert playing.site.accounts.accepted == {fcm_target(1): 1}


async def test_pushes_over_http_1_1(tmp_path: Path) -> None:
    async with fcm(tmp_path, {"goaway": {"after": 1}}) as playing:
        admin = Admin(playing)
        assert (await admin.ask("POST", FCM_PATH, {"message": {}}))[0] == 401
        assert (await admin.ask("POST", "/token", {}))[0] == 400
