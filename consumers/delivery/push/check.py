"""Check whether an app may send: credential, proof, and a request that nobody sees."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from consumers.delivery.http2.port import RequestFailed
from consumers.delivery.push.apns import ApnsProvider
from consumers.delivery.push.connections import make_connections
from consumers.delivery.push.credentials import Credential, CredentialSource
from consumers.delivery.push.fcm import FcmProvider
from consumers.delivery.push.judging import reason_of
from consumers.delivery.push.provider import Authorization, Provider
from dispatcher.channels.verdict_table import STRANGE_BODY, Answer, Effect, Row
from dispatcher.model.errors import InvalidInput, NotFound, Refused, Unreachable

PROVIDERS: dict[str, type[Provider]] = {"fcm": FcmProvider, "apns": ApnsProvider}
TIMEOUT_S = 15.0
_NEXT_STEPS = {
    Effect.CREDENTIALS: "Correct the app's credential or settings, then check again.",
    Effect.LIMIT: "Wait, then check again.",
    Effect.DOWN: "Wait, then check again.",
    Effect.LATER: "Wait, then check again.",
    Effect.DEAD: "Check that the target comes from this app and, for APNs, from this environment.",
    Effect.WRONG: "Check that the target comes from this app.",
    Effect.PAYLOAD: "If the app has a url, check it. Otherwise report this fault of Fairlane.",
}


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """An app that may send."""

    channel: str
    app: str
    credential: str
    """Version of the credential, a digest."""
    token_s: int
    """Seconds until the proof is made again."""
    url: str
    answer: str
    """The provider's answer."""


async def check_app(channel: str, values: Mapping[str, Any], app: str, target: str | None) -> CheckResult:
    """Check an app of a channel with these settings.

    Raises NotFound if the app has no settings, InvalidInput for a credential or target that cannot be used,
    Unreachable, and Refused with the provider's reason.
    """
    settings = PROVIDERS[channel].settings.read({**values, "name": channel})
    app_settings = settings.apps.get(app)
    if app_settings is None:
        known = ", ".join(sorted(settings.apps)) or "none"
        raise NotFound(
            f"The channel {channel} has no settings for the app {app}; it has them for: {known}.",
            f"Add [channels.{channel}.apps.{app}] to the settings.",
        )
    provider = PROVIDERS[channel](app_settings)
    if target is not None:
        _check_target(provider, target)
    credential = await asyncio.to_thread(CredentialSource(app_settings.credentials.get_secret_value()).current)
    authorization = await asyncio.to_thread(provider.authorize, credential, time.time())
    connections = make_connections(provider, app_settings, provider.certificate(credential), TIMEOUT_S)
    try:
        response = await connections.send(provider.dry_run(authorization, target))
    except RequestFailed as failure:
        cause = f"{authorization.url} does not answer: {failure.reason}."
        raise Unreachable(cause, "Check the network, proxy and ca_file.") from failure
    finally:
        await connections.close()
    answer = provider.read(response)
    _judge(provider.spec.table.row_of(answer), answer, has_target=target is not None)
    return _result(channel, app, credential, authorization, answer)


def _check_target(provider: Provider, target: str) -> None:
    problem = provider.spec.check_target(target)
    if problem is not None:
        raise InvalidInput(f"The target {problem}.", "Name one as the app's users register it.")


def _judge(row: Row, answer: Answer, *, has_target: bool) -> None:
    """Raise Refused unless the answer shows that the app may send."""
    if row.effect is Effect.SENT or (row.effect is Effect.DEAD and not has_target):
        return
    is_strange = row.detail == STRANGE_BODY
    next_step = "Correct them, then check again." if is_strange else _NEXT_STEPS[row.effect]
    raise Refused(f"{reason_of(row, answer)}.", next_step)


def _result(
    channel: str, app: str, credential: Credential, authorization: Authorization, answer: Answer
) -> CheckResult:
    return CheckResult(
        channel=channel,
        app=app,
        credential=credential.version,
        token_s=round(authorization.renew_s - time.time()),
        url=authorization.url,
        answer=f"{answer.status} {answer.code}".strip(),
    )
