"""How Firebase Cloud Messaging is asked: OAuth tokens of a service account or of workload identity."""

import time

import msgspec

from consumers.delivery.http2.port import HttpRequest, HttpResponse
from consumers.delivery.push.credentials import Credential
from consumers.delivery.push.google_tokens import GoogleTokens
from consumers.delivery.push.provider import Authorization, Provider
from consumers.delivery.retry_after import retry_after_s
from consumers.delivery.settings import FcmApp, FcmChannelSettings
from dispatcher.channels import fcm_answers
from dispatcher.channels.fcm import FcmSpec
from dispatcher.channels.verdict_table import Answer
from dispatcher.model.errors import InvalidInput

URL = "https://fcm.googleapis.com"
RENEW_BEFORE_S = 300.0
"""A token is replaced this long before it expires."""
NO_TARGET = "fairlane-channel-check-without-a-target"


class FcmProvider(Provider):
    """Asks FCM."""

    settings = FcmChannelSettings
    spec = FcmSpec()
    target_in_path = False
    first_alone = False
    connections = 10
    streams = 100
    too_large = Answer(status=400, code="INVALID_ARGUMENT", reason="the message is too large")
    malformed_target = Answer(status=400, code="INVALID_ARGUMENT", detail=fcm_answers.TOKEN)

    def __init__(self, app: FcmApp) -> None:
        """Raises Missing without fairlane[push]."""
        self._app = app
        self._tokens = GoogleTokens(app.proxy_address, app.ca_file)
        self._url = (app.url or URL).rstrip("/")

    def authorize(self, credential: Credential, wall_s: float) -> Authorization:
        """Ask the issuer for an access token. Blocks for as long as the issuer takes."""
        access = self._tokens.get(credential)
        project, left_s = self._app.project_id or access.project, access.left_s
        if not isinstance(project, str) or not project.replace("-", "").replace(":", "").replace(".", "").isalnum():
            raise InvalidInput("The credential names no Firebase project.", "Set project_id of the app.")
        return Authorization(
            url=f"{self._url}/v1/projects/{project}/messages:send",
            headers=(("authorization", f"Bearer {access.token}"), ("content-type", "application/json")),
            version=credential.version,
            from_s=wall_s - 1.0,
            renew_s=wall_s + max(left_s / 2, left_s - RENEW_BEFORE_S),
            ends_s=wall_s + left_s,
        )

    def read(self, response: HttpResponse) -> Answer:
        headers = {name: response.header(name) or "" for name in ("Retry-After", "Date")}
        return fcm_answers.read_answer(response.status, response.body, retry_after_s(headers, time.time()))

    def took(self, response: HttpResponse) -> bool:
        return bool(fcm_answers.message_name(response.body))

    def id_in(self, response: HttpResponse) -> str:
        return fcm_answers.message_name(response.body)

    def dry_run(self, authorization: Authorization, target: str | None) -> HttpRequest:
        """With validate_only, FCM sends nothing."""
        message = {"token": target or NO_TARGET, "data": {"fairlane": "check"}}
        body = msgspec.json.encode({"validate_only": True, "message": message})
        return HttpRequest(url=authorization.url, body=body, headers=authorization.headers)
