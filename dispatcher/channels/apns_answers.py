"""Answers of the Apple Push Notification service.

Source: Apple's pages "Handling notification responses from APNs" and "Establishing a token-based connection to APNs",
and its staff's answers on which errors show a dead token.
"""

import re

from dispatcher.channels.answer_body import json_object, text
from dispatcher.channels.verdict_table import STRANGE_BODY, Answer, Effect, Row, VerdictTable, strange_rows
from dispatcher.wire.groups import MAX_TIME_MS

AFTER_5XX_S = 900.0
"""Apple asks to wait 15 minutes after an error of its own."""
TOKEN_UPDATE_S = 1_200.0
"""Apple refuses provider tokens that change more often than this."""
_TELLING = frozenset({403, 413, 429})
"""Statuses below 500 that mean the same without a reason."""
_is_uuid = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}").fullmatch


TABLE = VerdictTable(
    (
        *strange_rows(
            "The answer has no apns-id, so it is not one of APNs: check url and proxy of the app.",
            "The answer names no reason, so it is not one of APNs: check url and proxy of the app.",
        ),
        Row(status=200, effect=Effect.SENT, note="Taken by APNs."),
        Row(status=410, code="ExpiredToken", effect=Effect.DEAD, note="The device token has expired."),
        Row(status=410, effect=Effect.DEAD, note="The app was uninstalled, or the device's token was replaced."),
        Row(
            status=400,
            code="BadDeviceToken",
            effect=Effect.DEAD,
            note="The target is not a device token, or one of the other environment (sandbox or production).",
        ),
        Row(status=400, code="DeviceTokenNotForTopic", effect=Effect.WRONG, note="The target belongs to another app."),
        *(
            Row(
                status=400,
                code=code,
                effect=Effect.CREDENTIALS,
                note="The app's topic or push type is wrong: correct its settings.",
            )
            for code in ("TopicDisallowed", "BadTopic", "MissingTopic", "InvalidPushType")
        ),
        Row(status=400, code="IdleTimeout", effect=Effect.LATER, note="The connection was idle for too long."),
        Row(status=413, effect=Effect.PAYLOAD, note="The payload is too large: at most 4,096 bytes, for voip 5,120."),
        Row(
            status=403,
            code="ExpiredProviderToken",
            effect=Effect.CREDENTIALS,
            renew=True,
            note="The provider token is too old: check this machine's clock.",
        ),
        Row(
            status=403,
            effect=Effect.CREDENTIALS,
            note="APNs does not accept the key or certificate, or not in this environment.",
        ),
        Row(
            status=429,
            code="TooManyProviderTokenUpdates",
            effect=Effect.LIMIT,
            wait_s=TOKEN_UPDATE_S,
            note="The provider token changed more than once in 20 minutes: another sender uses the same key.",
        ),
        Row(status=429, effect=Effect.LATER, wait_s=60.0, note="This device gets too many notifications."),
        Row(status=4, effect=Effect.PAYLOAD, note="APNs refuses the notification's headers or payload."),
        Row(status=503, code="Shutdown", effect=Effect.DOWN, wait_s=AFTER_5XX_S, note="The APNs server shuts down."),
        Row(status=503, effect=Effect.DOWN, wait_s=AFTER_5XX_S, note="APNs is not available."),
        Row(status=5, effect=Effect.DOWN, wait_s=AFTER_5XX_S, may_be_taken=True, note="APNs failed."),
    )
)


def read_answer(status: int, body: bytes, apns_id: str = "") -> Answer:
    """Read an answer to a notification. Any body can be read; one that is not of APNs has no code."""
    if status == 200 and is_id(apns_id):
        return Answer(status=status, reference=apns_id)
    if 200 <= status < 300:
        return Answer(status=200, detail=STRANGE_BODY, reason=f"HTTP {status}")
    fields = json_object(body)
    code = text(fields.get("reason"))
    return Answer(
        status=status,
        code=code,
        detail="" if code or status in _TELLING else STRANGE_BODY,
        reason=code or f"HTTP {status}",
        died_ms=_time(fields.get("timestamp")),
    )


def is_id(apns_id: str) -> bool:
    """Return whether the header apns-id holds an id, as each notification that APNs took has one."""
    return _is_uuid(apns_id) is not None


def _time(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MAX_TIME_MS else 0
