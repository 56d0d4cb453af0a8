"""The fake of APNs takes what APNs takes, and gives its reasons for the rest."""

import json
from base64 import b64encode
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from h2.events import StreamEnded, StreamReset

from consumers.delivery.http2.curl_client import CurlClient
from consumers.delivery.http2.port import HttpResponse
from consumers.delivery.http2.settings import ClientCertificate, ClientSettings
from dispatcher.channels.apns import ApnsSpec
from dispatcher.channels.spec import Handling
from dispatcher.model.tier import Tier
from lab.fake.apns.checks import payload_problem
from lab.fake.rules import read_rules
from tests.unit.lab.fake.playing import TOPIC, Playing, apns, apns_target, provider_token
from tests.unit.lab.fake.raw_client import HEAD, connected

TARGET = apns_target(1)
ID = "123e4567-e89b-12d3-a456-42665544000a"


@pytest.fixture
def playing(tmp_path: Path) -> AbstractAsyncContextManager[Playing]:
    return apns(tmp_path)


def reason(response: HttpResponse) -> str:
    return str(json.loads(response.body)["reason"]) if response.body else ""


async def reason_for(playing: Playing, target: str = TARGET, /, **headers: str | None) -> tuple[int, str]:
    response = await playing.push(target, **headers)
    return response.status, reason(response)


HEADERS: list[tuple[dict[str, str | None], int, str]] = [
    ({}, 200, ""),
    ({"apns_topic": f"{TOPIC}.voip", "apns_push_type": "voip", "apns_priority": "1"}, 200, ""),
    ({"apns_push_type": "voip", "apns_priority": "1"}, 400, "TopicDisallowed"),
    ({"apns_topic": None}, 400, "MissingTopic"),
    ({"apns_topic": "com.other.app"}, 400, "TopicDisallowed"),
    ({"apns_topic": f"{TOPIC}.more"}, 400, "TopicDisallowed"),
    ({"apns_topic": "not a topic"}, 400, "BadTopic"),
    ({"apns_push_type": "shout"}, 400, "InvalidPushType"),
    ({"apns_priority": "9"}, 400, "BadPriority"),
    ({"apns_priority": "10", "apns_push_type": "background"}, 400, "BadPriority"),
    ({"apns_expiration": "soon"}, 400, "BadExpirationDate"),
    ({"apns_id": "7"}, 400, "BadMessageId"),
    ({"apns_collapse_id": "c" * 65}, 400, "BadCollapseId"),
    ({"apns_collapse_id": "c" * 64, "apns_expiration": "1700000000", "apns_id": ID}, 200, ""),
    ({"apns_collapse_id": "é" * 32}, 200, ""),
    ({"apns_collapse_id": "é" * 33}, 400, "BadCollapseId"),
    ({"authorization": None}, 403, "MissingProviderToken"),
    ({"authorization": "bearer a.b.c"}, 403, "InvalidProviderToken"),
    ({"authorization": f"bearer {b64encode(b'[' * 10_000).decode()}.e30.e30"}, 403, "InvalidProviderToken"),
]


async def test_headers_are_checked(playing: Playing) -> None:
    for headers, status, expected in HEADERS:
        assert await reason_for(playing, **headers) == (status, expected), headers
    assert playing.site.accounts.accepted == {TARGET: 4}
    assert playing.site.accounts.messages == {(TARGET, ID): 1}


async def test_path_token_and_payload_are_checked(playing: Playing) -> None:
    assert await reason_for(playing, "g" * 64) == (400, "BadDeviceToken")
    assert await reason_for(playing, "") == (400, "MissingDeviceToken")
    for body, status, expected in (
        (b"x", 400, "PayloadEmpty"),
        (b"{}", 400, "PayloadEmpty"),
        (b"[" * 4_000, 400, "PayloadEmpty"),
        (json.dumps({"aps": {"alert": "x" * 4_096}}).encode(), 413, "PayloadTooLarge"),
    ):
        response = await playing.post(f"/3/device/{TARGET}", body)
        assert (response.status, reason(response)) == (status, expected)
    response = await playing.post(f"/2/device/{TARGET}", b"{}")
    assert (response.status, reason(response)) == (404, "BadPath")


def test_voip_payloads_may_be_larger() -> None:
    body = json.dumps({"aps": {"alert": "x" * 4_500}}).encode()
    assert payload_problem(body, "voip") == ""
    assert payload_problem(body, "alert") == "PayloadTooLarge"


