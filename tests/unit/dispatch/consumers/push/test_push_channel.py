"""The channels `fcm` and `apns` when connections and providers fail: nothing is sent twice or guessed."""

import asyncio
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from consumers.delivery.http2.port import Fate, HttpRequest, HttpResponse, RequestFailed
from consumers.delivery.push.access import Access, AppAccess
from consumers.delivery.push.connections import Connections
from consumers.delivery.push.credentials import Credential, CredentialSource
from consumers.delivery.push.sender import MAX_REFUSALS
from dispatcher.channels.apns import apns_id
from dispatcher.channels.fcm import FcmSpec
from dispatcher.channels.guards.trouble import Trouble
from dispatcher.channels.rules.apns import PUSH_TYPES
from dispatcher.channels.verdict_table import Effect, Row, VerdictTable
from dispatcher.model.errors import Unreachable
from dispatcher.model.flow_pause import PauseKind
from dispatcher.wire.envelope import encode_message
from dispatcher.wire.outcome import ALL_SENT, UNKNOWN, UNSENT, Outcome
from lab.fake.messages import Request
from tests.unit.dispatch.consumers.envelopes import envelope
from tests.unit.dispatch.consumers.http2.calls import until
from tests.unit.dispatch.consumers.http2.connect_proxy import proxying
from tests.unit.dispatch.consumers.push.rig import TARGETS, Rig, codes, rig, rigged

SENT, INVALID, FAILED = int(Outcome.SENT), int(Outcome.INVALID), int(Outcome.FAILED)
NARROW: dict[str, Any] = {"connections": 1, "streams": 10}


# ---------------------------------------------------------------- what is sent
async def test_many_envelopes_of_one_and_one_of_many(at: Rig) -> None:
    targets = at.targets(500)
    assert codes(await at.deliver(targets)) == [SENT] * 500
    singles = at.targets(300, first=500)
    message = envelope().message
    envelopes = [envelope(n, [target], channel=at.name, message=message) for n, target in enumerate(singles)]
    assert await at.send(envelopes) == [ALL_SENT] * 300
    assert set(at.accepted(targets + singles)) == {1}


@rigged(keep_ids=True)
async def test_the_providers_ids_are_in_the_verdicts_if_they_are_to_be_kept(at: Rig) -> None:
    targets = at.targets(20)
    ids = [verdict.provider_id for verdict in await at.deliver(targets) if verdict is not None]
    assert len(set(ids)) == 20
    if at.name == "apns":
        assert ids == [apns_id("task-1", "0", 0, position) for position in range(20)]
    else:
        assert all(one.startswith("projects/demo/messages/") for one in ids)


@rigged("apns")
@pytest.mark.parametrize("push_type", sorted(PUSH_TYPES))
async def test_a_push_type_has_its_topic_and_stops_no_other_task(at: Rig, push_type: str) -> None:
    message = {"title": "hello", "apns": {"headers": {"apns-push-type": push_type, "apns-priority": "5"}}}
    assert codes(await at.deliver(at.targets(2), message=message)) == [SENT] * 2
    assert codes(await at.deliver(at.targets(2, first=10))) == [SENT] * 2


async def test_each_target_has_its_own_texts(at: Rig) -> None:
    message = {"title": "Hi {{name}}", "locales": {"de": {"title": "Hallo {{name}}"}}}
    variables = [{"name": "Ann"}, {"name": "Böb", "lang": "de-CH"}, {}]
    verdicts = await at.deliver(at.targets(3), message=message, variables=variables)
    assert codes(verdicts) == [SENT, SENT, FAILED]
    assert verdicts[2] is not None
    assert "no variable 'name'" in verdicts[2].reason


@pytest.mark.parametrize("target", ["", "../../v1/x", "short", "a b", "x\r\nhost: evil", "é" * 40, "0" * 4_100])
async def test_a_malformed_target_is_never_sent(at: Rig, target: str) -> None:
    [good] = at.targets(1)
    assert codes(await at.deliver([target, good])) == [INVALID, SENT]
    assert sum(at.site.accounts.answers.values()) == 1


async def test_huge_variables_fail_their_target_only(at: Rig) -> None:
    values: list[dict[str, Any]] = [{"x": "y" * 100_000}, {"x": "z" * 5_000}, {"x": "fine"}, {"x": [1, {}]}]
    verdicts = await at.deliver(at.targets(4), message={"body": "{{x}}"}, variables=values)
    assert codes(verdicts) == [FAILED, FAILED, SENT, SENT]


