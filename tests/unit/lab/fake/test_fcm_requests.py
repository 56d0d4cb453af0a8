"""The fake of FCM takes what FCM takes, and names the field that it refuses."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dispatcher.channels import fcm_answers
from dispatcher.channels.fcm import FcmSpec
from dispatcher.channels.spec import Handling
from dispatcher.channels.verdict_table import Effect
from dispatcher.model.tier import Tier
from lab.fake.fcm.checks import parse, problem_of
from lab.fake.making import make_fcm
from tests.unit.lab.fake.playing import FCM_PATH, SCOPE, Playing, fcm, fcm_target, grant

TOKEN = fcm_target(1)
GOOD: dict[str, Any] = {"token": TOKEN, "notification": {"title": "hello"}}


def refused_field(message: dict[str, Any]) -> str:
    answer = problem_of(message)
    return "" if answer is None else answer.detail


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({}, ""),
        ({"data": {"order": "7"}, "android": {"ttl": "3.5s", "priority": "high"}}, ""),
        ({"token": "short"}, "token"),
        ({"token": 7}, "message"),
        ({"topic": "news"}, "message"),
        ({"titel": "x"}, "message"),
        ({"data": []}, "message.data"),
        ({"data": {"order": 7}}, "message.data.order"),
        ({"data": {"google.c": "x"}}, "message.data.google.c"),
        ({"data": {"from": "x"}}, "message.data.from"),
        ({"android": {"ttl": "60"}}, "message.android.ttl"),
        ({"android": {"ttl": 60}}, "message.android.ttl"),
        ({"android": {"ttl": "2419201s"}}, "message.android.ttl"),
        ({"android": {"priority": "urgent"}}, "message.android.priority"),
        ({"notification": {"title": "x" * 4_096}}, "message"),
    ],
)
def test_a_message_is_checked(change: dict[str, Any], field: str) -> None:
    assert refused_field({**GOOD, **change}) == field


def test_a_message_needs_a_target() -> None:
    assert refused_field({"notification": {"title": "x"}}) == "message"


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
@example(b'{"message":' + b"[" * 10_000)
def test_any_body_is_judged(body: bytes) -> None:
    request = parse(body)
    found = problem_of(request["message"]) if isinstance(request, dict) else request
    assert found is not None
    assert fcm_answers.TABLE.row_of(found).effect is Effect.PAYLOAD


@given(
    st.dictionaries(
        st.sampled_from(["token", "data", "android", "notification", "topic", "webpush"]),
        st.none() | st.integers() | st.text(max_size=5) | st.dictionaries(st.text(max_size=5), st.none(), max_size=2),
    )
)
def test_any_message_is_judged(message: dict[str, Any]) -> None:
    found = problem_of(message)
    assert found is None or found.status == 400


def test_the_fake_takes_what_the_specification_renders() -> None:
    message = {"title": "{{name}}", "body": "b", "data": {"k": "v"}, "collapse": "c", "category": "n", "sound": "s"}
    rendering = FcmSpec().render(message, Handling(Tier.HIGH, now_ms=0, expires_ms=60_000))
    document = parse(rendering.templates.of({"name": "Zoë"}).fill(TOKEN, {"name": "Zoë"}))
    assert isinstance(document, dict)
    assert problem_of(document["message"]) is None


def read(playing: Playing, response: Any) -> tuple[int, str, Effect]:
    answer = fcm_answers.read_answer(response.status, response.body)
    return answer.status, answer.reason or answer.reference, playing.site.provider.table.row_of(answer).effect


async def test_a_token_that_is_malformed_is_dead(playing: Playing) -> None:
    status, reason, effect = read(playing, await playing.push("short"))
    assert (status, effect) == (400, Effect.DEAD)
    assert "not a valid FCM registration token" in reason
    assert not playing.site.accounts.accepted


async def test_credentials_path_and_project_are_checked(playing: Playing) -> None:
    body = json.dumps({"message": GOOD}).encode()
    for header in ("Bearer nonsense", None, playing.headers["authorization"].removeprefix("Bearer ")):
        assert read(playing, await playing.post(FCM_PATH, body, authorization=header))[0] == 401
    for path in ("/v1/projects/other/messages:send", "/v1/projects/demo/messages", "/"):
        status, _, effect = read(playing, await playing.post(path, body))
        assert (status, effect) == (404, Effect.CREDENTIALS)
    for wrong in (b"{}", b"no json", b'{"message": {}, "more": 1}', b'{"message": {}, "validate_only": 1}'):
        assert read(playing, await playing.post(FCM_PATH, wrong))[2] is Effect.PAYLOAD
    assert not playing.site.accounts.accepted


async def test_a_dry_run_is_not_accepted(playing: Playing) -> None:
    body = json.dumps({"message": GOOD, "validate_only": True}).encode()
    assert read(playing, await playing.post(FCM_PATH, body))[1] == "projects/demo/messages/fake_message_id"
    assert not playing.site.accounts.accepted
    names = {read(playing, await playing.push(TOKEN))[1] for _ in range(3)}
    assert len(names) == 3
    assert playing.site.accounts.accepted == {TOKEN: 3}


# ---------------------------------------------------------------- access tokens
@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "somebody@else"},
        {"aud": "https://oauth2.example/token"},
        {"exp": 0},
        {"iat": int(time.time()) - 9_000, "exp": int(time.time()) + 60},
        {"iat": None},
        {"scope": "https://www.googleapis.com/auth/drive"},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_a_request_for_a_token_is_checked(playing: Playing, changes: dict[str, Any]) -> None:
    response = await grant(playing, **changes)
    assert (response.status, json.loads(response.body)["error"]) == (400, "invalid_grant")
    assert (await grant(playing, scope=f"openid {SCOPE}")).status == 200
    assert (await grant(playing, aud="https://oauth2.googleapis.com/token")).status == 200  # as google-auth


async def test_another_key_gets_no_token(playing: Playing) -> None:
    playing.account["private_key"] = make_fcm("demo").account["private_key"]
    assert b"Invalid JWT Signature" in (await grant(playing)).body
    assert (await playing.post("/token", b"grant_type=password")).status == 400


async def test_tokens_end(tmp_path: Path) -> None:
    async with fcm(tmp_path, {"token_lifetime_s": 5}) as playing:
        assert json.loads((await grant(playing)).body)["expires_in"] == 5
        assert (await playing.push(TOKEN)).status == 200
        assert playing.site.provider.expire_tokens() == 2
        assert (await playing.push(TOKEN)).status == 401