async def test_the_id_of_the_client_comes_back(playing: Playing) -> None:
    assert (await playing.push(TARGET, apns_id=ID)).header("apns-id") == ID
    made = {(await playing.push(TARGET)).header("apns-id") for _ in range(3)}
    assert len(made) == 3
    playing.site.set_rules(read_rules({"answers": [{"status": 200, "detail": "body"}]}, playing.site.provider.table))
    assert not (await playing.push(TARGET, apns_id=ID)).header("apns-id"), "it is not APNs that answers"


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ({"age_s": 3_700}, "ExpiredProviderToken"),
        ({"age_s": -3_600}, "InvalidProviderToken"),
        ({"key_id": "OTHERKEY01"}, "InvalidProviderToken"),
        ({"age_s": 1_800}, ""),
    ],
)
async def test_provider_tokens_are_checked(
    playing: Playing, tmp_path: Path, token: dict[str, float | str], expected: str
) -> None:
    shown = provider_token(tmp_path, **token)  # type: ignore[arg-type]
    response = await playing.push(TARGET, authorization=f"bearer {shown}")
    assert (response.status, reason(response)) == ((403, expected) if expected else (200, ""))


async def test_a_connection_may_not_change_its_token_soon(tmp_path: Path) -> None:
    async with apns(tmp_path, connections=1) as playing:
        await playing.push(TARGET)
        other = f"bearer {provider_token(tmp_path, age_s=60)}"
        assert await reason_for(playing, authorization=other) == (429, "TooManyProviderTokenUpdates")
        assert await reason_for(playing) == (200, "")
        playing.client.renew_connections()
        assert await reason_for(playing, authorization=other) == (200, "")


async def test_tokens_can_be_made_to_expire(playing: Playing) -> None:
    await playing.push(TARGET)
    assert playing.site.provider.expire_tokens() == 1
    assert await reason_for(playing) == (403, "ExpiredProviderToken")


async def test_a_certificate_is_enough(playing: Playing, tmp_path: Path) -> None:
    shown = ClientCertificate((tmp_path / "client.pem").read_bytes())
    client = CurlClient(ClientSettings(ca_file=str(tmp_path / "ca.pem"), certificate=shown))
    try:
        assert await reason_for(replace(playing, client=client, headers={})) == (200, "")
    finally:
        await client.close()


async def test_there_is_one_stream_until_a_token_was_valid(tmp_path: Path) -> None:
    async with apns(tmp_path, {"latency_ms": [20, 20]}) as playing:
        raw = await connected(playing)
        for number, authorization in ((1, "bearer a.b.c"), (3, playing.headers["authorization"])):
            head = [(":method", "POST"), (":path", f"/3/device/{TARGET}"), *HEAD[2:], ("apns-topic", TOPIC)]
            raw.h2.send_headers(number, [*head, ("authorization", authorization)])
            raw.h2.send_data(number, b'{"aps":{}}', end_stream=True)
            raw.writer.write(raw.h2.data_to_send())
            await raw.events(StreamEnded)
            assert raw.h2.remote_settings.max_concurrent_streams == (1 if number == 1 else 1_000)
        raw.writer.close()


async def test_streams_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    async with apns(tmp_path, {"latency_ms": [20, 20]}) as playing:
        raw = await connected(playing)
        for number in (1, 3):
            raw.h2.send_headers(number, [(":method", "POST"), (":path", "/3/device/"), *HEAD[2:]], number == 1)
        raw.writer.write(raw.h2.data_to_send())
        found = await raw.events(StreamReset)
        assert [(one.stream_id, one.error_code) for one in found if isinstance(one, StreamReset)] == [(3, 7)]
        raw.writer.close()


async def test_the_fake_takes_what_the_specification_renders(playing: Playing) -> None:
    message = {"title": "{{name}}", "body": "b", "data": {"k": "v"}, "collapse": "c", "badge": 1, "image": "https://x"}
    rendering = ApnsSpec().render(message, Handling(Tier.HIGH, now_ms=0, expires_ms=60_000))
    body = rendering.templates.of(None).fill(TARGET, {"name": "Zoë"})
    headers = {name.replace("-", "_"): value for name, value in rendering.headers.items()}
    assert (await playing.post(f"/3/device/{TARGET}", body, **headers)).status == 200