async def test_a_variable_that_is_nested_too_deeply_fails_its_target_only(at: Rig) -> None:
    nested: Any = "x"
    for _ in range(980):  # with Python 3.11 it can be decoded, and not be encoded; with 3.13 both
        nested = [nested]
    variables = [{"n": nested}, {"n": "1"}]
    verdicts = await at.deliver(at.targets(2), message={"title": "{{n}}"}, variables=variables)
    assert codes(verdicts) == [SENT if sys.version_info >= (3, 13) else FAILED, SENT]


@pytest.mark.parametrize("message", [{"titel": "no such field"}, {"title": "{{ not a variable"}, "text"])
async def test_a_message_that_cannot_be_rendered_fails_its_targets(at: Rig, message: Any) -> None:
    assert codes(await at.deliver(at.targets(2), message=message)) == [FAILED] * 2
    assert not at.site.accounts.answers


async def test_an_envelope_that_cannot_be_rendered_fails_alone_in_its_call(at: Rig) -> None:
    """Whatever its message or its variables are: another exception failed the whole call."""
    messages: list[Any] = [
        {"title": "hello"},
        {"title": "x", "fcm": {"android": {1: 2}}, "apns": {"headers": 5, "aps": {1: 2}}},
        {"title": r"\u00005{{x}}\u0000"},
        {"title": "{{x}}", "badge": "{{x}}"},
    ]
    targets = at.targets(4)
    envelopes = [
        envelope(n, [targets[n]], channel=at.name, message=encode_message(message), variables=[{"x": b"bytes"}])
        for n, message in enumerate(messages)
    ]
    reports = await at.send(envelopes)
    assert [report.verdict.code for report in reports if report is not None] == [SENT, FAILED, FAILED, FAILED]


async def test_a_collapse_text_is_sent_as_each_target_has_it(at: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    check = at.site.provider.check

    def recording(request: Request, *others: Any) -> Any:
        message = json.loads(request.body).get("message", {})
        seen.append(request.headers.get("apns-collapse-id") or message["android"]["collapse_key"])
        return check(request, *others)

    monkeypatch.setattr(at.site.provider, "check", recording)
    orders: list[dict[str, Any]] = [{"order": "A1"}, {"order": 7}, {"order": "x" * 65}, {}]
    message = {"title": "hello", "collapse": "o-{{order}}"}
    verdicts = await at.deliver(at.targets(4), message=message, variables=orders)
    assert codes(verdicts) == [SENT, SENT, FAILED, FAILED]
    assert {"o-A1", "o-7"} <= set(seen)


@rigged("fcm", app_settings={"connections": 2, "streams": 30})
async def test_an_app_is_kept_busy_with_several_times_what_it_may_ask_at_once(at: Rig) -> None:
    assert at.courier.target_counts() == {"fcm": 240}
    assert at.courier.batch_counts()["fcm"] >= 120


# ---------------------------------------------------------------- connections
@rigged(request_timeout_s=1.0)
async def test_a_connection_that_takes_and_is_silent_leaves_unknown_targets(at: Rig) -> None:
    await at.deliver(at.targets(3))
    at.rule(half_open_after=3)
    silent = at.targets(5, first=10)
    assert codes(await at.deliver(silent)) == [UNKNOWN] * 5
    assert {trouble.kind for trouble in at.gate.troubles} == {PauseKind.DOWN}
    at.rule()
    at.gate.open_all()
    assert codes(await at.deliver(at.targets(5, first=20))) == [SENT] * 5  # on a new connection


async def test_a_reset_leaves_unknown_targets_and_sends_none_twice(at: Rig) -> None:
    await at.deliver(at.targets(3))
    at.rule(reset_after=5, latency_ms=[50, 50])
    targets = at.targets(20, first=10)
    verdicts = codes(await at.deliver(targets))
    assert UNKNOWN in verdicts
    at.judge(targets, verdicts)


async def test_goaway_takes_some_and_the_others_are_sent_once(at: Rig) -> None:
    at.rule(goaway={"after": 30, "untaken": 5}, latency_ms=[20, 20])
    targets = at.targets(60)
    verdicts = codes(await at.deliver(targets))
    at.rule()
    assert set(verdicts) <= {SENT, UNSENT, UNKNOWN}
    at.judge(targets, verdicts)
    assert verdicts.count(SENT) >= 40


@rigged(app_settings={"url": "https://127.0.0.1:9"})
async def test_a_provider_that_cannot_be_reached_is_unsent_and_pauses_the_flow(at: Rig) -> None:
    assert set(codes(await at.deliver(at.targets(50)))) <= {UNSENT, None}
    assert at.gate.troubles[0].kind is PauseKind.DOWN
    assert "connect" in at.gate.troubles[0].reason.lower()


@rigged(timeout_s=2.5, request_timeout_s=2.2)
async def test_a_source_of_the_credential_that_hangs_pauses_the_flow(at: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each call would wait for it until its end, and nobody would see why."""
    is_over = threading.Event()

    def hangs(_source: CredentialSource) -> Credential:
        is_over.wait(20)
        raise Unreachable("It hung until the end of the test.")  # a credential would be used while the fake ends

    monkeypatch.setattr(CredentialSource, "current", hangs)
    try:
        assert set(codes(await at.deliver(at.targets(3)))) == {UNSENT}
        [trouble] = at.gate.troubles
        assert trouble.kind is PauseKind.DOWN
        assert "does not come. Check that the source" in trouble.reason
    finally:
        is_over.set()


@rigged(app_settings={"ca_file": None})
async def test_a_server_with_another_authority_gets_nothing(at: Rig) -> None:
    assert set(codes(await at.deliver(at.targets(3)))) <= {UNSENT, None}
    assert "certificate" in at.gate.troubles[0].reason.lower()
    assert not at.site.accounts.answers


@rigged(timeout_s=2.0, request_timeout_s=1.0, app_settings=NARROW)
async def test_no_request_begins_that_could_outlast_its_call(at: Rig) -> None:
    at.rule(latency_ms=[400, 400])
    targets = at.targets(400)
    reported = await at.deliver(targets)
    verdicts = codes(reported)
    assert set(verdicts) == {SENT, UNSENT}
    assert {one.reason for one in reported if one and one.code == UNSENT} == {"no time was left in the call"}
    assert at.accepted(targets) == [1 if code == SENT else 0 for code in verdicts]


@pytest.mark.parametrize("name", TARGETS)
async def test_requests_and_tokens_go_through_the_egress_proxy(name: str, tmp_path: Path) -> None:
    async with proxying() as proxy, rig(name, tmp_path, app_settings={"proxy": proxy.url}) as at:
        assert codes(await at.deliver(at.targets(5))) == [SENT] * 5
        assert len(proxy.asked) == (2 if name == "fcm" else 1)


@pytest.mark.parametrize("name", TARGETS)
async def test_a_proxy_that_refuses_leaves_everything_unsent(name: str, tmp_path: Path) -> None:
    async with proxying(refuse=True) as proxy:
        address = proxy.url.replace("//", "//me:hush@")
        async with rig(name, tmp_path, app_settings={"proxy": address}) as at:
            assert set(codes(await at.deliver(at.targets(5)))) <= {UNSENT, None}
            assert at.gate.troubles[0].kind is PauseKind.DOWN
            assert "hush" not in at.gate.troubles[0].reason
            assert not at.site.accounts.answers


# ---------------------------------------------------------------- closed flows
async def test_a_closed_flow_sends_nothing_and_does_not_spin(at: Rig) -> None:
    trouble = Trouble(channel=at.name, app="shop", kind=PauseKind.DOWN, for_s=600.0, reason="down")
    at.gate.report(trouble)
    began_s = time.monotonic()
    verdicts = await at.deliver(at.targets(3))
    assert time.monotonic() - began_s >= 0.15
    assert codes(verdicts) == [UNSENT] * 3
    assert verdicts[0] is not None
    assert verdicts[0].retry_after_s == pytest.approx(599, abs=2)
    assert not at.site.accounts.answers


async def test_a_short_pause_is_waited_for(at: Rig) -> None:
    at.gate.report(Trouble(channel=at.name, app="shop", kind=PauseKind.DOWN, for_s=0.15, reason="restarts"))
    assert codes(await at.deliver(at.targets(3))) == [SENT] * 3


@rigged(timeout_s=2.0, request_timeout_s=1.5)
async def test_a_stall_while_a_call_waits_says_nothing_about_the_credential(at: Rig) -> None:
    await at.deliver(at.targets(1))
    at.gate.report(Trouble(channel=at.name, app="shop", kind=PauseKind.LIMIT, for_s=0.15, reason="too fast"))
    at.gate.troubles.clear()
    waiting = asyncio.create_task(at.deliver(at.targets(1, first=10)))
    await until(lambda: at.courier.in_flight(at.name).calls > 0)
    at.stall(1.0)
    await waiting
    assert not at.gate.troubles


@rigged(app_settings=NARROW)
async def test_a_pause_within_a_call_stops_its_requests(at: Rig) -> None:
    at.rule(latency_ms=[100, 100])
    running = asyncio.create_task(at.deliver(at.targets(400)))
    await until(lambda: sum(at.site.accounts.answers.values()) > 20)
    at.gate.report(Trouble(channel=at.name, app="shop", kind=PauseKind.LIMIT, for_s=60.0, reason="too fast"))
    verdicts = codes(await running)
    asked = sum(at.site.accounts.answers.values())
    assert verdicts.count(SENT) == asked < 400
    assert verdicts.count(UNSENT) == 400 - asked


async def test_a_provider_that_was_down_gets_one_request_until_it_has_answered(at: Rig) -> None:
    at.gate.is_probing = True
    at.gate.closes_on = Effect.DOWN
    at.rule(answers=[{"status": 503}], latency_ms=[50, 50])
    assert set(codes(await at.deliver(at.targets(50)))) == {UNSENT}
    assert sum(at.site.accounts.answers.values()) == 1
    at.gate.open_all()
    at.rule()
    assert codes(await at.deliver(at.targets(50))) == [SENT] * 50


async def test_dead_targets_are_not_recorded_while_the_environment_is_suspected(at: Rig) -> None:
    at.gate.trusts = False
    rule = {"status": 404, "code": "UNREGISTERED"} if at.name == "fcm" else {"status": 410, "code": "Unregistered"}
    at.rule(answers=[rule])
    verdicts = await at.deliver(at.targets(3))
    assert codes(verdicts) == [UNSENT] * 3
    assert all(verdict is not None and "suspected" in verdict.reason for verdict in verdicts)
    assert all(verdict is not None and verdict.paused for verdict in verdicts), "they come back when it is ended"


@rigged("fcm", timeout_s=3.0, request_timeout_s=1.0)
async def test_a_request_that_the_server_refuses_is_sent_again_a_few_times_only(
    at: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[HttpRequest] = []

    async def refuse(_: Connections, request: HttpRequest) -> HttpResponse:
        asked.append(request)
        raise RequestFailed(Fate.NOT_TAKEN, "the server refused the stream", refused=True)

    monkeypatch.setattr(Connections, "send", refuse)
    assert codes(await at.deliver(at.targets(1))) == [UNSENT]
    assert len(asked) == 1 + MAX_REFUSALS


@rigged("fcm", timeout_s=1.5, request_timeout_s=0.5)
async def test_a_call_that_ends_after_an_answer_that_may_be_a_success_leaves_its_target_unknown(
    at: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here while another proof is made; the provider has had the message by then."""
    row = Row(status=500, effect=Effect.DOWN, may_be_taken=True, renew=True, note="It failed.")
    monkeypatch.setattr(FcmSpec, "table", VerdictTable((row, *FcmSpec.table.rows)))
    at.rule(answers=[{"status": 500}])

    async def hang(_: AppAccess, access: Access) -> Access:
        await asyncio.sleep(60.0)
        return access

    monkeypatch.setattr(AppAccess, "renew", hang)
    assert codes(await at.deliver(at.targets(1))) == [UNKNOWN]


@rigged("apns")
async def test_each_notification_has_its_id_on_each_try(at: Rig) -> None:
    at.rule(answers=[{"status": 429, "times": 3}])
    targets = at.targets(3)
    await at.deliver(targets)
    at.rule(answers=[{"status": 500, "taken": True, "times": 3}])
    await at.deliver(targets, attempt=1)
    await at.deliver(targets, attempt=2)
    assert at.accepted(targets) == [2] * 3
    wanted = {(target, apns_id("task-1", "0", 0, position)): 2 for position, target in enumerate(targets)}
    assert at.site.accounts.messages == wanted
